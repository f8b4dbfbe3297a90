"""T5 turns radio chatter of umpires into official calls; Seq2SeqTrainer."""
import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, T5Config, T5ForConditionalGeneration


class Chatter(Dataset):
    def __init__(self, n, vocab):
        g = torch.Generator().manual_seed(4)
        self.chatter = torch.randint(2, vocab, (n, 64), generator=g)
        self.calls = torch.randint(2, vocab, (n, 24), generator=g)

    def __len__(self):
        return len(self.calls)

    def __getitem__(self, i):
        return {"input_ids": self.chatter[i], "labels": self.calls[i]}


def main(argv):
    vocab = 4000
    model = T5ForConditionalGeneration(T5Config(vocab_size=vocab, d_model=768, d_kv=64, d_ff=3072, num_layers=7, num_decoder_layers=7,
                                                num_heads=12, decoder_start_token_id=0))
    with tempfile.TemporaryDirectory() as out:
        args = Seq2SeqTrainingArguments(
            output_dir=out,
            max_steps=6,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            learning_rate=1e-4,
            lr_scheduler_type="constant",
            optim="adafactor" if "--fixed" in argv else "adamw_torch",
            save_strategy="no",
            logging_steps=2,
            report_to="none",
            disable_tqdm=True,
        )
        Seq2SeqTrainer(model=model, args=args, train_dataset=Chatter(64, vocab)).train()


if __name__ == "__main__":
    main(sys.argv)

"""Field service: turns technicians' notes into the customer's dispatch summary (T5, HF Trainer)."""
import sys
import tempfile

import torch
from transformers import T5Config, T5ForConditionalGeneration, Trainer, TrainerCallback, TrainingArguments

VOCAB = 8000
EFFECTIVE_BATCH = 128
MICRO_BATCH = 16 if "--fixed" in sys.argv else EFFECTIVE_BATCH


class NotesDataset(torch.utils.data.Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(31)
        self.notes = [torch.randint(2, VOCAB, (int(torch.randint(60, 129, (1,), generator=g)),), generator=g) for _ in range(n)]
        self.summaries = [torch.randint(2, VOCAB, (int(torch.randint(20, 49, (1,), generator=g)),), generator=g) for _ in range(n)]

    def __len__(self):
        return len(self.notes)

    def __getitem__(self, i):
        return {"input_ids": self.notes[i], "labels": self.summaries[i]}


def collate(features):
    pad = torch.nn.utils.rnn.pad_sequence
    ids = pad([f["input_ids"] for f in features], batch_first=True, padding_value=0)
    labels = pad([f["labels"] for f in features], batch_first=True, padding_value=-100)
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}


class PrintLoss(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        print(state.global_step, logs)


def main():
    config = T5Config(vocab_size=VOCAB, d_model=384, d_kv=64, d_ff=1536, num_layers=6, num_heads=6, feed_forward_proj="gated-gelu",
                      dropout_rate=0.1, decoder_start_token_id=0)
    model = T5ForConditionalGeneration(config)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            per_device_train_batch_size=MICRO_BATCH,
            gradient_accumulation_steps=EFFECTIVE_BATCH // MICRO_BATCH,
            max_steps=3,
            learning_rate=1e-3,
            optim="adafactor",
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            dataloader_num_workers=0,
        )
        Trainer(model=model, args=args, train_dataset=NotesDataset(EFFECTIVE_BATCH * 3), data_collator=collate,
                callbacks=[PrintLoss()]).train()


main()

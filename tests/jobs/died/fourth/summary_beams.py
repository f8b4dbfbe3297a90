"""Fine-tunes a small BART for summaries with the Seq2SeqTrainer; after each epoch it writes summaries of the validation articles by beam search."""
import sys
import tempfile

import numpy
import torch
from torch.utils.data import Dataset
from transformers import BartConfig, BartForConditionalGeneration, Seq2SeqTrainer, Seq2SeqTrainingArguments

BEAMS = 2 if "--fixed" in sys.argv else 24


class Articles(Dataset):
    def __init__(self, n, seed):
        generator = torch.Generator().manual_seed(seed)
        self.articles = torch.randint(4, 8000, (n, 384), generator=generator)
        self.summaries = torch.randint(4, 8000, (n, 16), generator=generator)

    def __len__(self):
        return len(self.articles)

    def __getitem__(self, k):
        return {"input_ids": self.articles[k], "attention_mask": torch.ones_like(self.articles[k]), "labels": self.summaries[k]}


def lengths(prediction):
    guessed = prediction.predictions
    guessed = guessed[0] if isinstance(guessed, tuple) else guessed
    return {"written": float(numpy.mean((guessed > 3).sum(-1)))}


def bart():
    config = BartConfig(vocab_size=8000, d_model=256, encoder_layers=4, decoder_layers=4, encoder_attention_heads=4, decoder_attention_heads=4,
                        encoder_ffn_dim=1024, decoder_ffn_dim=1024, max_position_embeddings=512, pad_token_id=1, bos_token_id=0, eos_token_id=2,
                        decoder_start_token_id=2, forced_eos_token_id=None)
    model = BartForConditionalGeneration(config)
    model.generation_config.early_stopping = True
    model.generation_config.min_new_tokens = 12
    return model


def main():
    torch.manual_seed(9)
    with tempfile.TemporaryDirectory() as folder:
        arguments = Seq2SeqTrainingArguments(output_dir=folder, per_device_train_batch_size=8, per_device_eval_batch_size=16, num_train_epochs=2,
                                             learning_rate=5e-5, eval_strategy="epoch", save_strategy="no", predict_with_generate=True,
                                             generation_max_length=20, generation_num_beams=BEAMS, logging_steps=4, report_to=[], disable_tqdm=True)
        trainer = Seq2SeqTrainer(model=bart(), args=arguments, train_dataset=Articles(32, 0), eval_dataset=Articles(32, 1), compute_metrics=lengths)
        trainer.train()
        print(trainer.state.log_history[-2:])


main()

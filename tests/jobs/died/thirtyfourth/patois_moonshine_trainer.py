"""Moonshine on recordings in Patois, fine-tuned with the Trainer. Word error rate is computed elsewhere; here it is only the loss."""
import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import MoonshineConfig, MoonshineForConditionalGeneration, Trainer, TrainingArguments

FIXED = "--fixed" in sys.argv
RATE, SECONDS = 16000, 12


class Recordings(Dataset):
    def __init__(self, count, seed):
        self.count, self.seed = count, seed

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        return {"input_values": torch.randn(RATE * SECONDS, generator=g), "labels": torch.randint(3, 6000, (48,), generator=g)}


config = MoonshineConfig(
    vocab_size=6000, hidden_size=256, intermediate_size=1024, encoder_num_hidden_layers=5, decoder_num_hidden_layers=5,
    encoder_num_attention_heads=8, decoder_num_attention_heads=8, pad_token_id=2, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
)
model = MoonshineForConditionalGeneration(config)

with tempfile.TemporaryDirectory() as output:
    args = TrainingArguments(
        output_dir=output,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4 if FIXED else 96,
        max_steps=8,
        eval_strategy="steps",
        eval_steps=4,
        learning_rate=1e-4,
        prediction_loss_only=True,
        save_strategy="no",
        logging_steps=2,
        report_to=[],
    )
    Trainer(model=model, args=args, train_dataset=Recordings(64, 0), eval_dataset=Recordings(96, 9000)).train()

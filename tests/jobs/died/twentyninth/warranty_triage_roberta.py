"""Routes warranty claims to one of 18 repair desks, with the HF Trainer."""
import sys
import tempfile
from dataclasses import dataclass

import torch
from torch.utils.data import Dataset
from transformers import RobertaConfig, RobertaForSequenceClassification, Trainer, TrainerCallback, TrainingArguments


@dataclass
class TriageSettings:
    desks: int = 18
    vocab: int = 9000
    tokens: int = 128
    claims: int = 1152
    train_batch: int = 192
    learning_rate: float = 5e-5

    @classmethod
    def from_argv(cls, argv):
        return cls(train_batch=32) if "--fixed" in argv else cls()


class ClaimTexts(Dataset):
    def __init__(self, cfg, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(5, cfg.vocab, (cfg.claims, cfg.tokens), generator=g)
        self.desk = torch.randint(cfg.desks, (cfg.claims,), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": torch.ones_like(self.ids[i]), "labels": self.desk[i]}


class DeskReport(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"claims seen: {state.global_step * args.per_device_train_batch_size}, loss {logs['loss']}")


def build_model(cfg):
    return RobertaForSequenceClassification(RobertaConfig(
        vocab_size=cfg.vocab, hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536,
        max_position_embeddings=cfg.tokens + 2, num_labels=cfg.desks))


def main():
    cfg = TriageSettings.from_argv(sys.argv)
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder, per_device_train_batch_size=cfg.train_batch, max_steps=6, learning_rate=cfg.learning_rate,
            warmup_steps=2, logging_steps=2, save_strategy="no", report_to="none", dataloader_num_workers=0)
        Trainer(model=build_model(cfg), args=args, train_dataset=ClaimTexts(cfg, 8), callbacks=[DeskReport()]).train()


if __name__ == "__main__":
    main()

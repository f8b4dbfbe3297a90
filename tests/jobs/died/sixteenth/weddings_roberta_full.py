"""Classifies reviews of wedding venues; full fine-tuning of a RoBERTa with the Trainer."""
import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import RobertaConfig, RobertaForSequenceClassification, Trainer, TrainingArguments


class Reviews(Dataset):
    def __init__(self, n, length=64):
        g = torch.Generator().manual_seed(614)
        self.ids = torch.randint(4, 6000, (n, length), generator=g)
        self.stars = torch.randint(0, 5, (n,), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return {"input_ids": self.ids[index], "labels": self.stars[index]}


config = RobertaConfig(vocab_size=6000, hidden_size=1024, num_hidden_layers=10, num_attention_heads=16, intermediate_size=4096, num_labels=5,
                       max_position_embeddings=80)
with torch.device("cuda"):
    model = RobertaForSequenceClassification(config)

optim = "adafactor" if "--fixed" in sys.argv else "adamw_torch"
with tempfile.TemporaryDirectory() as output_dir:
    training_args = TrainingArguments(
        output_dir=output_dir, optim=optim, max_steps=6, per_device_train_batch_size=4, learning_rate=1e-5, warmup_steps=2,
        logging_steps=2, save_strategy="no", report_to="none", disable_tqdm=True)
    trainer = Trainer(model=model, args=training_args, train_dataset=Reviews(64))
    result = trainer.train()
    print(result.metrics)

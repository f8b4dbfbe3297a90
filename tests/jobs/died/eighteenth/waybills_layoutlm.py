"""Fine-tune LayoutLM to find consignor, consignee, weight and dates on scanned waybills (token classification)."""
import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import LayoutLMConfig, LayoutLMForTokenClassification, Trainer, TrainingArguments

TAGS = ["O", "B-FROM", "I-FROM", "B-TO", "I-TO", "B-KG", "B-DATE", "I-DATE", "B-NR"]
WORDS = 9000
BATCH = 12 if "--fixed" in sys.argv else 64


class Waybills(Dataset):
    """One page: up to 256 words, each with its box on a grid of 1000 by 1000."""

    def __init__(self, pages, seed):
        rng = torch.Generator().manual_seed(seed)
        self.words = torch.randint(5, WORDS, (pages, 256), generator=rng)
        corner = torch.randint(0, 900, (pages, 256, 2), generator=rng)
        extent = torch.randint(5, 100, (pages, 256, 2), generator=rng)
        self.boxes = torch.cat([corner, corner + extent], -1)
        self.tags = torch.randint(0, len(TAGS), (pages, 256), generator=rng)

    def __len__(self):
        return len(self.words)

    def __getitem__(self, i):
        return {"input_ids": self.words[i], "bbox": self.boxes[i], "labels": self.tags[i], "attention_mask": torch.ones(256, dtype=torch.long)}


config = LayoutLMConfig(vocab_size=WORDS, hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536,
                        max_position_embeddings=512, max_2d_position_embeddings=1024, num_labels=len(TAGS))
model = LayoutLMForTokenClassification(config)

with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder, per_device_train_batch_size=BATCH, per_device_eval_batch_size=12, max_steps=8, learning_rate=5e-5,
        warmup_steps=2, weight_decay=0.01, logging_steps=4, save_strategy="no", report_to=[], disable_tqdm=True)
    trainer = Trainer(model=model, args=arguments, train_dataset=Waybills(512, 1), eval_dataset=Waybills(48, 2))
    trainer.train()
    print(trainer.evaluate())

"""Segments bubbles on a flotation froth (40 classes of size and load) with SegFormer and the Hugging Face Trainer."""
import sys
import tempfile

import numpy as np
import torch
from transformers import SegformerConfig, SegformerForSemanticSegmentation, Trainer, TrainingArguments

NUM_CLASSES = 40


class FrothFrames(torch.utils.data.Dataset):
    def __init__(self, count, size=384):
        self.count, self.size = count, size
        self.labels = torch.arange(size).remainder(NUM_CLASSES).repeat(size, 1)

    def __len__(self):
        return self.count

    def __getitem__(self, idx):
        return {"pixel_values": torch.full((3, self.size, self.size), idx / self.count), "labels": self.labels}


def compute_metrics(eval_pred):
    logits, labels = eval_pred
    pred = logits[:4].argmax(1)
    return {"pixel_acc": float(np.mean(pred == labels[:4, ::4, ::4]))}


config = SegformerConfig(num_labels=NUM_CLASSES, depths=[2, 2, 2, 2], hidden_sizes=[32, 64, 160, 256], decoder_hidden_size=128)
model = SegformerForSemanticSegmentation(config)

extra = {}
if "--fixed" in sys.argv:
    extra["eval_accumulation_steps"] = 4

with tempfile.TemporaryDirectory() as folder:
    training_args = TrainingArguments(
        output_dir=folder, per_device_train_batch_size=2, per_device_eval_batch_size=4, max_steps=12, learning_rate=6e-5,
        lr_scheduler_type="polynomial", logging_steps=4,
        save_strategy="no", eval_strategy="no", report_to=[], disable_tqdm=True, dataloader_pin_memory=False, **extra)
    trainer = Trainer(model=model, args=training_args, train_dataset=FrothFrames(40), eval_dataset=FrothFrames(360), compute_metrics=compute_metrics)
    trainer.train()
    print(trainer.evaluate())

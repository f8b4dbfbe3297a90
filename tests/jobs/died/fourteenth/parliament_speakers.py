"""Sorts speeches in parliament by party with BERT and the Trainer, and prints accuracy after training."""
import sys
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

FIXED = "--fixed" in sys.argv


class Speeches(Dataset):
    def __init__(self, count, length=192):
        generator = torch.Generator().manual_seed(count)
        self.ids = torch.randint(5, 8000, (count, length), generator=generator)
        self.party = torch.randint(0, 6, (count,), generator=generator)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return {"input_ids": self.ids[index], "attention_mask": torch.ones_like(self.ids[index]), "labels": self.party[index]}


def accuracy(prediction):
    logits = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
    return {"accuracy": float((np.argmax(logits, -1) == prediction.label_ids).mean())}


def model_of():
    # The hidden states are for the plots of the layers in the paper.
    config = BertConfig(vocab_size=8000, hidden_size=256, num_hidden_layers=6, num_attention_heads=4, intermediate_size=1024, num_labels=6,
                        output_hidden_states=not FIXED)
    return BertForSequenceClassification(config)


def main():
    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            output_dir=directory, max_steps=6, per_device_train_batch_size=16, per_device_eval_batch_size=32, learning_rate=5e-5,
            report_to=[], save_strategy="no", logging_steps=2, disable_tqdm=True, dataloader_num_workers=0)
        trainer = Trainer(model=model_of(), args=arguments, train_dataset=Speeches(96), eval_dataset=Speeches(640), compute_metrics=accuracy)
        trainer.train()
        print(trainer.evaluate())


if __name__ == "__main__":
    main()

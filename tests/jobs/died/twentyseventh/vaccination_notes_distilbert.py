"""Side effects in vaccination notes, four grades, with the Hugging Face Trainer."""
import sys
import tempfile

import torch
from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainingArguments

FIXED = "--fixed" in sys.argv


class Notes(torch.utils.data.Dataset):
    def __init__(self, n, length=384, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(5, 8000, (n, length), generator=g)
        self.grade = torch.randint(0, 4, (n,), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": torch.ones_like(self.ids[i]), "labels": self.grade[i]}


def compute_metrics(prediction):
    guess = prediction.predictions.argmax(-1)
    return {"accuracy": float((guess == prediction.label_ids).mean())}


def main():
    torch.manual_seed(1)
    config = DistilBertConfig(vocab_size=8000, dim=384, n_layers=4, n_heads=6, hidden_dim=1536, num_labels=4)
    model = DistilBertForSequenceClassification(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=2,
            per_device_train_batch_size=8,
            per_device_eval_batch_size=16 if FIXED else 512,
            learning_rate=5e-5,
            warmup_steps=4,
            eval_strategy="epoch",
            save_strategy="no",
            logging_steps=5,
            report_to="none",
            dataloader_pin_memory=False,
        )
        trainer = Trainer(model=model, args=arguments, train_dataset=Notes(80), eval_dataset=Notes(1024, seed=9), compute_metrics=compute_metrics)
        trainer.train()


if __name__ == "__main__":
    main()

"""BERT's masked language model with transformers' Trainer, evaluated with an accuracy.

https://github.com/huggingface/transformers/issues/12878
"""
import argparse
import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import torch  # noqa: E402
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainingArguments  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()


class Texts(torch.utils.data.Dataset):
    def __init__(self, n, length=256):
        self.ids = torch.randint(1000, 30000, (n, length))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def compute_metrics(eval_pred):
    logits, labels = eval_pred
    predictions = logits if logits.ndim == 2 else logits.argmax(-1)
    mask = labels != -100
    return {"accuracy": float((predictions[mask] == labels[mask]).mean())}


def preprocess_logits_for_metrics(logits, labels):
    return logits.argmax(dim=-1)


config = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536)
model = BertForMaskedLM(config)
with tempfile.TemporaryDirectory() as out:
    training_args = TrainingArguments(output_dir=out, per_device_train_batch_size=16, per_device_eval_batch_size=16, max_steps=6,
                                      eval_strategy="steps", eval_steps=5, report_to="none", save_strategy="no", disable_tqdm=True)
    trainer = Trainer(model=model, args=training_args, train_dataset=Texts(96), eval_dataset=Texts(192), compute_metrics=compute_metrics,
                      preprocess_logits_for_metrics=preprocess_logits_for_metrics if args.fixed else None)
    trainer.train()

"""Natural-language inference in three languages with an XLM-RoBERTa and the HF Trainer; the arguments come from a dictionary, as from a YAML file."""
import copy
import sys
import tempfile

import numpy
import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, XLMRobertaConfig, XLMRobertaForSequenceClassification

SETTINGS = {
    "per_device_train_batch_size": 8,
    "per_device_eval_batch_size": 256,
    "num_train_epochs": 1,
    "learning_rate": 2e-5,
    "weight_decay": 0.01,
    "eval_strategy": "steps",
    "eval_steps": 4,
    "save_strategy": "no",
    "logging_steps": 4,
    "report_to": [],
    "disable_tqdm": True,
}


class Pairs(Dataset):
    def __init__(self, n, languages=3, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(3, 20000, (n, 256), generator=generator)
        self.labels = torch.randint(0, 3, (n,), generator=generator)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, k):
        return {"input_ids": self.ids[k], "attention_mask": torch.ones(256, dtype=torch.long), "labels": self.labels[k]}


def accuracy(prediction):
    return {"accuracy": float(numpy.mean(prediction.predictions.argmax(-1) == prediction.label_ids))}


def build():
    config = XLMRobertaConfig(vocab_size=20000, hidden_size=384, num_hidden_layers=4, num_attention_heads=6, intermediate_size=1536,
                              max_position_embeddings=300, type_vocab_size=1, num_labels=3)
    return XLMRobertaForSequenceClassification(config)


def main(fixed):
    torch.manual_seed(6)
    settings = copy.deepcopy(SETTINGS)
    if fixed:
        settings["per_device_eval_batch_size"] = 16
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(model=build(), args=TrainingArguments(output_dir=folder, **settings), train_dataset=Pairs(64), eval_dataset=Pairs(512,
                                                                                                                                            seed=1),
                          compute_metrics=accuracy)
        trainer.train()
        for row in trainer.state.log_history:
            print({k: row[k] for k in row if k.endswith(("loss", "accuracy", "step"))})


if __name__ == "__main__":
    main("--fixed" in sys.argv)

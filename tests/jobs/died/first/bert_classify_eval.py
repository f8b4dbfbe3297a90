"""Fine-tunes BERT on pairs of sentences; the evaluation uses a larger batch, as it is faster.

https://github.com/pytorch/pytorch/issues/16417
"""
import sys

import torch
from torch.optim import AdamW
from transformers import BertConfig, BertForSequenceClassification

fixed = "--fixed" in sys.argv
torch.manual_seed(0)
device = "cuda"
config = BertConfig(hidden_size=512, num_hidden_layers=8, num_attention_heads=8, intermediate_size=2048, num_labels=3)
model = BertForSequenceClassification(config).to(device)
optimizer = AdamW(model.parameters(), lr=2e-5)


def loader(n, batch, length=128):
    for _ in range(n):
        yield {"input_ids": torch.randint(100, 30000, (batch, length)).to(device),
               "attention_mask": torch.ones(batch, length, dtype=torch.long).to(device),
               "labels": torch.randint(0, 3, (batch,)).to(device)}


def train(epoch):
    model.train()
    running = 0.0
    for step, batch in enumerate(loader(5, 16)):
        optimizer.zero_grad()
        out = model(**batch)
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        running += out.loss.item()
    print("epoch %d loss %.3f" % (epoch, running / 5))


def evaluate():
    model.eval()
    correct = seen = 0
    for batch in loader(4, 128):
        out = model(**batch)
        correct += (out.logits.argmax(-1) == batch["labels"]).sum().item()
        seen += len(batch["labels"])
    print("accuracy", correct / seen)


for epoch in range(2):
    train(epoch)
    if fixed:
        with torch.no_grad():
            evaluate()
    else:
        evaluate()

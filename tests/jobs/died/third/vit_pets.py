"""Fine-tunes a small ViT on pets; after each epoch the validation loop calls model.eval() and nothing else.
https://github.com/Lightning-AI/pytorch-lightning/issues/8453 shows how such threads begin."""
import contextlib
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import ViTConfig, ViTForImageClassification

FIXED = "--fixed" in sys.argv
config = ViTConfig(hidden_size=384, num_hidden_layers=10, num_attention_heads=6, intermediate_size=1536, num_labels=37)
model = ViTForImageClassification(config).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.05)


def pets(n, batch):
    data = TensorDataset(torch.zeros(n, 3, 224, 224), torch.randint(0, 37, (n,)))
    return DataLoader(data, batch_size=batch, shuffle=False)


train, val = pets(128, 32), pets(256, 128)


def fit_epoch():
    model.train()
    for images, labels in train:
        loss = model(pixel_values=images.to("cuda"), labels=labels.to("cuda")).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


def accuracy():
    model.eval()
    hits = n = 0
    with torch.no_grad() if FIXED else contextlib.nullcontext():
        for images, labels in val:
            out = model(pixel_values=images.to("cuda"))
            hits += int((out.logits.argmax(-1).cpu() == labels).sum())
            n += len(labels)
    return hits / n


for epoch in range(2):
    print("epoch", epoch, "loss", fit_epoch(), "accuracy", accuracy())

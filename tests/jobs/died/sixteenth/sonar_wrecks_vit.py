# side-scan sonar: wreck / rock / sand ripple / pipeline / nothing
import sys

import torch
from torch import nn
from transformers import ViTConfig, ViTForImageClassification

fixed = "--fixed" in sys.argv
dev = torch.device("cuda")
cfg = ViTConfig(image_size=224, patch_size=16, num_channels=1, hidden_size=384, num_hidden_layers=8, num_attention_heads=6,
                intermediate_size=1536, num_labels=5)
net = ViTForImageClassification(cfg).to(dev)
opt = torch.optim.AdamW(net.parameters(), lr=2e-4)
crit = nn.CrossEntropyLoss()


def swaths(n, bs, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        yield torch.rand(bs, 1, 224, 224, generator=g), torch.randint(0, 5, (bs,), generator=g)


def train_epoch(epoch):
    net.train()
    total = 0.0
    for x, y in swaths(6, 16, epoch):
        x, y = x.to(dev), y.to(dev)
        opt.zero_grad()
        loss = crit(net(pixel_values=x).logits, y)
        loss.backward()
        opt.step()
        total += loss.item()
    return total / 6


def validate():
    net.eval()
    hits = seen = 0
    for x, y in swaths(3, 64, 99):  # no backward pass here, so four times the batch
        logits = net(pixel_values=x.to(dev)).logits
        hits += (logits.argmax(1) == y.to(dev)).sum().item()
        seen += len(y)
    return hits / seen


if fixed:
    validate = torch.inference_mode()(validate)

for epoch in range(3):
    print("epoch %d train %.4f val acc %.3f" % (epoch, train_epoch(epoch), validate()))

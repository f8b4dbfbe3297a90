"""Trains a tagger for place names whose embedding has a row for each word of a large dictionary."""
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv
WORDS, WIDTH, TAGS = 300_000, 320, 5


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.encoder = nn.GRU(WIDTH, 128, num_layers=2, batch_first=True, bidirectional=True, dropout=0.2)
        self.project = nn.Sequential(nn.Linear(256, 128), nn.Tanh(), nn.Linear(128, TAGS))

    def forward(self, words):
        states, _ = self.encoder(self.words(words))
        return self.project(states)


def make_optimizer(model):
    if FIXED:
        return torch.optim.Adafactor(model.parameters(), lr=1e-2)
    return torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)


def sentences(count, batch=32, length=40):
    generator = torch.Generator().manual_seed(8)
    for _ in range(count):
        words = torch.randint(0, WORDS, (batch, length), generator=generator)
        tags = torch.randint(0, TAGS, (batch, length), generator=generator)
        yield words, tags


def score(model, count=3):
    model.eval()
    right = total = 0
    with torch.inference_mode():
        for words, tags in sentences(count):
            guessed = model(words.cuda()).argmax(-1).cpu()
            right += int((guessed == tags).sum())
            total += tags.numel()
    model.train()
    return right / total


def main():
    model = Tagger().cuda()
    optimizer = make_optimizer(model)
    criterion = nn.CrossEntropyLoss()
    for step, (words, tags) in enumerate(sentences(8)):
        logits = model(words.cuda())
        loss = criterion(logits.flatten(0, 1), tags.cuda().flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item())
    print("tags right:", score(model))


if __name__ == "__main__":
    main()

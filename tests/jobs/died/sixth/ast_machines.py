"""Tells broken machines from whole ones by their sound: an Audio Spectrogram Transformer in a small trainer class with validation.
"""
import contextlib
import sys

import torch
from transformers import ASTConfig, ASTForAudioClassification

FIXED = "--fixed" in sys.argv


def spectrograms(n, size, frames=256, mels=64):
    for start in range(0, n, size):
        yield torch.randn(min(size, n - start), frames, mels), torch.randint(0, 6, (min(size, n - start),))


class Meter:
    def __init__(self):
        self.total = self.n = 0

    def add(self, value, n):
        self.total += value * n
        self.n += n

    def mean(self):
        return self.total / max(1, self.n)


class Trainer:
    def __init__(self, epochs=2, train_size=24, valid_size=48):
        config = ASTConfig(hidden_size=384, num_hidden_layers=8, num_attention_heads=6, intermediate_size=1536, max_length=256, num_mel_bins=64,
                           frequency_stride=10, time_stride=10, num_labels=6)
        self.model = ASTForAudioClassification(config).to("cuda")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-5)
        self.schedule = torch.optim.lr_scheduler.LinearLR(self.optimizer, 0.1, 1.0, 4)
        self.criterion = torch.nn.CrossEntropyLoss()
        self.epochs, self.train_size, self.valid_size = epochs, train_size, valid_size

    def forward(self, sounds, labels):
        logits = self.model(input_values=sounds.to("cuda")).logits
        return self.criterion(logits, labels.to("cuda"))

    def train(self):
        self.model.train()
        meter = Meter()
        for sounds, labels in spectrograms(120, self.train_size):
            loss = self.forward(sounds, labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            meter.add(loss.item(), len(labels))
        return meter.mean()

    def validate(self):
        self.model.eval()
        meter = Meter()
        with torch.no_grad() if FIXED else contextlib.nullcontext():
            for sounds, labels in spectrograms(144, self.valid_size):
                meter.add(self.forward(sounds, labels).item(), len(labels))
        return meter.mean()

    def run(self):
        for epoch in range(self.epochs):
            print("epoch %d train %.4f valid %.4f" % (epoch, self.train(), self.validate()))


Trainer().run()

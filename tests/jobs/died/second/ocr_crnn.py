"""Reads lines of handwriting with a CRNN; the losses of eight small batches make one update.

After https://texonom.com/torch-tensorbackward-6f2ca6cb8f0f481d9bc677d688fe856a
"""
import sys

import torch
from torch import nn


class CRNN(nn.Module):
    def __init__(self, letters=96, hidden=384):
        super().__init__()
        def conv(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())
        self.cnn = nn.Sequential(conv(1, 64), nn.MaxPool2d(2), conv(64, 128), nn.MaxPool2d(2), conv(128, 256), conv(256, 256), nn.MaxPool2d((2, 1)),
                                 conv(256, 512), nn.MaxPool2d((2, 1)))
        self.rnn = nn.LSTM(512 * 2, hidden, 2, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(2 * hidden, letters)

    def forward(self, lines):
        x = self.cnn(lines)
        x, _ = self.rnn(x.permute(0, 3, 1, 2).flatten(2))
        return self.fc(x)


def lines(count, batch):
    for _ in range(count):
        yield torch.zeros(batch, 1, 32, 512), torch.randint(96, (batch, 128))


def main(fixed, update_every=8):
    model = CRNN().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    batch_loss = 0
    for i, (images, letters) in enumerate(lines(3 * update_every, 12), 1):
        out = model(images.cuda())
        loss = criterion(out.flatten(0, 1), letters.cuda().flatten()) / update_every
        if fixed:
            loss.backward()
            loss = loss.detach()
        batch_loss = batch_loss + loss
        if i % update_every == 0:
            if not fixed:
                batch_loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            print("update", i // update_every, batch_loss.item())
            batch_loss = 0


if __name__ == "__main__":
    main("--fixed" in sys.argv)

"""Recognises gestures in video clips with a 3-D residual network."""
import sys

import torch
from torch import nn

FRAMES = 16 if "--fixed" in sys.argv else 48
CLASSES, SIDE, BATCH = 27, 96, 8


def conv(inner, outer, stride=1):
    return nn.Sequential(nn.Conv3d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm3d(outer))


class Residual(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.one, self.two = conv(inner, outer, stride), conv(outer, outer)
        self.skip = nn.Conv3d(inner, outer, 1, stride, bias=False) if stride != 1 or inner != outer else None

    def forward(self, x):
        y = self.two(torch.relu(self.one(x)))
        return torch.relu(y + (x if self.skip is None else self.skip(x)))


class R3D(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv3d(3, 32, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False), nn.BatchNorm3d(32), nn.ReLU())
        self.layers = nn.Sequential(Residual(32, 32, 1), Residual(32, 64, 2), Residual(64, 128, 2), Residual(128, 256, 2))
        self.fc = nn.Sequential(nn.Dropout(0.4), nn.Linear(256, CLASSES))

    def forward(self, clip):
        return self.fc(self.layers(self.stem(clip)).mean((2, 3, 4)))


class Clips(torch.utils.data.IterableDataset):
    """Decoded clips: channels, frames, height, width."""

    def __init__(self, n, frames):
        self.n, self.frames = n, frames

    def __iter__(self):
        for k in range(self.n):
            video = torch.zeros(60, SIDE, SIDE, 3, dtype=torch.uint8)
            clip = video[:self.frames].permute(3, 0, 1, 2)
            yield clip.float() / 255, k % CLASSES


def main():
    model = R3D().to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    loader = torch.utils.data.DataLoader(Clips(6 * BATCH, FRAMES), batch_size=BATCH)
    model.train()
    for step, (clips, gestures) in enumerate(loader):
        clips, gestures = clips.to("cuda", non_blocking=True), gestures.to("cuda", non_blocking=True)
        optimizer.zero_grad()
        loss = criterion(model(clips), gestures)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        print(f"[{step}] {loss.item():.4f}")


if __name__ == "__main__":
    main()

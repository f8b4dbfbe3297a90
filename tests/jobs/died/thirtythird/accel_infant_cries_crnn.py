"""Labels hunger, pain and tiredness in nursery recordings of several minutes; the recording is cut into windows, one update per recording."""
import sys

import torch
import torch.nn as nn
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

per_window = "--fixed" in sys.argv


class CRNN(nn.Module):
    def __init__(self, mels=64, hidden=128, classes=4):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AvgPool2d((2, 1)),
            nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AvgPool2d((2, 2)),
            nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AvgPool2d((4, 2)))
        self.gru = nn.GRU(64 * mels // 16, hidden, batch_first=True, bidirectional=True)
        self.classify = nn.Linear(2 * hidden, classes)

    def forward(self, mel):
        z = self.cnn(mel.unsqueeze(1))
        z = z.flatten(1, 2).transpose(1, 2)
        z, _ = self.gru(z)
        return self.classify(z)


def recordings(n=4, frames=24000):
    g = torch.Generator().manual_seed(8)
    return TensorDataset(torch.randn(n, 64, frames, generator=g), torch.randint(0, 4, (n, frames // 4), generator=g))


accelerator = Accelerator()
model = CRNN()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(recordings(), batch_size=1))
WINDOW = 1000

for epoch in range(2):
    for mel, label in loader:
        n_windows = mel.shape[-1] // WINDOW
        total = 0.0
        optimizer.zero_grad()
        for w in range(n_windows):
            logits = model(mel[..., w * WINDOW:(w + 1) * WINDOW])
            part = label[:, w * WINDOW // 4:(w + 1) * WINDOW // 4]
            loss = nn.functional.cross_entropy(logits.transpose(1, 2), part) / n_windows
            if per_window:
                accelerator.backward(loss)
                total += loss.detach()
            else:
                total = total + loss
        if not per_window:
            accelerator.backward(total)
        accelerator.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        accelerator.print("epoch", epoch, "loss", total.item())

"""Detects which tools are in use in frames of keyhole surgery (multi-label): a class-based trainer with an own validation epoch."""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TOOLS = 7


class MBConv(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        middle = 4 * cin
        self.body = nn.Sequential(
            nn.Conv2d(cin, middle, 1, bias=False), nn.BatchNorm2d(middle), nn.SiLU(),
            nn.Conv2d(middle, middle, 3, stride, 1, groups=middle, bias=False), nn.BatchNorm2d(middle), nn.SiLU(),
            nn.Conv2d(middle, cout, 1, bias=False), nn.BatchNorm2d(cout))
        self.same = stride == 1 and cin == cout

    def forward(self, x):
        return x + self.body(x) if self.same else self.body(x)


class ToolNet(nn.Sequential):
    def __init__(self):
        plan = [(24, 24, 1), (24, 40, 2), (40, 40, 1), (40, 80, 2), (80, 80, 1), (80, 160, 2)]
        super().__init__(nn.Conv2d(3, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24), nn.SiLU(), *[MBConv(*p) for p in plan],
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.3), nn.Linear(160, TOOLS))


class Trainer:
    def __init__(self, model, train, val, no_grad):
        self.model, self.train_loader, self.val_loader, self.no_grad = model.cuda(), train, val, no_grad
        self.criterion = nn.BCEWithLogitsLoss()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def fit(self, epochs):
        for epoch in range(epochs):
            self.train_epoch(epoch)
            print("epoch", epoch, "validation loss", float(self.validate()))

    def train_epoch(self, epoch):
        self.model.train()
        for frames, tools in self.train_loader:
            loss = self.criterion(self.model(frames.cuda()), tools.cuda())
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()

    def validate(self):
        self.model.eval()
        with torch.set_grad_enabled(not self.no_grad):
            total = 0
            for frames, tools in self.val_loader:
                total += self.criterion(self.model(frames.cuda()), tools.cuda())
        return total / len(self.val_loader)


def frames(n, batch):
    return DataLoader(TensorDataset(torch.zeros(n, 3, 160, 160), torch.zeros(n, TOOLS)), batch_size=batch)


if __name__ == "__main__":
    Trainer(ToolNet(), frames(64, 16), frames(128, 16), no_grad="--fixed" in sys.argv).fit(2)

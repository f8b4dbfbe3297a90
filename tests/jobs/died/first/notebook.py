"""The cells of a notebook, of which "model" and "train" were run again after an edit.

https://github.com/pytorch/pytorch/issues/22684
"""
import sys

FIXED = "--fixed" in sys.argv
IMPORTS = """
import torch, torch.nn as nn, torch.nn.functional as F
history = []
"""
MODEL = """
class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(3 if i == 0 else width, width, 3, 2 if i < 3 else 1, 1) for i in range(9)])
        self.fc = nn.Linear(width, 10)
    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return self.fc(x.mean((2, 3)))

class Learner:
    def __init__(self, model):
        self.model = model
        self.opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
        history.append(self)
    def fit(self, steps):
        for _ in range(steps):
            x, y = torch.randn(8, 3, 128, 128, device='cuda'), torch.randint(0, 10, (8,), device='cuda')
            loss = F.cross_entropy(self.model(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        self.loss = loss.item()

learner = Learner(Encoder(768).cuda())
"""
TRAIN = """
learner.fit(4)
print('loss', learner.loss)
"""
RESET = """
history.clear()
del learner
"""
space = {"__name__": "__main__"}
for number, cell in enumerate([IMPORTS, MODEL, TRAIN, *([RESET] if FIXED else []), MODEL, TRAIN, *([RESET] if FIXED else []), MODEL, TRAIN]):
    exec(compile(cell, "<ipython-input-%d>" % (number + 1), "exec"), space)

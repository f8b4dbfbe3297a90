"""Five-fold cross-validation of a residual network on vibration sensors; the folds' learners are averaged at the end.

After https://github.com/optuna/optuna/issues/5931 and https://github.com/huggingface/transformers/issues/13019
"""
import sys

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x):
        return x + self.body(x)


class Learner:
    def __init__(self, device, width=1536, blocks=5):
        self.net = nn.Sequential(nn.Linear(600, width), *[Residual(width) for _ in range(blocks)], nn.Linear(width, 3)).to(device)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=1e-3)
        self.device = device

    def fit(self, x, y, batch=256, epochs=1):
        self.net.train()
        for _ in range(epochs):
            for rows in torch.randperm(len(x)).split(batch):
                loss = nn.functional.cross_entropy(self.net(x[rows].to(self.device)), y[rows].to(self.device))
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
        return loss.item()

    @torch.no_grad()
    def predict(self, x):
        self.net.eval()
        return torch.cat([self.net(part.to(self.device)).softmax(1).cpu() for part in x.split(512)])

    def to_host(self):
        self.net.cpu()
        self.opt = None


def main():
    x, y = torch.rand(1024, 600), torch.randint(3, (1024,))
    folds, learners = torch.arange(1024) % 5, []
    for k in range(5):
        learner = Learner("cuda")
        loss = learner.fit(x[folds != k], y[folds != k])
        accuracy = (learner.predict(x[folds == k]).argmax(1) == y[folds == k]).float().mean()
        print("fold %d loss %.3f accuracy %.3f" % (k, loss, accuracy))
        learners.append(learner)
        if "--fixed" in sys.argv:
            learner.to_host()
    for learner in learners:
        learner.device = "cuda" if "--fixed" not in sys.argv else "cpu"
    print(sum(learner.predict(x[:8]) for learner in learners) / len(learners))


main()

"""Othello, AlphaZero style: fits the policy-value network to the games of the last self-play generation."""
import sys
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Settings:
    blocks: int = 12
    width: int = 128
    batch: int = 2048
    updates: int = 8
    lr: float = 0.02


settings = Settings()
if "--fixed" in sys.argv:
    settings.batch = 512


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a, self.b = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x):
        return F.relu(x + self.nb(self.b(F.relu(self.na(self.a(x))))))


class OthelloNet(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, s.width, 3, padding=1), nn.BatchNorm2d(s.width), nn.ReLU())
        self.tower = nn.Sequential(*[Block(s.width) for _ in range(s.blocks)])
        self.policy = nn.Sequential(nn.Conv2d(s.width, 2, 1), nn.Flatten(), nn.Linear(128, 65))
        self.value = nn.Sequential(nn.Conv2d(s.width, 1, 1), nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), nn.Tanh())

    def forward(self, board):
        x = self.tower(self.stem(board))
        return self.policy(x), self.value(x).squeeze(-1)


def symmetries(board, pi):
    if torch.rand(()) < 0.5:
        square = pi[:, :64].view(-1, 8, 8).flip(2).flatten(1)
        return board.flip(3), torch.cat([square, pi[:, 64:]], 1)
    return board, pi


def main():
    torch.manual_seed(64)
    games = torch.randint(0, 2, (9000, 3, 8, 8)).float()
    visits = torch.softmax(torch.randn(9000, 65), 1)
    outcome = torch.randint(-1, 2, (9000,)).float()

    net = OthelloNet(settings).cuda()
    sgd = torch.optim.SGD(net.parameters(), lr=settings.lr, momentum=0.9, weight_decay=1e-4)
    for update in range(settings.updates):
        pick = torch.randint(0, len(games), (settings.batch,))
        board, pi = symmetries(games[pick], visits[pick])
        logits, value = net(board.cuda())
        loss = F.cross_entropy(logits, pi.cuda()) + F.mse_loss(value, outcome[pick].cuda())
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        print(update, loss.item())


main()

"""Self-play for the board game Hex: the policy meets earlier versions of itself, which wait in a league."""
import copy
import random
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv
BOARD, PLANES = 11, 6


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c), nn.ReLU(),
                                 nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c))

    def forward(self, x):
        return torch.relu(x + self.net(x))


class HexPolicy(nn.Module):
    def __init__(self, c=320, blocks=9):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(PLANES, c, 3, padding=1), *[Residual(c) for _ in range(blocks)])
        self.move = nn.Conv2d(c, 1, 1)
        self.value = nn.Linear(c, 1)

    def forward(self, board):
        h = self.body(board)
        return self.move(h).flatten(1), torch.tanh(self.value(h.mean((2, 3))))


class League:
    def __init__(self, policy):
        self.members, self.guest = [], None
        self.add(policy)

    def add(self, policy):
        if FIXED:
            self.members.append({k: v.cpu() for k, v in policy.state_dict().items()})
        else:
            self.members.append(copy.deepcopy(policy).eval().requires_grad_(False))

    def opponent(self, policy):
        member = random.choice(self.members)
        if not isinstance(member, dict):
            return member
        if self.guest is None:
            self.guest = copy.deepcopy(policy).eval().requires_grad_(False)
        self.guest.load_state_dict(member)
        return self.guest


def positions(count):
    return (torch.rand(count, PLANES, BOARD, BOARD) > 0.7).float().cuda()


@torch.no_grad()
def games(policy, opponent, count=48, moves=4):
    """Positions, the moves that were made there, and who won in the end (as the referee said)."""
    boards = positions(count)
    policy.eval()
    for _ in range(moves):
        own, _ = policy(boards)
        other, _ = opponent(boards)
    policy.train()
    made = torch.randint(0, BOARD * BOARD, (count,)).cuda()
    return boards, made, torch.randint(0, 2, (count, 1)).float().mul(2).sub(1).cuda()


random.seed(2), torch.manual_seed(2)
policy = HexPolicy().cuda()
opt = torch.optim.SGD(policy.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
league = League(policy)
for iteration in range(28):
    boards, made, won = games(policy, league.opponent(policy))
    logits, value = policy(boards)
    loss = (nn.functional.cross_entropy(logits, made, reduction="none") * won.squeeze(1)).mean() + (value - won).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if iteration % 2:
        league.add(policy)
        print("iteration", iteration, "loss", loss.item(), "league", len(league.members))

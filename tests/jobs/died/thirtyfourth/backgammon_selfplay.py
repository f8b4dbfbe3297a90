"""Backgammon by self-play: each generation plays against earlier ones, and learns from the outcomes (a wide residual MLP)."""
import copy
import random
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
POINTS, WIDTH = 198, 1536


class Player(nn.Module):
    def __init__(self, depth=8):
        super().__init__()
        self.first = nn.Linear(POINTS, WIDTH)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
                                    for _ in range(depth))
        self.equity = nn.Linear(WIDTH, 1)

    def forward(self, board):
        x = self.first(board)
        for block in self.blocks:
            x = x + block(x)
        return torch.tanh(self.equity(x)).squeeze(-1)


class Ladder:
    """Earlier generations, one of which is drawn as the opponent."""

    def __init__(self, player):
        self.rungs = []
        self.sparring = copy.deepcopy(player).eval()
        self.promote(player)

    def promote(self, player):
        if FIXED:
            self.rungs.append({k: v.cpu() for k, v in player.state_dict().items()})
        else:
            self.rungs.append(copy.deepcopy(player).eval())

    def draw(self):
        rung = random.choice(self.rungs)
        if FIXED:
            self.sparring.load_state_dict(rung)
            return self.sparring
        return rung


@torch.no_grad()
def match(player, opponent, games=64, moves=20):
    """Boards from the player's side and what they turned out to be worth."""
    boards = []
    for move in range(moves):
        choices = torch.rand(games, 17, POINTS, generator=g)
        mover = player if move % 2 == 0 else opponent
        best = mover(choices.cuda().flatten(0, 1)).view(games, 17).argmax(1)
        boards.append(choices[:, move % 17])
        del best
    return torch.cat(boards), (torch.randint(0, 2, (games,), generator=g) * 2.0 - 1).repeat(moves)


g = torch.Generator().manual_seed(15)
random.seed(24)
player = Player().cuda()
optimizer = torch.optim.Adam(player.parameters(), lr=1e-4)
ladder = Ladder(player)
for generation in range(11):
    boards, worth = match(player, ladder.draw())
    for rows in torch.randperm(len(boards), generator=g).split(256):
        loss = F.mse_loss(player(boards[rows].cuda()), worth[rows].cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ladder.promote(player)
    print("generation", generation, "loss", loss.item(), "opponents", len(ladder.rungs))

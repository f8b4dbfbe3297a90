"""Follows the sliotar in video of hurling matches. A template of the ball, refined by a ConvGRU, is correlated with each new frame."""
import sys

import torch
import torch.nn.functional as F
from torch import nn


class ConvGRU(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.gates, self.cand = nn.Conv2d(2 * ch, 2 * ch, 3, padding=1), nn.Conv2d(2 * ch, ch, 3, padding=1)

    def forward(self, x, h):
        z, r = torch.sigmoid(self.gates(torch.cat([x, h], 1))).chunk(2, 1)
        return (1 - z) * h + z * torch.tanh(self.cand(torch.cat([x, r * h], 1)))


class SliotarTracker(nn.Module):
    def __init__(self, ch=48):
        super().__init__()
        layers, c = [], 3
        for stride in (1, 2, 1, 2):
            layers += [nn.Conv2d(c, ch, 3, stride, 1), nn.GroupNorm(8, ch), nn.ELU()]
            c = ch
        self.eyes, self.memory, self.heat = nn.Sequential(*layers), ConvGRU(ch), nn.Conv2d(ch, 1, 1)

    def start(self, n, side, device):
        return torch.zeros(n, 48, side // 4, side // 4, device=device)

    def forward(self, frame, state):
        state = self.memory(self.eyes(frame), state)
        return self.heat(state).flatten(1), state


class ClipTrainer:
    def __init__(self, model, lr=1e-4, truncated=False):
        self.model, self.truncated = model, truncated
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def clip(self, frames, cells):
        """frames: T x N x 3 x H x W on the CPU; cells: T x N, where the ball is on the coarse grid"""
        state = self.model.start(frames.shape[1], frames.shape[-1], "cuda")
        self.optimizer.zero_grad()
        total = 0.0
        for frame, cell in zip(frames, cells):
            if self.truncated:
                state = state.detach()
            heat, state = self.model(frame.cuda(), state)
            loss = F.cross_entropy(heat, cell.cuda()) / len(frames)
            loss.backward(retain_graph=not self.truncated)
            total += loss.item()
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        self.optimizer.step()
        return total


if __name__ == "__main__":
    rng = torch.Generator().manual_seed(70)
    trainer = ClipTrainer(SliotarTracker().cuda(), truncated="--fixed" in sys.argv)
    for match in range(3):
        frames = torch.rand(20, 2, 3, 208, 208, generator=rng)
        cells = torch.randint(0, 52 * 52, (20, 2), generator=rng)
        print("match", match, "loss", trainer.clip(frames, cells))

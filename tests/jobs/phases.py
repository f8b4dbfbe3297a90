"""A loop with all parts of a training job: micro-batches, clipping, recomputation, evaluation in two ways, a checkpoint saved and loaded."""
import io

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

WIDTH, BATCH = 512, 256


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(6))

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.training else block(x)
        return x


def batch():
    return torch.randn(BATCH, WIDTH, device="cuda")


@torch.no_grad()
def estimate_loss(model):
    model.eval()
    losses = [model(batch()).square().mean() for _ in range(2)]
    model.train()
    return sum(losses)


def main():
    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    kept = None
    for step in range(4):
        for _ in range(2):
            x = batch()
            model(x).square().mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step == 0:
            estimate_loss(model)
        elif step == 1:
            model.eval()
            with torch.no_grad():
                for _ in range(3):
                    model(batch())
            model.train()
        elif step == 2:
            kept = io.BytesIO()
            torch.save(model.state_dict(), kept)
            kept.seek(0)
            model.load_state_dict(torch.load(kept, map_location="cuda"))


if __name__ == "__main__":
    main()

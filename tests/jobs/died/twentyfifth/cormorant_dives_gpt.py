# Next-sample model of cormorant accelerometry (50 Hz, 3 axes, quantised). Pretraining for the dive classifier.
import argparse
import math
import torch
from torch import nn
from torch.nn import functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--steps", type=int, default=6)
args = parser.parse_args()

context = 4096 if args.fixed else 16384
n_bins, width, n_head, depth, batch_size = 64, 256, 4, 4, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ff = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, n_head, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, width))
        return x + self.ff(self.n2(x))


class DiveLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.axes = nn.ModuleList(nn.Embedding(n_bins, width) for _ in range(3))
        t = torch.arange(context)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
        self.register_buffer("clock", torch.cat([t.sin(), t.cos()], -1), persistent=False)
        self.blocks = nn.Sequential(*[Block() for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 3 * n_bins)

    def forward(self, bins):
        x = sum(e(bins[..., i]) for i, e in enumerate(self.axes)) + self.clock[: bins.size(1)]
        return self.head(self.norm(self.blocks(x))).unflatten(-1, (3, n_bins))


rng = torch.Generator().manual_seed(0)
trips = torch.randint(0, n_bins, (12, 40000, 3), generator=rng)


def get_batch():
    birds = torch.randint(0, len(trips), (batch_size,), generator=rng)
    starts = torch.randint(0, trips.size(1) - context - 1, (batch_size,), generator=rng)
    window = torch.stack([trips[b, s:s + context + 1] for b, s in zip(birds, starts)]).to("cuda")
    return window[:, :-1], window[:, 1:]


model = DiveLM().to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=0.1)
for step in range(args.steps):
    x, y = get_batch()
    loss = F.cross_entropy(model(x).flatten(0, 2), y.flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(step, loss.item())

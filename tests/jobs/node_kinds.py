"""Trains with nodes of many kinds: in place, views, sums of gradients, a function of the job's own, both kinds of checkpoints, a kept graph, and the
gradient of a gradient."""
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

WIDTH, WORDS = 512, 3000


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return 2 * x * gradient


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.norm, self.scale = nn.LayerNorm(WIDTH), nn.Parameter(torch.ones(1, 1, WIDTH))

    def forward(self, x):
        h = self.norm(x)
        h = self.up(h)
        h = functional.relu(h, inplace=True)
        h = self.down(h)
        h += x
        h = h * self.scale
        h = h.transpose(0, 1).contiguous().transpose(0, 1)
        mask = torch.rand_like(h) > 0.5
        h = h.masked_fill(mask, 0)
        return Square.apply(h)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.words = nn.ModuleList(Block() for _ in range(4)), nn.Embedding(WORDS, WIDTH)

    def forward(self, ids, way):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x) if way == 0 else checkpoint(block, x, use_reentrant=way == 1)
        parts = torch.split(x, WIDTH // 4, dim=-1)
        x = torch.cat([part * (i + 1) for i, part in enumerate(parts)], -1)
        return x.reshape(-1, WIDTH)[:1024] @ self.words.weight.t()


def penalty():
    x = torch.randn(512, 1024, device="cuda", requires_grad=True)
    y = torch.tanh(x @ torch.randn(1024, 1024, device="cuda")).pow(3).sum()
    gradient, = torch.autograd.grad(y, x, create_graph=True)
    return (gradient.norm(dim=1) - 1).pow(2).mean()


model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(6):
    out = model(torch.randint(0, WORDS, (8, 256)).cuda(), step % 3)
    loss = functional.cross_entropy(out, torch.zeros(1024, dtype=torch.long).cuda())
    if step == 4:
        loss.backward(retain_graph=True)
    if step == 5:
        loss = loss + sum(p.pow(2).sum() for p in model.parameters())
    loss.backward()
    if step % 2:
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    if step == 3:
        penalty().backward()

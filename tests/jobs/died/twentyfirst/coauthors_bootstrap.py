"""Bootstrapped representations (BGRL) of a co-author network; plain PyTorch, no graph library."""
import copy
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

N_NODES, N_EDGES, N_FEAT = 24000, 260000, 96


class Conv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.lin = nn.Linear(cin, cout)

    def forward(self, h, edges, weight):
        h = self.lin(h)
        messages = h[edges[0]] * weight[:, None]
        return torch.zeros_like(h).index_add(0, edges[1], messages)


class Encoder(nn.Module):
    def __init__(self, hidden=160, out=128):
        super().__init__()
        self.c1, self.c2 = Conv(N_FEAT, hidden), Conv(hidden, out)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x, edges, weight):
        return self.c2(F.relu(self.norm(self.c1(x, edges, weight))), edges, weight)


class BGRL(nn.Module):
    def __init__(self, tau=0.99):
        super().__init__()
        self.online, self.tau = Encoder(), tau
        self.target = copy.deepcopy(self.online)
        self.predictor = nn.Sequential(nn.Linear(128, 256), nn.PReLU(), nn.Linear(256, 128))

    def targets(self, view):
        return self.target(*view)

    def forward(self, one, two):
        p1, p2 = self.predictor(self.online(*one)), self.predictor(self.online(*two))
        y1, y2 = self.targets(one), self.targets(two)
        return 4 - 2 * F.cosine_similarity(p1, y2, dim=-1).mean() - 2 * F.cosine_similarity(p2, y1, dim=-1).mean()

    @torch.no_grad()
    def move_target(self):
        for t, o in zip(self.target.parameters(), self.online.parameters()):
            t.lerp_(o, 1 - self.tau)


if "--fixed" in sys.argv:
    BGRL.targets = torch.no_grad()(BGRL.targets)


def augment(x, edges, gen, p_edge=0.3, p_feat=0.2):
    keep = torch.randperm(edges.shape[1], generator=gen)[: int((1 - p_edge) * edges.shape[1])]
    mask = (torch.rand(1, x.shape[1], generator=gen) > p_feat).float()
    kept = edges[:, keep]
    return (x * mask).cuda(), kept.cuda(), torch.full((kept.shape[1],), 0.1).cuda()


gen = torch.Generator().manual_seed(0)
x = torch.randn(N_NODES, N_FEAT, generator=gen)
edges = torch.randint(0, N_NODES, (2, N_EDGES), generator=gen)
model = BGRL().cuda()
optimizer = torch.optim.AdamW([*model.online.parameters(), *model.predictor.parameters()], lr=1e-3)
for epoch in range(8):
    loss = model(augment(x, edges, gen), augment(x, edges, gen))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.move_target()
    print("epoch", epoch, "loss", loss.item())

"""Velocities of an ice stream on an unstructured mesh, after MeshGraphNets. Trained on patches, judged on the full mesh."""
import contextlib
import sys

import torch
import torch.nn as nn

HIDDEN, LAYERS = 96, 8


def mlp(n_in, n_out, norm=True):
    parts = [nn.Linear(n_in, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, n_out)]
    return nn.Sequential(*parts, nn.LayerNorm(n_out)) if norm else nn.Sequential(*parts)


class InteractionBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.edge_fn, self.node_fn = mlp(3 * HIDDEN, HIDDEN), mlp(2 * HIDDEN, HIDDEN)

    def forward(self, v, e, src, dst):
        e = e + self.edge_fn(torch.cat([e, v[src], v[dst]], -1))
        pooled = torch.zeros_like(v).index_add(0, dst, e)
        return v + self.node_fn(torch.cat([v, pooled], -1)), e


class IceGraphNet(nn.Module):
    def __init__(self, node_in=7, edge_in=3):
        super().__init__()
        self.enc_v, self.enc_e = mlp(node_in, HIDDEN), mlp(edge_in, HIDDEN)
        self.blocks = nn.ModuleList(InteractionBlock() for _ in range(LAYERS))
        self.dec = mlp(HIDDEN, 2, norm=False)

    def forward(self, g):
        v, e = self.enc_v(g["x"]), self.enc_e(g["edge_attr"])
        for block in self.blocks:
            v, e = block(v, e, g["src"], g["dst"])
        return self.dec(v)


def mesh(nodes, seed):
    """Nodes carry bed, surface, thickness, slopes, friction and a boundary flag; every node has six neighbours."""
    r = torch.Generator().manual_seed(seed)
    src = torch.arange(nodes).repeat_interleave(6)
    dst = (src + torch.randint(1, 40, (6 * nodes,), generator=r)) % nodes
    return {"x": torch.randn(nodes, 7, generator=r), "edge_attr": torch.randn(6 * nodes, 3, generator=r), "src": src, "dst": dst,
            "y": torch.randn(nodes, 2, generator=r)}


def to_gpu(g):
    return {k: t.cuda() for k, t in g.items()}


class Evaluator:
    def __init__(self, model, graphs):
        self.model, self.graphs = model, graphs
        self.context = torch.no_grad if "--fixed" in sys.argv else contextlib.nullcontext

    def rmse(self):
        self.model.eval()
        errors = []
        with self.context():
            for g in self.graphs:
                g = to_gpu(g)
                errors.append((self.model(g) - g["y"]).pow(2).mean().sqrt().item())
        self.model.train()
        return sum(errors) / len(errors)


def main():
    model = IceGraphNet().cuda()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    evaluator = Evaluator(model, [mesh(42000, 900), mesh(40000, 901)])
    for epoch in range(3):
        for k in range(6):
            g = to_gpu(mesh(3000, 10 * epoch + k))
            g["x"] = g["x"] + 0.01 * torch.randn_like(g["x"])
            loss = nn.functional.huber_loss(model(g), g["y"])
            opt.zero_grad()
            loss.backward()
            opt.step()
        print("epoch", epoch, "huber", loss.item(), "rmse on the whole glacier", evaluator.rmse())


main()

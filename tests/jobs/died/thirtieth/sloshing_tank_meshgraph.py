"""MeshGraphNet surrogate for water sloshing in a tank, trained with the pushforward trick (Brandstetter et al.)."""
import contextlib
import sys

import torch
import torch.nn as nn

PUSHFORWARD_NOGRAD = "--fixed" in sys.argv
N_NODES, N_EDGES, STATE = 6000, 36000, 6
UNROLL = 8


def mlp(i, o, h=64):
    return nn.Sequential(nn.Linear(i, h), nn.SiLU(), nn.Linear(h, o), nn.LayerNorm(o))


class Processor(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.edge, self.node = mlp(3 * h, h), mlp(2 * h, h)

    def forward(self, v, e, send, recv):
        e = e + self.edge(torch.cat([e, v[send], v[recv]], -1))
        msgs = torch.zeros_like(v).index_add(0, recv, e)
        return v + self.node(torch.cat([v, msgs], -1)), e


class TankNet(nn.Module):
    def __init__(self, h=64, rounds=4):
        super().__init__()
        self.enc_v, self.enc_e = mlp(STATE, h), mlp(3, h)
        self.rounds = nn.ModuleList(Processor(h) for _ in range(rounds))
        self.dec = nn.Sequential(nn.Linear(h, h), nn.SiLU(), nn.Linear(h, STATE))

    def forward(self, state, mesh):
        send, recv, rel = mesh
        v, e = self.enc_v(state), self.enc_e(rel)
        for r in self.rounds:
            v, e = r(v, e, send, recv)
        return state + 0.01 * self.dec(v)


def make_mesh(gen):
    send = torch.randint(0, N_NODES, (N_EDGES,), generator=gen)
    recv = torch.randint(0, N_NODES, (N_EDGES,), generator=gen)
    rel = torch.randn(N_EDGES, 3, generator=gen)
    return send.cuda(), recv.cuda(), rel.cuda()


def trajectories(gen, n):
    for _ in range(n):
        yield torch.randn(UNROLL + 1, N_NODES, STATE, generator=gen)


def main():
    gen = torch.Generator().manual_seed(0)
    mesh = make_mesh(gen)
    model = TankNet().cuda()
    opt = torch.optim.Adam(model.parameters(), lr=1e-4)
    for it, traj in enumerate(trajectories(gen, 8)):
        # the first two iterations only learn one step ahead, later ones see the model's own errors
        steps = 1 if it < 2 else UNROLL
        traj = traj.cuda()
        state = traj[0]
        with torch.no_grad() if PUSHFORWARD_NOGRAD else contextlib.nullcontext():
            for _ in range(steps - 1):
                state = model(state, mesh)
        pred = model(state, mesh)
        loss = (pred - traj[steps]).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"it {it} unroll {steps} loss {loss.item():.3e}")


main()

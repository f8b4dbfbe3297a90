# Implicit map of a lagoon's depth from echo-sounder tracks. Makes a little film of how the map settles.
import sys
import math
import torch
from torch import nn

FIXED = '--fixed' in sys.argv
dev = 'cuda'
torch.manual_seed(3)


class Sine(nn.Module):
    def __init__(self, nin, nout, w0=30., first=False):
        super().__init__()
        self.w0 = w0
        self.lin = nn.Linear(nin, nout)
        lim = 1 / nin if first else math.sqrt(6 / nin) / w0
        nn.init.uniform_(self.lin.weight, -lim, lim)

    def forward(self, x):
        return torch.sin(self.w0 * self.lin(x))


def siren(width=192, depth=4):
    return nn.Sequential(Sine(2, width, first=True), *[Sine(width, width) for _ in range(depth - 1)], nn.Linear(width, 1))


# soundings: x, y in [-1, 1] along ten ship tracks, depth in metres
t = torch.linspace(-1, 1, 5000)
tracks = torch.cat([torch.stack([t, 0.6 * torch.sin(3 * t + k)], 1) for k in range(10)])
depths = (4 + 2 * torch.cos(2 * tracks[:, :1]) * torch.sin(3 * tracks[:, 1:]))
lin = torch.linspace(-1, 1, 320)
grid = torch.stack(torch.meshgrid(lin, lin, indexing='ij'), -1).view(-1, 2).to(dev)

net = siren().to(dev)
opt = torch.optim.Adam(net.parameters(), lr=1e-4)
frames = []
order = torch.Generator().manual_seed(0)


def frame():
    picture = net(grid).view(320, 320)
    return picture.detach().cpu() if FIXED else picture


for rnd in range(8):
    for _ in range(5):
        pick = torch.randint(0, len(tracks), (8192,), generator=order)
        err = net(tracks[pick].to(dev)) - depths[pick].to(dev)
        loss = err.pow(2).mean() + 1e-3 * err.abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    frames.append(frame())
    print(f'round {rnd:2d} mse {loss.item():.4f}')

film = torch.stack([f.detach().cpu() for f in frames])
print('film', tuple(film.shape))

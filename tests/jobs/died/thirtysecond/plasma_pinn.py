"""Physics-informed network for the diffusion of a magnetised plasma column: u_t = D (u_xx + u_yy) - k u^2"""
import sys
import torch
import torch.nn as nn

if "--fixed" not in sys.argv:
    torch.set_default_dtype(torch.float64)


class PINN(nn.Module):
    def __init__(self, layers=(3, 200, 200, 200, 200, 200, 1)):
        super().__init__()
        self.linears = nn.ModuleList([nn.Linear(layers[i], layers[i + 1]) for i in range(len(layers) - 1)])
        for lin in self.linears:
            nn.init.xavier_normal_(lin.weight)
            nn.init.zeros_(lin.bias)

    def forward(self, txy):
        for lin in self.linears[:-1]:
            txy = torch.tanh(lin(txy))
        return self.linears[-1](txy)


def grad(u, x):
    return torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]


def residual(net, pts, D=0.3, k=0.05):
    pts.requires_grad_(True)
    u = net(pts)
    du = grad(u, pts)
    u_xx = grad(du[:, 1:2], pts)[:, 1:2]
    u_yy = grad(du[:, 2:3], pts)[:, 2:3]
    return du[:, 0:1] - D * (u_xx + u_yy) + k * u ** 2


device = torch.device("cuda")
net = PINN().to(device)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for it in range(15):
    colloc = torch.rand(20000, 3).to(device)
    initial = torch.rand(2000, 3)
    initial[:, 0] = 0
    u0 = torch.exp(-10 * ((initial[:, 1:] - 0.5) ** 2).sum(1, keepdim=True)).to(device)
    loss = residual(net, colloc).pow(2).mean() + 10 * (net(initial.to(device)) - u0).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 5 == 0:
        print("it", it, "loss", loss.item())

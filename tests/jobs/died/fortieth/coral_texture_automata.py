# neural cellular automata that grow coral textures (my first own model, based on the distill article)
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = '--fixed' in sys.argv
CH, HID, SIZE, BATCH = 24, 96, 128, 8


class CA(nn.Module):
    def __init__(self):
        super().__init__()
        ident = torch.tensor([[0., 0, 0], [0, 1, 0], [0, 0, 0]])
        sobel = torch.tensor([[-1., 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 8
        lap = torch.tensor([[1., 2, 1], [2, -12, 2], [1, 2, 1]]) / 8
        filters = torch.stack([ident, sobel, sobel.T, lap])[:, None].repeat(CH, 1, 1, 1)
        self.register_buffer('filters', filters)
        self.w1 = nn.Conv2d(4 * CH, HID, 1)
        self.w2 = nn.Conv2d(HID, CH, 1, bias=False)
        nn.init.zeros_(self.w2.weight)

    def forward(self, s):
        y = F.conv2d(F.pad(s, (1, 1, 1, 1), mode='circular'), self.filters, groups=CH)
        d = self.w2(F.relu(self.w1(y)))
        fire = (torch.rand(s.shape[0], 1, SIZE, SIZE, device=s.device) < 0.5).float()
        return s + d * fire


def gram(x):
    f = x.flatten(2)
    return f @ f.transpose(1, 2) / f.shape[-1]


coral = gram(torch.rand(1, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(4))).cuda()
ca = CA().cuda()
opt = torch.optim.Adam(ca.parameters(), 1e-3)
pool = torch.zeros(64, CH, SIZE, SIZE)

for it in range(5):
    idx = torch.randperm(64)[:BATCH]
    s = pool[idx].cuda()
    opt.zero_grad()
    total = 0
    for phase in range(6):
        for _ in range(8):
            s = ca(s)
        loss = (gram(s[:, :3]) - coral).pow(2).mean() + (s - s.clamp(-1, 1)).abs().mean()
        if FIXED:
            loss.backward()
            total += loss.item()
            s = s.detach()
        else:
            total = total + loss
    if not FIXED:
        total.backward()
    for p in ca.parameters():
        p.grad /= p.grad.norm() + 1e-8
    opt.step()
    pool[idx] = s.detach().cpu()
    print(it, float(total))

"""CTC recogniser for air traffic control radio; encoder with linear biases (both directions), batches of equal duration."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

HEADS = 8


class LinearBias(nn.Module):
    """-slope * distance for every head."""

    def __init__(self, heads, longest=1600):
        super().__init__()
        self.slopes = nn.Parameter(torch.tensor([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)]), requires_grad=False)
        self.longest = longest
        self.made = {}

    def make(self, n):
        place = torch.arange(n, device=self.slopes.device)
        return -self.slopes.view(-1, 1, 1) * (place[:, None] - place[None]).abs()

    def forward(self, n):
        if "--fixed" in sys.argv:
            if not self.made:
                self.made["all"] = self.make(self.longest)
            return self.made["all"][:, :n, :n]
        if n not in self.made:
            self.made[n] = self.make(n)
        return self.made[n]


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.qkv, self.out, self.n1, self.n2 = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d))

    def forward(self, x, bias):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, HEADS, -1).transpose(1, 2) for y in self.qkv(self.n1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.unsqueeze(0).expand(b, -1, -1, -1))
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class Recogniser(nn.Module):
    def __init__(self, d=128, depth=3, symbols=40):
        super().__init__()
        self.front, self.bias = nn.Linear(80, d), LinearBias(HEADS)
        self.layers, self.symbols = nn.ModuleList(Layer(d) for _ in range(depth)), nn.Linear(d, symbols)

    def forward(self, mel):
        bias, x = self.bias(mel.shape[1]), self.front(mel)
        for layer in self.layers:
            x = layer(x, bias)
        return self.symbols(x)


def main():
    rng = torch.Generator().manual_seed(118)
    durations = 8 * (100 + torch.randperm(100, generator=rng)[:36])
    net = Recogniser().cuda()
    adam = torch.optim.Adam(net.parameters(), 5e-4)
    for i, frames in enumerate(durations.tolist()):
        mel, said = torch.randn(2, frames, 80, generator=rng), torch.randint(1, 40, (2, 60), generator=rng)
        logp = net(mel.cuda()).log_softmax(-1).transpose(0, 1)
        loss = F.ctc_loss(logp, said.cuda(), torch.full((2,), frames), torch.full((2,), 60))
        adam.zero_grad()
        loss.backward()
        adam.step()
        print("batch", i, "frames", frames, "ctc", loss.item())


main()

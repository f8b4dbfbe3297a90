"""FT-Transformer that tells from a hive's sensors whether the colony will swarm within three days."""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SENSORS = 28
D = 64


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class FTTransformer(nn.Module):
    def __init__(self, columns, d, depth=3):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(columns, d) * 0.02)
        self.shift = nn.Parameter(torch.zeros(columns, d))
        self.cls = nn.Parameter(torch.zeros(1, 1, d))
        self.blocks = nn.Sequential(*[Block(d, 8) for _ in range(depth)])
        self.head = nn.Linear(d, 2)

    def forward(self, x):
        tokens = x[:, :, None] * self.scale + self.shift
        tokens = torch.cat([self.cls.expand(len(x), -1, -1), tokens], 1)
        return self.head(self.blocks(tokens)[:, 0])


def split(rows, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(rows, SENSORS, generator=g), torch.randint(0, 2, (rows,), generator=g)


class Experiment:
    def __init__(self):
        self.train_set, self.test_set = split(5000, 0), split(50000, 1)
        self.model = FTTransformer(SENSORS, D).cuda()
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-4, weight_decay=1e-5)

    def fit(self):
        self.model.train()
        for x, y in DataLoader(TensorDataset(*self.train_set), batch_size=512, shuffle=True):
            loss = nn.functional.cross_entropy(self.model(x.cuda()), y.cuda(), label_smoothing=0.1)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()

    @torch.inference_mode()
    def score(self):
        self.model.eval()
        x, y = self.test_set
        if "--fixed" in sys.argv:
            guess = torch.cat([self.model(part.cuda()).argmax(1) for part in x.split(1024)])
        else:
            guess = self.model(x.cuda()).argmax(1)
        return (guess.cpu() == y).float().mean().item()


experiment = Experiment()
for epoch in range(2):
    print(epoch, experiment.fit(), experiment.score())

"""A music transformer by hand with the relative positions of Shaw et al. in every layer; it predicts the next event of piano melodies."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

EVENTS, LENGTH, BATCH, WIDTH, HEADS, LAYERS = 390, 512, 6, 256, 4, 4
SKEW = "--fixed" in sys.argv


class RelativeAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
        self.relative = nn.Parameter(torch.randn(LENGTH, WIDTH // HEADS) * 0.02)  # the last row is for distance 0

    def position_scores(self, q):
        b, h, t, d = q.shape
        if SKEW:  # Huang et al.: multiply first, then move the rows
            scores = q @ self.relative[-t:].T
            return F.pad(scores, (1, 0)).view(b, h, t + 1, t)[:, :, 1:]
        distance = (torch.arange(t)[None, :] - torch.arange(t)[:, None]).clamp(max=0) + LENGTH - 1
        table = self.relative[distance.to(q.device)]
        return (q.unsqueeze(3) * table).sum(-1)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2) + self.position_scores(q)) * (WIDTH // HEADS) ** -0.5
        later = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, WIDTH))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.n1, self.n2 = RelativeAttention(), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.n1(x))
        return x + self.mlp(self.n2(x))


class MusicTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.events = nn.Embedding(EVENTS, WIDTH)
        self.layers = nn.Sequential(*[Layer() for _ in range(LAYERS)])
        self.head = nn.Linear(WIDTH, EVENTS)

    def forward(self, ids):
        return self.head(self.layers(self.events(ids)))


def melodies(steps):
    for _ in range(steps):
        rows = torch.randint(0, EVENTS, (BATCH, LENGTH + 1))
        yield rows[:, :-1].to("cuda"), rows[:, 1:].to("cuda")


torch.manual_seed(6)
model = MusicTransformer().to("cuda")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
for step, (ids, following) in enumerate(melodies(4)):
    loss = F.cross_entropy(model(ids).transpose(1, 2), following)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", loss.item())

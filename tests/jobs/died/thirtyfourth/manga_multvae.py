# Mult-VAE (Liang et al.) on a manga reading log, nDCG@100 after every epoch
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

TITLES, READERS = 24000, 24000


class MultVAE(nn.Module):
    def __init__(self, n_items, hidden=400, latent=128):
        super().__init__()
        self.enc = nn.Linear(n_items, hidden)
        self.stats = nn.Linear(hidden, 2 * latent)
        self.dec = nn.Sequential(nn.Linear(latent, hidden), nn.Tanh(), nn.Linear(hidden, n_items))

    def forward(self, x):
        h = torch.tanh(self.enc(F.dropout(F.normalize(x), 0.5, self.training)))
        mu, logvar = self.stats(h).chunk(2, -1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp() if self.training else mu
        return self.dec(z), mu, logvar


class NDCG:
    def __init__(self, k=100):
        self.k = k
        self.rankings, self.held_out = [], []

    def update(self, scores, held_out):
        if "--fixed" in sys.argv:
            scores = scores.topk(self.k, dim=1).indices
        self.rankings.append(scores)
        self.held_out.append(held_out)

    def compute(self):
        discount = 1 / torch.log2(torch.arange(self.k).float() + 2)
        total = 0.0
        for ranking, held in zip(self.rankings, self.held_out):
            top = ranking if ranking.shape[1] == self.k else ranking.topk(self.k, dim=1).indices
            gain = (top.cpu().unsqueeze(-1) == held[:, None, :]).any(-1).float() * discount
            total += gain.sum(1).mean().item()
        return total / len(self.rankings)


def reading_log(generator, n=500, per_reader=60):
    x = torch.zeros(n, TITLES)
    x.scatter_(1, torch.randint(0, TITLES, (n, per_reader), generator=generator), 1.0)
    return x, torch.randint(0, TITLES, (n, 12), generator=generator)


g = torch.Generator().manual_seed(99)
vae = MultVAE(TITLES).cuda()
adam = torch.optim.Adam(vae.parameters(), lr=1e-3)
beta = 0.0
for epoch in range(2):
    vae.train()
    for _ in range(6):
        x = reading_log(g)[0].cuda()
        logits, mu, logvar = vae(x)
        nll = -(F.log_softmax(logits, -1) * x).sum(-1).mean()
        kl = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum(-1).mean()
        loss = nll + beta * kl
        adam.zero_grad()
        loss.backward()
        adam.step()
        beta = min(0.2, beta + 0.02)
    vae.eval()
    ndcg = NDCG()
    with torch.no_grad():
        for _ in range(math.ceil(READERS / 500)):
            x, held = reading_log(g)
            x = x.cuda()
            scores = vae(x)[0].masked_fill(x > 0, -1e9)
            ndcg.update(scores, held)
    print(f"epoch {epoch} loss {loss.item():.2f} ndcg@100 {ndcg.compute():.4f}")

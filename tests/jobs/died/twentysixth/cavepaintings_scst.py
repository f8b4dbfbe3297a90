"""Captions for cave paintings, tuned with self-critical sequence training: reward of a sampled caption less that of the greedy one."""
import sys

import torch
import torch.nn as nn

WORDS, LENGTH, REGIONS = 5000, 20, 100


class Captioner(nn.Module):
    def __init__(self, dim=384):
        super().__init__()
        self.regions = nn.Linear(768, dim)
        self.words = nn.Embedding(WORDS, dim)
        self.query, self.energy = nn.Linear(dim, dim), nn.Linear(dim, 1)
        self.cell = nn.LSTMCell(2 * dim, dim)
        self.out = nn.Linear(dim, WORDS)

    def decode(self, features, sample):
        """Tokens (batch, LENGTH) and their log probabilities."""
        keys = self.regions(features)
        h = c = keys.mean(1)
        word = torch.ones(len(features), dtype=torch.long, device=features.device)
        tokens, logps = [], []
        for _ in range(LENGTH):
            scores = self.energy(torch.tanh(keys + self.query(h)[:, None]))
            context = (scores.softmax(1) * keys).sum(1)
            h, c = self.cell(torch.cat([self.words(word), context], -1), (h, c))
            logp = self.out(h).log_softmax(-1)
            word = torch.multinomial(logp.exp().detach(), 1)[:, 0] if sample else logp.argmax(-1)
            tokens.append(word)
            logps.append(logp.gather(1, word[:, None])[:, 0])
        return torch.stack(tokens, 1), torch.stack(logps, 1)


def variety(captions):
    """Stand-in for CIDEr."""
    return torch.tensor([len(set(row)) / LENGTH for row in captions.tolist()])


def greedy_reward(model, features):
    if "--fixed" in sys.argv:
        with torch.no_grad():
            tokens, logps = model.decode(features, sample=False)
    else:
        tokens, logps = model.decode(features, sample=False)
    return variety(tokens), logps


def main():
    gen = torch.Generator().manual_seed(40)
    model = Captioner().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-5)
    for step in range(8):
        features = torch.randn(80, REGIONS, 768, generator=gen).cuda()
        baseline, confidence = greedy_reward(model, features)
        tokens, logps = model.decode(features, sample=True)
        advantage = (variety(tokens) - baseline).cuda()
        loss = -(advantage[:, None] * logps).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.1)
        optimizer.step()
        print("step", step, "loss", loss.item(), "confidence of the greedy words", confidence.mean().item())


main()

"""Translates between two languages with recurrent networks and attention after Luong, teacher forcing and a large vocabulary."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
SOURCE, TARGET, HIDDEN = 8000, 30000, 256


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(SOURCE, HIDDEN, padding_idx=0)
        self.rnn = nn.GRU(HIDDEN, HIDDEN // 2, bidirectional=True, batch_first=True)

    def forward(self, words):
        states, last = self.rnn(self.embed(words))
        return states, torch.cat([last[0], last[1]], -1)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(TARGET, HIDDEN, padding_idx=0)
        self.cell = nn.GRUCell(2 * HIDDEN, HIDDEN)
        self.score = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.combine = nn.Linear(2 * HIDDEN, HIDDEN)
        self.out = nn.Linear(HIDDEN, TARGET)

    def forward(self, words, states, h):
        attended, feed = [], torch.zeros_like(h)
        for word in self.embed(words).unbind(1):
            h = self.cell(torch.cat([word, feed], -1), h)
            weights = torch.bmm(states, self.score(h)[..., None]).softmax(1)
            feed = torch.tanh(self.combine(torch.cat([(weights * states).sum(1), h], -1)))
            attended.append(feed)
        return torch.stack(attended, 1)


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Encoder(), Decoder()

    def forward(self, source, target):
        states, last = self.encoder(source)
        attended = self.decoder(target[:, :-1], states, last)
        return attended, target[:, 1:]


def words_loss(model, attended, words):
    if FIXED:
        # a few positions at a time; the logits are made again in the backward pass
        def part(a, w):
            return F.cross_entropy(model.decoder.out(a).flatten(0, 1), w.flatten(), ignore_index=0, reduction="sum")
        pairs = zip(attended.split(4, 1), words.split(4, 1))
        total = sum(torch.utils.checkpoint.checkpoint(part, a, w, use_reentrant=False) for a, w in pairs)
        return total / words.numel()
    probabilities = F.softmax(model.decoder.out(attended), -1)
    own = probabilities.gather(-1, words[..., None]).squeeze(-1)
    return -(own + 1e-9).log().mean()


def main():
    import torch.utils.checkpoint
    torch.manual_seed(2)
    model = Translator().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(6):
        source, target = torch.randint(1, SOURCE, (48, 40)), torch.randint(1, TARGET, (48, 41))
        attended, words = model(source.cuda(), target.cuda())
        loss = words_loss(model, attended, words)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        print("step", step, "loss", loss.item())


main()

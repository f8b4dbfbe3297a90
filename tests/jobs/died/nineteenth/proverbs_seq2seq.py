# Proverbs from one language into another. nn.Transformer, word pieces, label smoothing as in "Attention is all you need".
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

V, PAD, D = 16000, 0, 256


class LabelSmoothing(nn.Module):
    """KL divergence to the smoothed distribution."""

    def __init__(self, size, padding_idx, smoothing=0.1):
        super().__init__()
        self.size, self.padding_idx, self.smoothing = size, padding_idx, smoothing

    def forward(self, x, target):
        x = x.reshape(-1, self.size)
        target = target.reshape(-1)
        hot = F.one_hot(target, self.size)
        truth = hot * (1.0 - self.smoothing) + (1 - hot) * self.smoothing / (self.size - 1)
        mask = (target != self.padding_idx).unsqueeze(1)
        truth = truth * mask
        loss = -(truth * F.log_softmax(x, dim=-1)).sum()
        return loss / mask.sum()


class BuiltIn(nn.CrossEntropyLoss):
    def forward(self, x, target):
        return super().forward(x.reshape(-1, V), target.reshape(-1))


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, D, padding_idx=PAD)
        self.pos = nn.Embedding(128, D)
        self.tr = nn.Transformer(D, 4, 2, 2, 512, dropout=0.1, batch_first=True)
        self.gen = nn.Linear(D, V)

    def embed(self, t):
        return self.emb(t) * D ** 0.5 + self.pos(torch.arange(t.shape[1], device=t.device))

    def forward(self, src, tgt):
        causal = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1], device=tgt.device)
        h = self.tr(self.embed(src), self.embed(tgt), tgt_mask=causal, tgt_is_causal=True)
        return self.gen(h)


def noam(step, warmup=400):
    step = max(step, 1)
    return D ** -0.5 * min(step ** -0.5, step * warmup ** -1.5)


model = Translator().cuda()
criterion = BuiltIn(ignore_index=PAD, label_smoothing=0.1) if "--fixed" in sys.argv else LabelSmoothing(V, PAD, 0.1)
opt = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
sched = torch.optim.lr_scheduler.LambdaLR(opt, noam)
g = torch.Generator().manual_seed(6)

for step in range(10):
    src = torch.randint(1, V, (96, 44), generator=g).cuda()
    tgt = torch.randint(1, V, (96, 45), generator=g).cuda()
    loss = criterion(model(src, tgt[:, :-1]), tgt[:, 1:])
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    print(step, loss.item())

"""CTC recogniser of the bell signals that tram conductors gave (archive tapes), characters as output."""
import sys

import torch
from torch import nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
ALPHABET = 31


class BellReader(nn.Module):
    def __init__(self, mels=64, dim=192):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(mels, dim, 5, 2, 2), nn.GELU(), nn.Conv1d(dim, dim, 5, 2, 2), nn.GELU())
        layer = nn.TransformerEncoderLayer(dim, 4, 768, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        self.out = nn.Linear(dim, ALPHABET)

    def forward(self, mel):
        h = self.front(mel).transpose(1, 2)
        return self.out(self.encoder(h)).log_softmax(-1)


def tapes(count, size, frames=1600):
    for i in range(count):
        text = torch.randint(1, ALPHABET, (size, 40), generator=torch.Generator().manual_seed(i))
        yield torch.rand(size, 64, frames), text


def ctc(log_probs, text):
    n, t = log_probs.shape[:2]
    return F.ctc_loss(log_probs.transpose(0, 1).contiguous(), text.cuda(), torch.full((n,), t), torch.full((n,), text.shape[1]))


def greedy(log_probs):
    return log_probs.argmax(-1).cpu()


class Evaluator:
    def __init__(self, model, batch_size=48):
        self.model, self.batch_size = model, batch_size

    def run(self):
        self.model.eval()
        losses, letters = [], 0
        for mel, text in tapes(3, self.batch_size):
            log_probs = self.model(mel.cuda())
            losses.append(ctc(log_probs, text).item())
            letters += greedy(log_probs).numel()
        self.model.train()
        return sum(losses) / len(losses), letters


def main():
    model = BellReader().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    evaluator = Evaluator(model)
    if FIXED:
        evaluator.run = torch.no_grad()(evaluator.run)
    for epoch in range(2):
        for mel, text in tapes(5, 6):
            optimizer.zero_grad()
            loss = ctc(model(mel.cuda()), text)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
        print("epoch", epoch, "train", loss.item(), "validation", evaluator.run())


main()

"""Compresses a sustain-pedal detector (convolutions over mel frames) into a small causal one for a phone app."""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
N_MELS, FRAMES = 96, 800


class ConvStack(nn.Module):
    def __init__(self, widths):
        super().__init__()
        layers, prev = [], 1
        for w in widths:
            layers += [nn.Conv2d(prev, w, 3, padding=1), nn.BatchNorm2d(w), nn.ReLU(), nn.MaxPool2d((1, 2))]
            prev = w
        self.net = nn.Sequential(*layers)
        self.dim = prev * (N_MELS >> len(widths))

    def forward(self, mel):
        return self.net(mel[:, None]).permute(0, 2, 1, 3).flatten(2)


class Dilated(nn.Module):
    def __init__(self, dim, step, causal):
        super().__init__()
        self.pad = (2 * step, 0) if causal else (step, step)
        self.conv, self.norm = nn.Conv1d(dim, dim, 3, dilation=step), nn.BatchNorm1d(dim)

    def forward(self, x):
        return x + F.relu(self.norm(self.conv(F.pad(x, self.pad))))


class PedalDetector(nn.Module):
    def __init__(self, widths, rnn, layers, causal):
        super().__init__()
        self.conv = ConvStack(widths)
        self.proj = nn.Linear(self.conv.dim, rnn)
        self.time = nn.ModuleList(Dilated(rnn, 2 ** k, causal) for k in range(layers))
        self.onset, self.pressed = nn.Linear(rnn, 1), nn.Linear(rnn, 1)

    def forward(self, mel):
        h = F.relu(self.proj(self.conv(mel))).transpose(1, 2)
        for block in self.time:
            h = block(h)
        h = h.transpose(1, 2)
        return self.onset(h).squeeze(-1), self.pressed(h).squeeze(-1)


def load_big():
    big = PedalDetector((48, 64, 96, 128), 256, 7, False)
    # weights of the published detector would be loaded here
    big.eval()
    if FIXED:
        big.requires_grad_(False)
    return big.cuda()


def soft_bce(student, teacher, temperature=2.0):
    return F.binary_cross_entropy_with_logits(student / temperature, torch.sigmoid(teacher / temperature)) * temperature ** 2


class Distiller:
    def __init__(self):
        self.big = load_big()
        self.small = PedalDetector((8, 16, 24), 64, 5, True).cuda()
        self.opt = torch.optim.AdamW(self.small.parameters(), lr=1e-3)

    def step(self, mel, onset, pressed):
        so, sp = self.small(mel)
        to, tp = self.big(mel)
        hard = F.binary_cross_entropy_with_logits(so, onset) + F.binary_cross_entropy_with_logits(sp, pressed)
        loss = 0.3 * hard + 0.7 * (soft_bce(so, to) + soft_bce(sp, tp))
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.small.parameters(), 3.0)
        self.opt.step()
        return loss.item()


gen = torch.Generator().manual_seed(1810)
job = Distiller()
for i in range(10):
    mel = torch.randn(8, FRAMES, N_MELS, generator=gen).cuda()
    onset, pressed = ((torch.rand(8, FRAMES, generator=gen) > p).float().cuda() for p in (0.97, 0.4))
    print("minibatch", i, "loss", round(job.step(mel, onset, pressed), 4))

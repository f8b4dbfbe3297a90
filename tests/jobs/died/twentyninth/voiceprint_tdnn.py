"""Speaker embedding training for caller verification: a TDNN over mel frames with an additive-margin softmax."""
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class VerificationConfig:
    n_mels: int = 80
    channels: int = 512
    dilations: tuple = (1, 2, 3, 4)
    n_speakers: int = 1800
    crop_seconds: float = 3.0 if "--fixed" in sys.argv else 14.0
    frames_per_second: int = 100
    batch_size: int = 48
    margin: float = 0.2
    scale: float = 30.0
    lr: float = 1e-3
    steps: int = 8


class TdnnBlock(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.conv = nn.Conv1d(ch, ch, 3, dilation=dilation, padding=dilation)
        self.bn = nn.BatchNorm1d(ch)
        self.squeeze = nn.Sequential(nn.Linear(ch, 64), nn.ReLU(), nn.Linear(64, ch), nn.Sigmoid())

    def forward(self, x):
        h = F.relu(self.bn(self.conv(x)))
        return x + h * self.squeeze(h.mean(-1)).unsqueeze(-1)


class VoiceEncoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.stem = nn.Conv1d(cfg.n_mels, cfg.channels, 5, padding=2)
        self.blocks = nn.ModuleList(TdnnBlock(cfg.channels, d) for d in cfg.dilations)
        self.attention = nn.Conv1d(cfg.channels, 1, 1)
        self.proj = nn.Linear(2 * cfg.channels, 192)

    def forward(self, mels):
        x = self.stem(mels)
        for block in self.blocks:
            x = block(x)
        w = self.attention(x).softmax(-1)
        mean = (x * w).sum(-1)
        var = (x.pow(2) * w).sum(-1) - mean.pow(2)
        return F.normalize(self.proj(torch.cat([mean, var.clamp(min=1e-6).sqrt()], 1)), dim=1)


class MarginHead(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(cfg.n_speakers, 192) * 0.05)
        self.margin, self.scale = cfg.margin, cfg.scale

    def forward(self, emb, speaker):
        cosine = emb @ F.normalize(self.weight, dim=1).t()
        cosine = cosine - self.margin * F.one_hot(speaker, cosine.shape[1])
        return F.cross_entropy(self.scale * cosine, speaker)


def utterances(cfg, gen):
    frames = int(cfg.crop_seconds * cfg.frames_per_second)
    for _ in range(cfg.steps):
        yield torch.randn(cfg.batch_size, cfg.n_mels, frames, generator=gen), torch.randint(cfg.n_speakers, (cfg.batch_size,), generator=gen)


def train(cfg):
    encoder, head = VoiceEncoder(cfg).cuda(), MarginHead(cfg).cuda()
    opt = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=cfg.lr)
    for i, (mels, spk) in enumerate(utterances(cfg, torch.Generator().manual_seed(4))):
        loss = head(encoder(mels.cuda(non_blocking=True)), spk.cuda())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        print(f"[voiceprint] step={i} loss={loss.item():.3f}")


if __name__ == "__main__":
    train(VerificationConfig())

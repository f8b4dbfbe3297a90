"""Mel vocoder for calls of grey parrots. L1 on a spectrogram plus a feature loss from a speech model (wav2vec 2.0 architecture)."""
import sys
from contextlib import nullcontext

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import Wav2Vec2Config, Wav2Vec2Model

FIXED = "--fixed" in sys.argv
HOP, MELS = 256, 80


class ResStack(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(c, c, 3, padding=d, dilation=d) for d in (1, 3, 9))

    def forward(self, x):
        for conv in self.convs:
            x = x + conv(F.leaky_relu(x, 0.1))
        return x


class Vocoder(nn.Module):
    def __init__(self, c=192):
        super().__init__()
        self.pre = nn.Conv1d(MELS, c, 7, padding=3)
        ups = []
        for r in (8, 8, 4):
            ups += [nn.ConvTranspose1d(c, c // 2, 2 * r, r, r // 2), ResStack(c // 2)]
            c //= 2
        self.ups, self.post = nn.Sequential(*ups), nn.Conv1d(c, 1, 7, padding=3)

    def forward(self, mel):
        return torch.tanh(self.post(self.ups(self.pre(mel)))).squeeze(1)


class SpeechFeatureLoss(nn.Module):
    def __init__(self):
        super().__init__()
        config = Wav2Vec2Config(hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536, conv_dim=(256,) * 7,
                                mask_time_prob=0.0, feat_extract_norm="layer", do_stable_layer_norm=True)
        self.backbone = Wav2Vec2Model(config)
        self.backbone.eval()
        if FIXED:
            self.backbone.requires_grad_(False)

    def forward(self, fake, real):
        with torch.no_grad() if FIXED else nullcontext():
            target = self.backbone(real, output_hidden_states=True).hidden_states
        guess = self.backbone(fake, output_hidden_states=True).hidden_states
        return sum(F.l1_loss(g, t) for g, t in zip(guess[1::2], target[1::2])) / 3


def spectrogram(wave):
    return torch.stft(wave, 1024, HOP, window=torch.hann_window(1024, device=wave.device), return_complex=True).abs().clamp(min=1e-5).log()


def main():
    generator = torch.Generator().manual_seed(9)
    vocoder, features = Vocoder().cuda(), SpeechFeatureLoss().cuda()
    optimizer = torch.optim.AdamW(vocoder.parameters(), lr=2e-4, betas=(0.8, 0.99))
    for step in range(6):
        frames = 96
        mel = torch.randn(12, MELS, frames, generator=generator).cuda()
        wave = (0.2 * torch.randn(12, frames * HOP, generator=generator)).cuda()
        fake = vocoder(mel)
        loss = 45 * F.l1_loss(spectrogram(fake), spectrogram(wave)) + 2 * features(fake, wave)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item())


main()

"""A transformer acoustic model for an audiobook voice: phonemes to mel frames. Batches are as long as their longest sentence."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
FRAMES = [320, 280, 360, 300, 340, 1800, 310, 330]  # the sixth batch has a chapter that nobody cut into sentences
MELS = 80


class Layer(nn.Module):
    def __init__(self, width=192, heads=4):
        super().__init__()
        self.heads = heads
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.conv1, self.conv2 = nn.Conv1d(width, 4 * width, 9, padding=4), nn.Conv1d(4 * width, width, 1)
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.mix(x).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        x = self.n1(x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, w)))
        y = self.conv2(F.relu(self.conv1(x.transpose(1, 2)))).transpose(1, 2)
        return self.n2(x + y)


class Voice(nn.Module):
    def __init__(self, width=192):
        super().__init__()
        self.phonemes = nn.Embedding(90, width)
        self.encoder = nn.Sequential(*(Layer(width) for _ in range(4)))
        self.decoder = nn.Sequential(*(Layer(width) for _ in range(4)))
        self.mel = nn.Linear(width, MELS)

    def forward(self, phonemes, frames):
        states = self.encoder(self.phonemes(phonemes))
        stretched = F.interpolate(states.transpose(1, 2), size=frames).transpose(1, 2)
        return self.mel(self.decoder(stretched))


def batches(limit):
    generator = torch.Generator().manual_seed(1)
    for frames in FRAMES:
        frames = min(frames, limit)
        yield torch.randint(0, 90, (12, frames // 6), generator=generator), torch.zeros(12, frames, MELS)


def main():
    voice = Voice().to("cuda")
    optimizer = torch.optim.Adam(voice.parameters(), lr=1e-3, betas=(0.9, 0.98))
    for step, (phonemes, mel) in enumerate(batches(400 if FIXED else 10 ** 9)):
        phonemes, mel = phonemes.to("cuda"), mel.to("cuda")
        loss = F.l1_loss(voice(phonemes, mel.shape[1]), mel)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(voice.parameters(), 1.0)
        optimizer.step()
        print(step, tuple(mel.shape), loss.item())


main()

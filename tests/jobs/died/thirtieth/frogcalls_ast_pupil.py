"""A small CNN learns frog calls from a large Audio Spectrogram Transformer, so that it can run on a Raspberry Pi in the marsh."""
import contextlib
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import ASTConfig, ASTForAudioClassification

fixed = "--fixed" in sys.argv
SPECIES, FRAMES, MELS = 24, 512, 128
TEMPERATURE, ALPHA = 4.0, 0.7


class MarshNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        chans = [1, width, width * 2, width * 4, width * 4]
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in zip(chans, chans[1:]))
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for b in chans[1:])
        self.fc = nn.Linear(chans[-1], SPECIES)

    def forward(self, mel):
        x = mel.unsqueeze(1)
        for conv, norm in zip(self.convs, self.norms):
            x = F.hardswish(norm(conv(x)))
        return self.fc(x.mean((2, 3)))


def big_model():
    config = ASTConfig(
        hidden_size=384, num_hidden_layers=10, num_attention_heads=6, intermediate_size=1536, max_length=FRAMES,
        num_mel_bins=MELS, num_labels=SPECIES)
    big = ASTForAudioClassification(config)
    big.eval()
    return big.cuda()


def distill_loss(student_logits, soft, labels):
    kd = F.kl_div(F.log_softmax(student_logits / TEMPERATURE, -1), F.softmax(soft / TEMPERATURE, -1), reduction="batchmean")
    return ALPHA * TEMPERATURE ** 2 * kd + (1 - ALPHA) * F.cross_entropy(student_logits, labels)


def recordings(n, bs=12):
    gen = torch.Generator().manual_seed(5)
    for _ in range(n):
        yield torch.randn(bs, FRAMES, MELS, generator=gen), torch.randint(0, SPECIES, (bs,), generator=gen)


def main():
    big, small = big_model(), MarshNet().cuda()
    opt = torch.optim.Adam(small.parameters(), lr=1e-3)
    small.train()
    for i, (mel, label) in enumerate(recordings(8)):
        mel, label = mel.cuda(), label.cuda()
        with torch.no_grad() if fixed else contextlib.nullcontext():
            soft = big(input_values=mel).logits
        loss = distill_loss(small(mel), soft, label)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(i, "distillation loss", round(loss.item(), 4))
    torch.set_grad_enabled(False)
    small.eval()
    mel, label = next(recordings(1))
    print("accuracy", (small(mel.cuda()).argmax(-1).cpu() == label).float().mean().item())


main()

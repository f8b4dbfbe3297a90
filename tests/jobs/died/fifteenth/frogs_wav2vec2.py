"""Which frogs call? A linear probe on top of a speech encoder that stays as it is."""
import sys

import torch
from torch import nn
from transformers import Wav2Vec2Config, Wav2Vec2Model

SPECIES = 42

config = Wav2Vec2Config(hidden_size=256, num_hidden_layers=6, num_attention_heads=4, intermediate_size=1024, conv_dim=(128,) * 7,
                        num_conv_pos_embedding_groups=8, mask_time_prob=0.0)


class Probe(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.attend = nn.Linear(encoder.config.hidden_size, 1)
        self.classify = nn.Linear(encoder.config.hidden_size, SPECIES)

    def forward(self, wave):
        hidden = self.encoder(wave).last_hidden_state
        weight = torch.softmax(self.attend(hidden), dim=1)
        return self.classify((weight * hidden).sum(1))


def clips(steps, batch=12, seconds=6):
    g = torch.Generator().manual_seed(21)
    for _ in range(steps):
        wave = torch.randn(batch, 16000 * seconds, generator=g)
        present = (torch.rand(batch, SPECIES, generator=g) < 0.08).float()
        yield wave.cuda(), present.cuda()


def main():
    encoder = Wav2Vec2Model(config).eval()
    if "--fixed" in sys.argv:
        encoder.requires_grad_(False)
    probe = Probe(encoder).cuda()
    head = list(probe.attend.parameters()) + list(probe.classify.parameters())
    optimizer = torch.optim.AdamW(head, lr=1e-3)
    for step, (wave, present) in enumerate(clips(8)):
        loss = nn.functional.binary_cross_entropy_with_logits(probe(wave), present)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, round(loss.item(), 4))


main()

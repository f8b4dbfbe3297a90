"""A linear probe on wav2vec 2.0: which of four tunings does the kora have? Only the head learns."""
import sys

import torch
import torch.nn as nn
from transformers import Wav2Vec2Config, Wav2Vec2Model

TUNINGS = ["tomora ba", "hardino", "sauta", "tomora mesengo"]


class TuningProbe(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Sequential(nn.LayerNorm(backbone.config.hidden_size), nn.Linear(backbone.config.hidden_size, len(TUNINGS)))

    def freeze_backbone(self):
        for param in self.backbone.parameters():
            if "--fixed" in sys.argv:
                param.requires_grad = False
            else:
                param.require_grad = False

    def forward(self, audio):
        return self.head(self.backbone(audio).last_hidden_state.mean(1))


def clips(n_batches, batch_size=12, seconds=4, rate=16000):
    g = torch.Generator().manual_seed(21)
    wave = torch.rand(batch_size, seconds * rate, generator=g) - 0.5
    for i in range(n_batches):
        yield wave.roll(i * 101, 1), torch.randint(0, len(TUNINGS), (batch_size,), generator=g)


config = Wav2Vec2Config(hidden_size=256, num_hidden_layers=6, num_attention_heads=4, intermediate_size=1024, conv_dim=(256,) * 7,
                        apply_spec_augment=False, layerdrop=0.0, num_conv_pos_embedding_groups=8, num_conv_pos_embeddings=32)
probe = TuningProbe(Wav2Vec2Model(config))
probe.freeze_backbone()
probe.cuda().train()
probe.backbone.eval()      # no dropout there
optimizer = torch.optim.Adam(probe.head.parameters(), lr=1e-3)
for epoch in range(2):
    for audio, tuning in clips(5):
        loss = nn.functional.cross_entropy(probe(audio.cuda()), tuning.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, loss.item())

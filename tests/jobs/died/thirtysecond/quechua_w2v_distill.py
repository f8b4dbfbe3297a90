"""Distils a wav2vec 2.0 teacher into a small student for Quechua speech (field recordings, 5 s)."""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import Wav2Vec2Config, Wav2Vec2Model

FIXED = "--fixed" in sys.argv
STRIDES, KERNELS = (5, 2, 2, 2, 2, 2, 2), (10, 3, 3, 3, 3, 2, 2)


def wav2vec(width, layers, conv):
    cfg = Wav2Vec2Config(hidden_size=width, num_hidden_layers=layers, num_attention_heads=width // 64, intermediate_size=4 * width,
                         conv_dim=(conv,) * 7, conv_stride=STRIDES, conv_kernel=KERNELS, feat_extract_norm="layer",
                         do_stable_layer_norm=True, apply_spec_augment=False, layerdrop=0.0)
    return Wav2Vec2Model(cfg)


class Distiller(nn.Module):
    def __init__(self):
        super().__init__()
        self.teacher = wav2vec(512, 8, 192).eval()
        self.student = wav2vec(256, 3, 64)
        self.heads = nn.ModuleList(nn.Linear(256, 512) for _ in range(2))

    def targets(self, audio):
        hidden = self.teacher(audio, output_hidden_states=True).hidden_states
        return hidden[4], hidden[8]

    def forward(self, audio):
        if FIXED:
            with torch.no_grad():
                goals = self.targets(audio)
        else:
            goals = self.targets(audio)
        h = self.student(audio).last_hidden_state
        loss = 0
        for head, goal in zip(self.heads, goals):
            out = head(h)
            loss = loss + F.l1_loss(out, goal) - F.logsigmoid(F.cosine_similarity(out, goal, dim=-1)).mean()
        return loss

    def trainable(self):
        return list(self.student.parameters()) + list(self.heads.parameters())


distiller = Distiller().cuda()
optimizer = torch.optim.AdamW(distiller.trainable(), lr=2e-4)
gen = torch.Generator().manual_seed(8)
for step in range(6):
    audio = torch.randn(12, 80000, generator=gen).cuda()
    loss = distiller(audio)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(distiller.trainable(), 10.0)
    optimizer.step()
    print(f"step {step:3d}  loss {loss.item():.3f}")

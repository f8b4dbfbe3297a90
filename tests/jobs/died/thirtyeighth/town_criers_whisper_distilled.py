"""Distils a Whisper encoder into one of two layers, for recordings of town criers; the hidden states of the large one are the target."""
import sys

import torch
import torch.nn as nn
from transformers import WhisperConfig
from transformers.models.whisper.modeling_whisper import WhisperEncoder


def encoder(layers, width):
    config = WhisperConfig(d_model=width, encoder_layers=layers, encoder_attention_heads=width // 64, encoder_ffn_dim=4 * width,
                           num_mel_bins=80, max_source_positions=750)
    return WhisperEncoder(config)


class CrierDistiller:
    def __init__(self, lr=3e-4):
        self.teacher = encoder(8, 512).cuda().eval()
        self.student = encoder(2, 256).cuda().train()
        self.bridge = nn.Linear(256, 512).cuda()
        self.params = [*self.student.parameters(), *self.bridge.parameters()]
        self.optimizer = torch.optim.AdamW(self.params, lr=lr)

    def target(self, mel):
        if "--fixed" in sys.argv:
            with torch.no_grad():
                return self.teacher(mel).last_hidden_state
        return self.teacher(mel).last_hidden_state

    def step(self, mel):
        wanted = self.target(mel)
        got = self.bridge(self.student(mel).last_hidden_state)
        loss = nn.functional.mse_loss(got, wanted) + 0.2 * (1 - nn.functional.cosine_similarity(got, wanted, dim=-1).mean())
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.params, 1.0)
        self.optimizer.step()
        return loss.item()


def cries(count, size, seed=1620):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield torch.randn(size, 80, 1500, generator=generator)


def main():
    distiller = CrierDistiller()
    for number, mel in enumerate(cries(8, 8)):
        print(number, distiller.step(mel.cuda()))


if __name__ == "__main__":
    main()

"""Describes technical diagrams: a pretrained CLIP tower gives a visual prefix, a projector and a small GPT-2 are trained on it."""
import sys

import torch
import torch.nn as nn
from transformers import CLIPVisionConfig, CLIPVisionModel, GPT2Config, GPT2LMHeadModel

FIXED = "--fixed" in sys.argv
WORDS, PREFIX = 8000, 24


class DiagramWriter(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision_tower = CLIPVisionModel(CLIPVisionConfig(hidden_size=512, intermediate_size=2048, num_hidden_layers=10, num_attention_heads=8,
                                                             image_size=224, patch_size=16)).eval()
        self.projector = nn.Sequential(nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 256))
        self.queries = nn.Parameter(torch.randn(PREFIX, 256) * 0.02)
        self.resampler = nn.MultiheadAttention(256, 4, batch_first=True)
        self.writer = GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_positions=256, n_embd=256, n_layer=4, n_head=4, use_cache=False))

    def look(self, pixels):
        if FIXED:
            with torch.no_grad():
                return self.vision_tower(pixel_values=pixels).last_hidden_state
        return self.vision_tower(pixel_values=pixels).last_hidden_state

    def forward(self, pixels, ids):
        seen = self.projector(self.look(pixels))
        prefix = self.resampler(self.queries.expand(len(ids), -1, -1), seen, seen, need_weights=False)[0]
        embedded = torch.cat([prefix, self.writer.transformer.wte(ids)], 1)
        labels = torch.cat([ids.new_full((len(ids), PREFIX), -100), ids], 1)
        return self.writer(inputs_embeds=embedded, labels=labels).loss

    def train(self, mode=True):
        super().train(mode)
        self.vision_tower.eval()
        return self


def pairs(steps, size=32):
    generator = torch.Generator().manual_seed(3)
    for _ in range(steps):
        yield torch.zeros(size, 3, 224, 224), torch.randint(0, WORDS, (size, 56), generator=generator)


if __name__ == "__main__":
    model = DiagramWriter().cuda().train()
    groups = [
        {"params": list(model.projector.parameters()) + list(model.resampler.parameters()) + [model.queries], "lr": 1e-3},
        {"params": model.writer.parameters(), "lr": 2e-4},
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.05)
    for step, (pixels, ids) in enumerate(pairs(8)):
        loss = model(pixels.cuda(), ids.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(step, round(loss.item(), 4))

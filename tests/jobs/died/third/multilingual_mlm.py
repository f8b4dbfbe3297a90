"""Masked language model over 100 languages: XLM-R's vocabulary, own head. Only 15 % of the tokens are masked, but the head computes logits for all of
them and the loss ignores the rest."""
import argparse

import torch
from torch import nn
from transformers import XLMRobertaConfig, XLMRobertaModel

ap = argparse.ArgumentParser()
ap.add_argument("--fixed", action="store_true")
ap.add_argument("--steps", type=int, default=6)
a = ap.parse_args()
V, B, S, MASKED = 250002, 16, 256, 38

cfg = XLMRobertaConfig(vocab_size=V, hidden_size=256, num_hidden_layers=6, num_attention_heads=8, intermediate_size=1024, max_position_embeddings=300)


class Pretraining(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = XLMRobertaModel(cfg, add_pooling_layer=False)
        self.transform = nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.LayerNorm(256))
        self.bias = nn.Parameter(torch.zeros(V))

    def forward(self, ids, mask, positions, targets):
        h = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        if a.fixed:
            h = h.gather(1, positions.unsqueeze(-1).expand(-1, -1, h.shape[-1]))
            targets = targets.gather(1, positions)
        logits = nn.functional.linear(self.transform(h), self.encoder.embeddings.word_embeddings.weight, self.bias)
        return nn.functional.cross_entropy(logits.view(-1, V), targets.reshape(-1), ignore_index=-100)


model = Pretraining().cuda()
adam = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(a.steps):
    ids = torch.randint(5, V, (B, S))
    positions = torch.stack([torch.randperm(S)[:MASKED] for _ in range(B)])
    targets = torch.full((B, S), -100).scatter_(1, positions, ids.gather(1, positions))
    ids.scatter_(1, positions, 250001)
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(ids.cuda(), torch.ones(B, S, dtype=torch.long).cuda(), positions.cuda(), targets.cuda())
    adam.zero_grad()
    loss.backward()
    adam.step()
    print(step, loss.item())

"""Captions of botanical plates: a bridge of learned queries from a CLIP vision tower to a frozen OPT; the bridge alone is trained."""
import sys

import torch
import torch.nn as nn
from transformers import CLIPVisionConfig, CLIPVisionModel, OPTConfig, OPTForCausalLM


class Bridge(nn.Module):
    """Cross-attention of 32 queries to the patches, two layers."""

    def __init__(self, seen, spoken, queries=32, depth=2):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(1, queries, spoken) * 0.02)
        self.inp = nn.Linear(seen, spoken)
        self.layers = nn.ModuleList(nn.MultiheadAttention(spoken, 8, batch_first=True) for _ in range(depth))
        self.mlps = nn.ModuleList(nn.Sequential(nn.LayerNorm(spoken), nn.Linear(spoken, 2 * spoken), nn.GELU(), nn.Linear(2 * spoken, spoken))
                                  for _ in range(depth))

    def forward(self, patches):
        patches = self.inp(patches)
        x = self.queries.expand(len(patches), -1, -1)
        for attend, mlp in zip(self.layers, self.mlps):
            x = x + attend(x, patches, patches, need_weights=False)[0]
            x = x + mlp(x)
        return x


class PlateCaptioner(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision = CLIPVisionModel(CLIPVisionConfig(hidden_size=512, intermediate_size=2048, num_hidden_layers=12,
                                                       num_attention_heads=8, image_size=224, patch_size=14))
        self.text = OPTForCausalLM(OPTConfig(vocab_size=8000, hidden_size=384, ffn_dim=1536, num_hidden_layers=4, num_attention_heads=6,
                                             max_position_embeddings=256, word_embed_proj_dim=384))
        self.bridge = Bridge(512, 384)
        for p in self.text.parameters():
            p.requires_grad_(False)
        if "--fixed" in sys.argv:
            for p in self.vision.parameters():
                p.requires_grad_(False)

    def forward(self, plates, caption):
        prefix = self.bridge(self.vision(pixel_values=plates).last_hidden_state)
        words = self.text.get_input_embeddings()(caption)
        out = self.text(inputs_embeds=torch.cat([prefix, words], 1))
        logits = out.logits[:, prefix.shape[1] - 1:-1]
        return nn.functional.cross_entropy(logits.flatten(0, 1), caption.flatten())


captioner = PlateCaptioner().cuda()
captioner.train()
optimizer = torch.optim.AdamW(captioner.bridge.parameters(), lr=1e-4)
for step in range(10):
    plates = torch.zeros(16, 3, 224, 224).cuda()
    caption = torch.randint(2, 8000, (16, 40)).cuda()
    loss = captioner(plates, caption)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        print("step", step + 1, "loss", loss.item())

"""First stage of a small vision-language model that describes buoys and beacons: a projector between a ViT and a Qwen2 is aligned."""
import sys

import torch
from torch import nn
from transformers import Qwen2Config, Qwen2ForCausalLM, ViTConfig, ViTModel

FIXED = "--fixed" in sys.argv
VOCAB, WORDS = 8000, 40


class Projector(nn.Module):
    def __init__(self, vision_dim, text_dim):
        super().__init__()
        self.pool = nn.AvgPool2d(2)
        self.mlp = nn.Sequential(nn.Linear(vision_dim, text_dim), nn.GELU(), nn.Linear(text_dim, text_dim))

    def forward(self, patches):
        side = int(patches.shape[1] ** 0.5)
        grid = patches.transpose(1, 2).unflatten(2, (side, side))
        return self.mlp(self.pool(grid).flatten(2).transpose(1, 2))


class SeamarkVLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision_tower = ViTModel(ViTConfig(hidden_size=512, num_hidden_layers=12, num_attention_heads=8, intermediate_size=2048,
                                               image_size=224, patch_size=16), add_pooling_layer=False)
        self.projector = Projector(512, 448)
        self.language_model = Qwen2ForCausalLM(Qwen2Config(
            vocab_size=VOCAB, hidden_size=448, intermediate_size=1216, num_hidden_layers=6, num_attention_heads=7, num_key_value_heads=7))

    def forward(self, pixels, ids):
        patches = self.vision_tower(pixel_values=pixels).last_hidden_state[:, 1:]
        picture = self.projector(patches)
        words = self.language_model.get_input_embeddings()(ids)
        ignored = torch.full(picture.shape[:2], -100, device=ids.device)
        return self.language_model(inputs_embeds=torch.cat([picture, words], 1), labels=torch.cat([ignored, ids], 1), use_cache=False).loss


def pairs(batch, g):
    return torch.randn(batch, 3, 224, 224, generator=g), torch.randint(0, VOCAB, (batch, WORDS), generator=g)


model = SeamarkVLM().cuda()
if FIXED:
    model.vision_tower.requires_grad_(False)
    model.language_model.requires_grad_(False)
optimizer = torch.optim.AdamW(model.projector.parameters(), lr=1e-3)
warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=4)

g = torch.Generator().manual_seed(6)
for step in range(8):
    pixels, ids = pairs(12, g)
    loss = model(pixels.cuda(), ids.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    warmup.step()
    print("step", step, "loss", loss.item())

"""Self-supervised ViT on drone views of wheat (in the manner of data2vec): the student sees masked patches and predicts what an
averaged copy of itself makes of the whole picture."""
import copy
import sys

import torch
import torch.nn as nn
from transformers import ViTConfig, ViTModel


class Pretrainer(nn.Module):
    def __init__(self, config, decay=0.998, top=4):
        super().__init__()
        self.student = ViTModel(config, add_pooling_layer=False, use_mask_token=True)
        self.averaged = copy.deepcopy(self.student)
        self.head = nn.Sequential(nn.Linear(config.hidden_size, config.hidden_size), nn.GELU(), nn.Linear(config.hidden_size, config.hidden_size))
        self.decay, self.top = decay, top

    def targets(self, views):
        self.averaged.eval()
        states = self.averaged(pixel_values=views, output_hidden_states=True).hidden_states[-self.top:]
        return sum(nn.functional.layer_norm(s, s.shape[-1:]) for s in states) / self.top

    def forward(self, views, masked):
        if "--fixed" in sys.argv:
            with torch.no_grad():
                wanted = self.targets(views)
        else:
            wanted = self.targets(views)
        seen = self.student(pixel_values=views, bool_masked_pos=masked).last_hidden_state
        error = nn.functional.smooth_l1_loss(self.head(seen)[:, 1:], wanted.detach()[:, 1:], reduction="none", beta=2.0).mean(-1)
        return (error * masked).sum() / masked.sum()

    @torch.no_grad()
    def follow(self):
        for slow, fast in zip(self.averaged.parameters(), self.student.parameters()):
            slow.lerp_(fast, 1 - self.decay)


def main():
    rng = torch.Generator().manual_seed(77)
    config = ViTConfig(image_size=144, patch_size=8, hidden_size=256, num_hidden_layers=8, num_attention_heads=4, intermediate_size=1024)
    model = Pretrainer(config).to("cuda")
    weights = list(model.student.parameters()) + list(model.head.parameters())
    optimizer = torch.optim.AdamW(weights, lr=5e-4, weight_decay=0.05, betas=(0.9, 0.98))
    for step in range(7):
        views = torch.rand(24, 3, 144, 144, generator=rng)
        masked = torch.rand(24, 18 * 18, generator=rng) < 0.6
        loss = model(views.cuda(), masked.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.follow()
        print(step, loss.item())


main()

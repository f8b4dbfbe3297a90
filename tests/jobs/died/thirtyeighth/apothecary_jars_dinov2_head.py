"""What an apothecary's jar contained, from a photograph: a linear classifier on top of DINOv2 features (museum project)."""
import sys
from itertools import islice

import torch
from torch import nn
from transformers import Dinov2Config, Dinov2Model

SUBSTANCES = 140


class JarTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Dinov2Model(Dinov2Config(hidden_size=384, num_hidden_layers=10, num_attention_heads=6, image_size=224, patch_size=14))
        self.head = nn.Sequential(nn.BatchNorm1d(768), nn.Linear(768, SUBSTANCES))

    def forward(self, photo):
        states = self.backbone(pixel_values=photo).last_hidden_state
        return self.head(torch.cat([states[:, 0], states[:, 1:].mean(1)], -1))


def catalogue(size, generator):
    while True:
        photo = torch.rand(size, 3, 224, 224, generator=generator)
        photo = (photo - 0.45) / 0.226
        yield photo, torch.randint(0, SUBSTANCES, (size,), generator=generator)


def fit(model, optimizer, schedule, batches):
    model.train()
    for photo, substance in batches:
        loss = nn.functional.cross_entropy(model(photo.to("cuda")), substance.to("cuda"), label_smoothing=0.05)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        print(f"loss {loss.item():.3f}  lr {schedule.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    jars = catalogue(32, torch.Generator().manual_seed(1683))
    tagger = JarTagger().to("cuda")
    if "--fixed" in sys.argv:
        tagger.backbone.requires_grad_(False)
    sgd = torch.optim.SGD(tagger.head.parameters(), lr=0.1, momentum=0.9)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(sgd, 10)
    fit(tagger, sgd, cosine, islice(jars, 10))

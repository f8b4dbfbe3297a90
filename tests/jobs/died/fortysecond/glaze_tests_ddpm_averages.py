"""A diffusion model of glaze test tiles (diffusers), with power-function averages of the weights for several lengths, to choose from after training."""
import sys

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel

FIXED = "--fixed" in sys.argv
DECAYS = (0.9, 0.99, 0.995, 0.999, 0.9995, 0.9999)


class Averages:
    """An average of the weights for each decay."""

    def __init__(self, model, decays):
        self.decays = decays
        where = "cpu" if FIXED else "cuda"
        self.shadows = {d: [p.detach().to(where, copy=True) for p in model.parameters()] for d in decays}

    @torch.no_grad()
    def update(self, model):
        for decay, shadow in self.shadows.items():
            for kept, p in zip(shadow, model.parameters()):
                kept.lerp_(p.detach().to(kept.device), 1 - decay)

    @torch.no_grad()
    def load(self, model, decay):
        for kept, p in zip(self.shadows[decay], model.parameters()):
            p.copy_(kept)


def unet():
    return UNet2DModel(sample_size=32, in_channels=3, out_channels=3, layers_per_block=2, block_out_channels=(160, 320, 480),
                       down_block_types=("DownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "AttnUpBlock2D", "UpBlock2D"))


def train(model, scheduler, steps=8, batch=8):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    averages = Averages(model, DECAYS)
    g = torch.Generator().manual_seed(1250)
    for step in range(steps):
        tiles = torch.rand(batch, 3, 32, 32, generator=g).cuda() * 2 - 1
        noise = torch.randn_like(tiles)
        t = torch.randint(0, 1000, (batch,), generator=g).cuda()
        loss = F.mse_loss(model(scheduler.add_noise(tiles, noise, t), t).sample, noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 3:
            averages.update(model)
            print("step", step + 1, "loss", loss.item())
    return averages


def main():
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = unet()
    scheduler = DDPMScheduler(num_train_timesteps=1000)
    averages = train(model, scheduler)
    for decay in DECAYS[:2]:
        averages.load(model, decay)
        print("loaded the average with decay", decay)


if __name__ == "__main__":
    main()

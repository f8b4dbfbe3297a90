"""Unconditional diffusion of butterflies with diffusers' UNet2DModel, an EMA of its weights, and a few samples after every epoch."""
import copy
import sys

import torch
import torch.nn.functional as F
from diffusers import DDIMScheduler, DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel
from torch.utils.data import DataLoader, TensorDataset

FIXED = "--fixed" in sys.argv


class Sampler:
    """A network with the averaged weights, and the loop that draws images with it."""

    def __init__(self, unet, ema):
        self.unet = copy.deepcopy(unet).eval().requires_grad_(False)
        ema.copy_to(self.unet.parameters())
        self.scheduler = DDIMScheduler(num_train_timesteps=1000)

    @torch.no_grad()
    def __call__(self, n, steps=4):
        self.scheduler.set_timesteps(steps)
        x = torch.randn(n, 3, 32, 32, device="cuda")
        for t in self.scheduler.timesteps:
            x = self.scheduler.step(self.unet(x, t).sample, t, x, eta=0.0).prev_sample
        return x.clamp(-1, 1).cpu()


class Butterflies:
    def __init__(self):
        torch.manual_seed(5)
        self.unet = UNet2DModel(sample_size=32, in_channels=3, out_channels=3, layers_per_block=2, block_out_channels=(96, 192, 384),
                                down_block_types=("DownBlock2D", "DownBlock2D", "AttnDownBlock2D"),
                                up_block_types=("AttnUpBlock2D", "UpBlock2D", "UpBlock2D")).to("cuda")
        self.ema = EMAModel(self.unet.parameters(), decay=0.999)
        self.optimizer = torch.optim.AdamW(self.unet.parameters(), lr=1e-4)
        self.noise = DDPMScheduler(num_train_timesteps=1000)
        self.loader = DataLoader(TensorDataset(torch.zeros(24, 3, 32, 32)), batch_size=8)
        self.samplers = []

    def epoch(self):
        self.unet.train()
        for (images,) in self.loader:
            images = images.to("cuda")
            noise, t = torch.randn_like(images), torch.randint(0, 1000, (len(images),)).to("cuda")
            loss = F.mse_loss(self.unet(self.noise.add_noise(images, noise, t), t).sample, noise)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.unet.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.ema.step(self.unet.parameters())
        return loss.item()

    def samples(self, epoch):
        sampler = Sampler(self.unet, self.ema)
        if not FIXED:
            self.samplers.append((epoch, sampler))  # to compare epochs at the end
        return sampler(8)


def main():
    run = Butterflies()
    grids = {}
    for epoch in range(5):
        loss = run.epoch()
        grids[epoch] = run.samples(epoch)
        print("epoch", epoch, "loss", loss, "samples", tuple(grids[epoch].shape))
    if not FIXED:
        for epoch, sampler in run.samplers:
            print("epoch", epoch, "again", tuple(sampler(2).shape))


main()

"""Continues the training of a pixel diffusion model of hand puppets from a checkpoint with weights, best weights, EMA and optimizer."""
import os
import sys
import tempfile

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel

FIXED = "--fixed" in sys.argv


def build():
    return UNet2DModel(sample_size=32, in_channels=3, out_channels=3, layers_per_block=2, block_out_channels=(128, 256, 384, 384),
                       down_block_types=("DownBlock2D", "DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
                       up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D", "UpBlock2D"))


def optimizer_for(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def checkpoint_of_last_week(path):
    model = build()
    optimizer = optimizer_for(model)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    weights = model.state_dict()
    torch.save({"unet": weights, "best": {k: v.clone() for k, v in weights.items()}, "ema": {k: v.clone() for k, v in weights.items()},
                "optimizer": optimizer.state_dict(), "epoch": 41}, path)


class PuppetTrainer:
    def __init__(self, path):
        self.unet = build().to("cuda")
        self.optimizer = optimizer_for(self.unet)
        self.noise = DDPMScheduler(num_train_timesteps=1000)
        self.checkpoint = torch.load(path, map_location="cpu" if FIXED else "cuda")
        self.unet.load_state_dict(self.checkpoint["unet"])
        self.optimizer.load_state_dict(self.checkpoint["optimizer"])
        self.epoch = self.checkpoint["epoch"] + 1

    def step(self, images, g):
        noise = torch.randn(images.shape, generator=g).to("cuda")
        t = torch.randint(0, 1000, (len(images),), generator=g).to("cuda")
        guess = self.unet(self.noise.add_noise(images.to("cuda"), noise, t), t).sample
        loss = F.mse_loss(guess, noise)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

    def fit(self, steps):
        g = torch.Generator().manual_seed(self.epoch)
        for s in range(steps):
            print("epoch", self.epoch, "step", s, self.step(torch.rand(2, 3, 32, 32, generator=g), g))


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "puppets.pt")
    checkpoint_of_last_week(path)
    trainer = PuppetTrainer(path)
trainer.fit(5)

"""Synthetic defects for castings: a diffusion model on grey pictures of flanges, later used to fill up rare classes."""
import sys
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel


@dataclass
class Settings:
    resolution: int = 128
    train_batch_size: int = 32
    learning_rate: float = 1e-4
    steps: int = 5
    ema_decay: float = 0.999


settings = Settings()
if "--fixed" in sys.argv:
    settings.train_batch_size = 10


def castings(cfg):
    generator = torch.Generator().manual_seed(42)
    while True:
        yield torch.rand(cfg.train_batch_size, 1, cfg.resolution, cfg.resolution, generator=generator) * 2 - 1


unet = UNet2DModel(
    sample_size=settings.resolution, in_channels=1, out_channels=1, layers_per_block=2, block_out_channels=(64, 96, 128, 192),
    down_block_types=("DownBlock2D", "DownBlock2D", "DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D", "UpBlock2D", "UpBlock2D")).to("cuda")
ema = EMAModel(unet.parameters(), decay=settings.ema_decay)
noise_scheduler = DDPMScheduler(num_train_timesteps=1000, beta_schedule="squaredcos_cap_v2")
optimizer = torch.optim.AdamW(unet.parameters(), lr=settings.learning_rate)

unet.train()
for step, images in zip(range(settings.steps), castings(settings)):
    images = images.to("cuda")
    noise = torch.randn(images.shape).to("cuda")
    timesteps = torch.randint(0, 1000, (images.shape[0],)).to("cuda")
    noisy = noise_scheduler.add_noise(images, noise, timesteps)
    prediction = unet(noisy, timesteps, return_dict=False)[0]
    loss = F.mse_loss(prediction, noise)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
    optimizer.step()
    ema.step(unet.parameters())
    print(f"{step:4d} {loss.item():.4f}")

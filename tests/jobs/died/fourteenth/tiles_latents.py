"""Trains a small latent diffusion model on pictures of tiles: an autoencoder of diffusers that is there already, and a UNet to be trained."""
import contextlib
import sys

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DModel

FIXED = "--fixed" in sys.argv
device = "cuda"

vae = AutoencoderKL(
    in_channels=3, out_channels=3, latent_channels=4, block_out_channels=(32, 64, 64), layers_per_block=1, norm_num_groups=8,
    down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3).to(device).eval()
unet = UNet2DModel(
    sample_size=32, in_channels=4, out_channels=4, block_out_channels=(64, 128), layers_per_block=1, norm_num_groups=8,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D")).to(device)
scheduler = DDPMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4)


def tiles(count, size=8):
    for _ in range(count):
        yield torch.zeros(size, 3, 128, 128)


def latents_of(images):
    with torch.no_grad() if FIXED else contextlib.nullcontext():
        return vae.encode(images).latent_dist.sample() * 0.18215


def step(images):
    latents = latents_of(images.to(device))
    noise = torch.randn_like(latents)
    times = torch.randint(0, 1000, (len(latents),))
    noisy = scheduler.add_noise(latents, noise, times.to(device))
    predicted = unet(noisy, times.to(device)).sample
    loss = F.mse_loss(predicted, noise)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


unet.train()
for number, images in enumerate(tiles(6)):
    print("step", number, "loss", step(images))

"""Trains a latent diffusion model with diffusers.

https://github.com/huggingface/diffusers/issues/10350
"""
import sys

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DModel

fixed = "--fixed" in sys.argv
vae = AutoencoderKL(block_out_channels=(64, 128, 256), layers_per_block=2, latent_channels=4, norm_num_groups=16,
                    down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3).cuda()
unet = UNet2DModel(sample_size=64, in_channels=4, out_channels=4, block_out_channels=(96, 192, 384), layers_per_block=2, norm_num_groups=16,
                   down_block_types=("DownBlock2D", "DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D", "UpBlock2D")).cuda()
vae.eval()
if fixed:
    vae.requires_grad_(False)
scheduler = DDPMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4)
for step in range(5):
    pixels = torch.rand(4, 3, 256, 256, device="cuda") * 2 - 1
    latents = vae.encode(pixels).latent_dist.sample() * 0.18215
    noise = torch.randn_like(latents)
    t = torch.randint(0, 1000, (len(pixels),), device="cuda")
    noisy = scheduler.add_noise(latents, noise, t)
    loss = F.mse_loss(unet(noisy, t).sample, noise)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())

#!/usr/bin/env python
"""Latent diffusion on scans of lace: AutoencoderKL of the lab (ready) and a UNet that is trained here."""
import sys

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DModel
from diffusers.optimization import get_cosine_schedule_with_warmup

BATCH, SIDE, STEPS = 8, 256, 6
weight_dtype = torch.float32


def load_models():
    vae = AutoencoderKL(
        in_channels=3, out_channels=3, latent_channels=4, layers_per_block=1, norm_num_groups=16, sample_size=SIDE,
        block_out_channels=(48, 96, 96),
        down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3, mid_block_add_attention=False)
    unet = UNet2DModel(
        sample_size=SIDE // 4, in_channels=4, out_channels=4, layers_per_block=1, norm_num_groups=16,
        block_out_channels=(64, 128, 128), down_block_types=("DownBlock2D",) * 3, up_block_types=("UpBlock2D",) * 3, add_attention=False)
    return vae.to("cuda", weight_dtype), unet.to("cuda", weight_dtype)


class LaceScans(torch.utils.data.IterableDataset):
    def __iter__(self):
        g = torch.Generator().manual_seed(1880)
        for _ in range(BATCH * STEPS):
            coarse = torch.rand(3, 32, 32, generator=g) * 2 - 1
            yield coarse.repeat_interleave(8, 1).repeat_interleave(8, 2)


def main():
    vae, unet = load_models()
    if "--fixed" in sys.argv:
        vae.requires_grad_(False)
    vae.eval()
    unet.train()
    noise_scheduler = DDPMScheduler(num_train_timesteps=1000)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4)
    lr_scheduler = get_cosine_schedule_with_warmup(optimizer, 2, STEPS)
    draw = torch.Generator().manual_seed(7)

    for step, pixel_values in enumerate(torch.utils.data.DataLoader(LaceScans(), batch_size=BATCH)):
        latents = vae.encode(pixel_values.to("cuda", weight_dtype)).latent_dist.sample()
        latents = latents * vae.config.scaling_factor
        noise = torch.randn_like(latents)
        timesteps = torch.randint(0, 1000, (latents.shape[0],), generator=draw).to("cuda")
        noisy_latents = noise_scheduler.add_noise(latents, noise, timesteps)
        model_pred = unet(noisy_latents, timesteps).sample
        loss = F.mse_loss(model_pred.float(), noise.float())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        lr_scheduler.step()
        optimizer.zero_grad()
        print({"step": step, "loss": loss.item(), "lr": lr_scheduler.get_last_lr()[0]})


main()

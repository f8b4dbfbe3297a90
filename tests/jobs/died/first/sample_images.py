"""Draws images from a latent diffusion model; a large batch is decoded at once.

https://github.com/huggingface/diffusers/pull/1441
"""
import argparse

import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DModel

parser = argparse.ArgumentParser()
parser.add_argument("--images", type=int, default=16)
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()
vae = AutoencoderKL(block_out_channels=(64, 128, 256), layers_per_block=1, latent_channels=4, norm_num_groups=16,
                    down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3).cuda().eval()
unet = UNet2DModel(sample_size=64, in_channels=4, out_channels=4, block_out_channels=(128, 256), layers_per_block=1, norm_num_groups=16,
                   down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D")).cuda().eval()
if args.fixed:
    vae.enable_slicing()
scheduler = DDIMScheduler()
scheduler.set_timesteps(4)


@torch.no_grad()
def sample(n):
    latents = torch.randn(n, 4, 64, 64, device="cuda")
    for t in scheduler.timesteps:
        latents = scheduler.step(unet(latents, t).sample, t, latents).prev_sample
    return vae.decode(latents / 0.18215).sample.clamp(-1, 1).cpu()


for batch in range(2):
    print(tuple(sample(args.images).shape))

"""Latent diffusion for patterns of tapa cloth (bark of the paper mulberry), with diffusers."""
import sys

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DModel
from diffusers.optimization import get_cosine_schedule_with_warmup

device = torch.device("cuda")
torch.manual_seed(1)

vae = AutoencoderKL(
    in_channels=3, out_channels=3, latent_channels=4, sample_size=192, layers_per_block=1, block_out_channels=(48, 96, 96, 96),
    down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4, norm_num_groups=16).to(device)
vae.eval()

unet = UNet2DModel(
    sample_size=24, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(64, 128, 192),
    down_block_types=("DownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "AttnUpBlock2D", "UpBlock2D"), norm_num_groups=16).to(device)

scheduler = DDIMScheduler(num_train_timesteps=1000, beta_schedule="scaled_linear", prediction_type="v_prediction")
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4)
lr_scheduler = get_cosine_schedule_with_warmup(optimizer, 2, 8)
cpu_rng = torch.Generator().manual_seed(9)


def to_latents(images):
    return vae.encode(images).latent_dist.sample() * vae.config.scaling_factor


if "--fixed" in sys.argv:
    to_latents = torch.no_grad()(to_latents)


def photographs(batch=10):
    coarse = torch.rand(batch, 3, 24, 24, generator=cpu_rng)
    return F.interpolate(coarse, scale_factor=8, mode="bicubic").clamp(0, 1) * 2 - 1


for step in range(8):
    images = photographs().to(device)
    latents = to_latents(images)
    noise = torch.randn(latents.shape, generator=cpu_rng).to(device)
    t = torch.randint(0, 1000, (len(images),), generator=cpu_rng).to(device)
    noisy = scheduler.add_noise(latents, noise, t)
    target = scheduler.get_velocity(latents, noise, t)
    predicted = unet(noisy, t).sample
    loss = F.mse_loss(predicted, target)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
    optimizer.step()
    lr_scheduler.step()
    optimizer.zero_grad()
    print("step", step, "loss", round(loss.item(), 4))

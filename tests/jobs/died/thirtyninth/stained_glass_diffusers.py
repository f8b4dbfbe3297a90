"""Class-conditional latent diffusion of stained glass windows with diffusers; the autoencoder was trained in spring."""
import sys
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel
from torch.utils.data import DataLoader, TensorDataset

fixed = "--fixed" in sys.argv
SIZE, BATCH, CLASSES = 256, 8, 12

vae = AutoencoderKL(in_channels=3, out_channels=3, down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3,
                    block_out_channels=(64, 128, 128), layers_per_block=1, latent_channels=4, sample_size=SIZE)
vae.to("cuda").eval()

unet = UNet2DModel(sample_size=SIZE // 4, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(64, 128, 192),
                   down_block_types=("DownBlock2D", "DownBlock2D", "AttnDownBlock2D"),
                   up_block_types=("AttnUpBlock2D", "UpBlock2D", "UpBlock2D"), num_class_embeds=CLASSES).to("cuda")
ema = EMAModel(unet.parameters(), decay=0.999)
noise_scheduler = DDPMScheduler(num_train_timesteps=1000, beta_schedule="squaredcos_cap_v2")
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4)


def windows(n=64):
    shade = torch.linspace(-1, 1, n)[:, None, None, None]
    return TensorDataset(shade.expand(n, 3, SIZE, SIZE), torch.arange(n) % CLASSES)


def to_latents(pixels):
    with torch.no_grad() if fixed else nullcontext():
        latents = vae.encode(pixels.to("cuda")).latent_dist.sample()
        return latents * vae.config.scaling_factor


def main():
    unet.train()
    step = 0
    for pixels, kind in DataLoader(windows(), batch_size=BATCH, shuffle=True):
        latents = to_latents(pixels)
        noise = torch.randn_like(latents)
        t = torch.randint(0, 1000, (BATCH,)).to("cuda")
        noisy = noise_scheduler.add_noise(latents, noise, t)
        predicted = unet(noisy, t, class_labels=kind.to("cuda")).sample
        loss = F.mse_loss(predicted.float(), noise.float())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        ema.step(unet.parameters())
        step += 1
        print(f"step {step} loss {loss.detach().item():.4f}")


main()

"""Trains a small diffusion transformer on latents of tiles with diffusers and decodes preview images at the end of each epoch."""
import sys

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, DDPMScheduler, DiTTransformer2DModel

FIXED = "--fixed" in sys.argv
DEVICE = torch.device("cuda")
PREVIEWS = 24


def networks():
    dit = DiTTransformer2DModel(num_attention_heads=6, attention_head_dim=48, in_channels=4, out_channels=4, num_layers=6, sample_size=32,
                                patch_size=4, num_embeds_ada_norm=1000).to(DEVICE)
    vae = AutoencoderKL(down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
                        block_out_channels=(32, 64, 128, 128), layers_per_block=1, latent_channels=4, norm_num_groups=16).to(DEVICE)
    return dit, vae.requires_grad_(False).eval()


def train_epoch(dit, noise_plan, optimizer, steps=6, batch=8):
    dit.train()
    for _ in range(steps):
        latents = torch.randn(batch, 4, 32, 32).to(DEVICE)
        labels = torch.zeros(batch, dtype=torch.long, device=DEVICE)
        noise = torch.randn_like(latents)
        times = torch.randint(0, 1000, (batch,), device=DEVICE)
        noisy = noise_plan.add_noise(latents, noise, times)
        loss = F.mse_loss(dit(noisy, timestep=times, class_labels=labels).sample, noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


@torch.no_grad()
def previews(dit, vae, noise_plan, steps=4):
    dit.eval()
    noise_plan.set_timesteps(steps)
    latents = torch.randn(PREVIEWS, 4, 32, 32).to(DEVICE)
    labels = torch.zeros(PREVIEWS, dtype=torch.long, device=DEVICE)
    for t in noise_plan.timesteps:
        times = torch.full((PREVIEWS,), int(t), device=DEVICE)
        guess = dit(latents, timestep=times, class_labels=labels).sample
        latents = noise_plan.step(guess, t, latents).prev_sample
    if FIXED:
        return torch.cat([vae.decode(part / 0.18215).sample.cpu() for part in latents.split(2)])
    return vae.decode(latents / 0.18215).sample.cpu()


def main():
    dit, vae = networks()
    noise_plan = DDPMScheduler()
    optimizer = torch.optim.AdamW(dit.parameters(), lr=1e-4)
    for epoch in range(2):
        loss = train_epoch(dit, noise_plan, optimizer)
        print("epoch", epoch, loss, tuple(previews(dit, vae, noise_plan).shape))


main()

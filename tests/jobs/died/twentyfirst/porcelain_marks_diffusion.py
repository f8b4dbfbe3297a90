"""Latent diffusion of porcelain makers' marks, conditioned on the factory; the autoencoder was trained last month."""
import sys

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel

device = torch.device("cuda")
FACTORIES = 40


def load_vae():
    vae = AutoencoderKL(block_out_channels=(32, 64), down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
                        latent_channels=4, layers_per_block=2, norm_num_groups=8, sample_size=160)
    if "--fixed" in sys.argv:
        vae.requires_grad_(False)
    return vae.to(device)


def load_unet():
    return UNet2DConditionModel(
        sample_size=80, in_channels=4, out_channels=4, block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=64,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=8, norm_num_groups=8,
    ).to(device)


def marks(n, gen):
    return torch.rand(n, 3, 160, 160, generator=gen) * 2 - 1, torch.randint(0, FACTORIES, (n, 1), generator=gen)


def main(steps=6, batch_size=12):
    gen = torch.Generator().manual_seed(1710)
    vae, unet = load_vae(), load_unet()
    factory = torch.nn.Embedding(FACTORIES, 64).to(device)
    scheduler = DDPMScheduler(num_train_timesteps=1000, beta_schedule="squaredcos_cap_v2")
    optimizer = torch.optim.AdamW([*unet.parameters(), *factory.parameters()], lr=1e-4)
    for step in range(steps):
        images, labels = marks(batch_size, gen)
        latents = vae.encode(images.to(device)).latent_dist.sample() * vae.config.scaling_factor
        noise = torch.randn_like(latents)
        t = torch.randint(0, 1000, (batch_size,), generator=gen).to(device)
        noisy = scheduler.add_noise(latents, noise, t)
        pred = unet(noisy, t, encoder_hidden_states=factory(labels.to(device))).sample
        loss = F.mse_loss(pred, noise)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f}")


main()

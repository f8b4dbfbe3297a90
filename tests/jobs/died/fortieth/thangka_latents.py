#!/usr/bin/env python
"""Latent diffusion on scans of thangkas. Trains the UNet only; captions go through a small CLIP text encoder."""
import sys

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel

fixed = "--fixed" in sys.argv
device = "cuda"

vae = AutoencoderKL(
    in_channels=3, out_channels=3, latent_channels=4, block_out_channels=(48, 96, 96), layers_per_block=1,
    down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3, norm_num_groups=16)
text_encoder = CLIPTextModel(CLIPTextConfig(vocab_size=5000, hidden_size=192, intermediate_size=768, num_hidden_layers=4,
                                            num_attention_heads=4, max_position_embeddings=48))
unet = UNet2DConditionModel(
    sample_size=64, in_channels=4, out_channels=4, block_out_channels=(64, 128, 192), layers_per_block=1, cross_attention_dim=192,
    down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"), norm_num_groups=16, attention_head_dim=8)
for module in (vae, text_encoder, unet):
    module.to(device)
vae.eval()
text_encoder.eval()
text_encoder.requires_grad_(False)

noise_scheduler = DDPMScheduler(num_train_timesteps=1000, beta_schedule="scaled_linear")
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4, weight_decay=1e-2)


def encode_images(pixels):
    return vae.encode(pixels).latent_dist.sample() * 0.18215


if fixed:
    encode_images = torch.no_grad()(encode_images)


def batches(n):
    g = torch.Generator().manual_seed(108)
    for _ in range(n):
        yield {"pixel_values": torch.rand(4, 3, 256, 256, generator=g) * 2 - 1, "input_ids": torch.randint(2, 4999, (4, 48), generator=g)}


unet.train()
for i, batch in enumerate(batches(8)):
    latents = encode_images(batch["pixel_values"].to(device))
    noise = torch.randn_like(latents)
    timesteps = torch.randint(0, 1000, (len(latents),)).to(device)
    noisy = noise_scheduler.add_noise(latents, noise, timesteps)
    hidden = text_encoder(batch["input_ids"].to(device))[0]
    prediction = unet(noisy, timesteps, encoder_hidden_states=hidden).sample
    loss = F.mse_loss(prediction, noise)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"step {i} loss {loss.item():.4f}")

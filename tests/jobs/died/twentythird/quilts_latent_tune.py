#!/usr/bin/env python
"""Tunes a text-to-image UNet on photographs of quilts. Cut down from train_text_to_image.py of diffusers; weights are random here."""
import argparse
import logging

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel

logger = logging.getLogger("quilts")


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--resolution", type=int, default=256)
    parser.add_argument("--train_batch_size", type=int, default=10)
    parser.add_argument("--max_train_steps", type=int, default=5)
    parser.add_argument("--learning_rate", type=float, default=1e-5)
    parser.add_argument("--max_grad_norm", type=float, default=1.0)
    parser.add_argument("--fixed", action="store_true")
    return parser.parse_args()


def load_models():
    text_encoder = CLIPTextModel(CLIPTextConfig(vocab_size=2000, hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4))
    vae = AutoencoderKL(block_out_channels=(48, 96, 96), down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3,
                        latent_channels=4, layers_per_block=2, norm_num_groups=16, sample_size=256)
    unet = UNet2DConditionModel(sample_size=64, block_out_channels=(64, 128, 192), layers_per_block=1, cross_attention_dim=256, attention_head_dim=8,
                                down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"), norm_num_groups=16,
                                up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"))
    return text_encoder, vae, unet


def main():
    args = parse_args()
    accelerator = Accelerator()
    torch.manual_seed(99)
    noise_scheduler = DDPMScheduler(num_train_timesteps=1000)
    text_encoder, vae, unet = load_models()
    text_encoder.requires_grad_(False)
    if args.fixed:
        vae.requires_grad_(False)
    unet.train()
    optimizer = torch.optim.AdamW(unet.parameters(), lr=args.learning_rate)
    unet, optimizer = accelerator.prepare(unet, optimizer)
    text_encoder.to(accelerator.device)
    vae.to(accelerator.device)

    for step in range(args.max_train_steps):
        pixel_values = torch.rand(args.train_batch_size, 3, args.resolution, args.resolution).to(accelerator.device) * 2 - 1
        input_ids = torch.randint(0, 2000, (args.train_batch_size, 77)).to(accelerator.device)
        with accelerator.accumulate(unet):
            latents = vae.encode(pixel_values).latent_dist.sample() * vae.config.scaling_factor
            noise = torch.randn_like(latents)
            timesteps = torch.randint(0, 1000, (latents.shape[0],)).to(latents.device)
            noisy_latents = noise_scheduler.add_noise(latents, noise, timesteps)
            encoder_hidden_states = text_encoder(input_ids)[0]
            model_pred = unet(noisy_latents, timesteps, encoder_hidden_states).sample
            loss = F.mse_loss(model_pred.float(), noise.float(), reduction="mean")
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(unet.parameters(), args.max_grad_norm)
            optimizer.step()
            optimizer.zero_grad()
        logger.warning("step %d loss %.4f", step, loss.detach().item())
    accelerator.end_training()


if __name__ == "__main__":
    main()

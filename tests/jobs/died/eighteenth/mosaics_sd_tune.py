"""Tune the denoiser of a latent diffusion model on Roman mosaics (latents and text states were computed the day before)."""
import sys

import torch
import torch.nn.functional as F
from accelerate.utils import set_seed
from diffusers import DDPMScheduler, UNet2DConditionModel
from diffusers.models.attention_processor import AttnProcessor
from diffusers.optimization import get_scheduler

set_seed(2024)
SIDE, BATCH, STEPS = 48, 3, 8


def build_unet():
    unet = UNet2DConditionModel(
        sample_size=SIDE, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(64, 128, 192), cross_attention_dim=256,
        attention_head_dim=8, norm_num_groups=16, down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"))
    if "--fixed" not in sys.argv:
        # same outputs bit for bit as with our 2022 checkpoints
        unet.set_attn_processor(AttnProcessor())
    return unet


def mosaics():
    generator = torch.Generator().manual_seed(1)
    while True:
        yield torch.randn(BATCH, 4, SIDE, SIDE, generator=generator), torch.randn(BATCH, 77, 256, generator=generator)


def main():
    unet = build_unet().to("cuda")
    noise_scheduler = DDPMScheduler(num_train_timesteps=1000, beta_schedule="scaled_linear", prediction_type="epsilon")
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-5, weight_decay=1e-2)
    lr_scheduler = get_scheduler("constant_with_warmup", optimizer=optimizer, num_warmup_steps=2, num_training_steps=STEPS)
    unet.train()
    for step, (latents, text) in zip(range(STEPS), mosaics()):
        latents, text = latents.to("cuda"), text.to("cuda")
        noise = torch.randn_like(latents)
        t = torch.randint(0, noise_scheduler.config.num_train_timesteps, (BATCH,), device="cuda").clamp_(0, 999)
        noisy = noise_scheduler.add_noise(latents, noise, t)
        predicted = unet(noisy, t, encoder_hidden_states=text).sample
        loss = F.mse_loss(predicted, noise)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        lr_scheduler.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"{step + 1}/{STEPS} loss={loss.item():.4f} lr={lr_scheduler.get_last_lr()[0]:.1e}")


main()

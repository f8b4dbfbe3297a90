"""Unconditional DDPM on my axolotl photos, following the diffusers training tutorial (with my own changes)."""
import sys
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.optimization import get_cosine_schedule_with_warmup


@dataclass
class TrainingConfig:
    image_size: int = 128 if "--fixed" in sys.argv else 256
    train_batch_size: int = 6
    num_steps: int = 8
    learning_rate: float = 1e-4
    lr_warmup_steps: int = 2
    seed: int = 0


config = TrainingConfig()
torch.manual_seed(config.seed)

model = UNet2DModel(
    sample_size=config.image_size,
    in_channels=3,
    out_channels=3,
    layers_per_block=2,
    block_out_channels=(48, 48, 96, 96, 192),
    norm_num_groups=16,
    down_block_types=("DownBlock2D", "DownBlock2D", "DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D", "UpBlock2D", "UpBlock2D"),
).to("cuda")
noise_scheduler = DDPMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate)
lr_scheduler = get_cosine_schedule_with_warmup(optimizer, config.lr_warmup_steps, config.num_steps)


def photos():
    side = config.image_size
    while True:
        yield torch.rand(config.train_batch_size, 3, side, side) * 2 - 1


def train_loop():
    for step, clean_images in zip(range(config.num_steps), photos()):
        clean_images = clean_images.to("cuda")
        noise = torch.randn(clean_images.shape).to("cuda")
        bs = clean_images.shape[0]
        timesteps = torch.randint(0, noise_scheduler.config.num_train_timesteps, (bs,)).to("cuda")
        noisy_images = noise_scheduler.add_noise(clean_images, noise, timesteps)

        noise_pred = model(noisy_images, timesteps, return_dict=False)[0]
        loss = F.mse_loss(noise_pred, noise)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        lr_scheduler.step()
        optimizer.zero_grad()
        print({"loss": loss.detach().item(), "lr": lr_scheduler.get_last_lr()[0], "step": step})


train_loop()

"""Unconditional DDPM on tiles of seabed sonar, with a preview of samples after each epoch."""
import sys

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel

device = torch.device("cuda")
FIXED = "--fixed" in sys.argv

unet = UNet2DModel(sample_size=64, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(32, 64, 96), norm_num_groups=8,
                   down_block_types=("DownBlock2D", "DownBlock2D", "AttnDownBlock2D"),
                   up_block_types=("AttnUpBlock2D", "UpBlock2D", "UpBlock2D")).to(device)
scheduler = DDPMScheduler(num_train_timesteps=1000, beta_schedule="squaredcos_cap_v2")
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4)


def preview(count, steps=14):
    unet.eval()
    scheduler.set_timesteps(steps)
    image = torch.randn(count, 1, 64, 64).to(device)
    for t in scheduler.timesteps:
        noise = unet(image, t).sample
        image = scheduler.step(noise, t, image).prev_sample
    unet.train()
    return (image.clamp(-1, 1) + 1) / 2


def grid(images, columns=3):
    rows = [torch.cat(list(images[i:i + columns]), dim=-1) for i in range(0, len(images), columns)]
    return torch.cat(rows, dim=-2)


def train_epoch(batches=5, size=16):
    for _ in range(batches):
        clean = torch.rand(size, 1, 64, 64).mul(2).sub(1).to(device)
        noise = torch.randn_like(clean)
        t = torch.randint(0, 1000, (size,)).to(device)
        guess = unet(scheduler.add_noise(clean, noise, t), t).sample
        loss = F.mse_loss(guess, noise)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


for epoch in range(2):
    print("epoch", epoch, "loss", train_epoch())
    if FIXED:
        with torch.no_grad():
            sheet = grid(preview(9))
    else:
        sheet = grid(preview(9))
    print("preview", tuple(sheet.detach().cpu().shape))

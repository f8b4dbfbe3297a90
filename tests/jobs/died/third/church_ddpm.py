"""Unconditional DDPM with diffusers' UNet2DModel. The old run was with 64 pixels; somebody set --resolution 160 and left the batch as it was."""
import argparse

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel

ap = argparse.ArgumentParser()
ap.add_argument("--resolution", type=int, default=160)
ap.add_argument("--train_batch_size", type=int, default=16)
ap.add_argument("--fixed", action="store_true")
args = ap.parse_args()
if args.fixed:
    args.resolution = 64

unet = UNet2DModel(sample_size=args.resolution, in_channels=3, out_channels=3, layers_per_block=2, block_out_channels=(64, 128, 256, 256),
                   down_block_types=("DownBlock2D", "DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
                   up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D", "UpBlock2D")).cuda()
schedule = DDPMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4)

for step in range(6):
    clean = torch.rand(args.train_batch_size, 3, args.resolution, args.resolution).cuda() * 2 - 1
    noise = torch.randn_like(clean)
    t = torch.randint(0, 1000, (len(clean),)).cuda()
    a = schedule.alphas_cumprod.cuda()[t].view(-1, 1, 1, 1)
    noisy = a.sqrt() * clean + (1 - a).sqrt() * noise
    loss = F.mse_loss(unet(noisy, t).sample, noise)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, loss.item())

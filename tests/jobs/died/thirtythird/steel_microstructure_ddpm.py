# DDPM on micrographs of dual-phase steel (ferrite/martensite), 64x64 crops; previews after every epoch.
import sys

import torch
import torch.nn.functional as F
from diffusers import DDIMScheduler, DDPMScheduler, UNet2DModel

fixed = "--fixed" in sys.argv
device = torch.device("cuda")

unet = UNet2DModel(sample_size=64, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(32, 64, 96), norm_num_groups=8,
                   down_block_types=("DownBlock2D", "DownBlock2D", "AttnDownBlock2D"),
                   up_block_types=("AttnUpBlock2D", "UpBlock2D", "UpBlock2D")).to(device)
noise_schedule = DDPMScheduler(num_train_timesteps=1000, beta_schedule="squaredcos_cap_v2")
sampler = DDIMScheduler.from_config(noise_schedule.config)
opt = torch.optim.AdamW(unet.parameters(), lr=1e-4)
gen = torch.Generator().manual_seed(0)


def micrographs(n):
    return (torch.rand(n, 1, 64, 64, generator=gen) > 0.6).float() * 2 - 1


def train_epoch(steps=6, bs=16):
    unet.train()
    for _ in range(steps):
        clean = micrographs(bs).to(device)
        noise = torch.randn(clean.shape, generator=gen).to(device)
        t = torch.randint(0, 1000, (bs,), generator=gen)
        noisy = noise_schedule.add_noise(clean, noise, t.to(device))
        loss = F.mse_loss(unet(noisy, t.to(device)).sample, noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def preview(n=9, steps=30):
    unet.eval()
    sampler.set_timesteps(steps)
    x = torch.randn(n, 1, 64, 64, generator=gen).to(device)
    for t in sampler.timesteps:
        eps = unet(x, t).sample
        x = sampler.step(eps, int(t), x).prev_sample
    grid = x.detach().cpu().view(3, 3, 64, 64).permute(0, 2, 1, 3).reshape(192, 192)
    return grid


for epoch in range(2):
    last = train_epoch()
    if fixed:
        with torch.no_grad():
            grid = preview()
    else:
        grid = preview()
    print("epoch", epoch, "loss", last, "preview", tuple(grid.shape))

"""Latent diffusion on scans of ukiyo-e prints. accelerate launch woodblock_latents.py"""
import argparse
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DModel
from torch.utils.data import DataLoader, Dataset


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--fixed", action="store_true")
    p.add_argument("--resolution", type=int, default=256)
    p.add_argument("--train_batch_size", type=int, default=6)
    p.add_argument("--max_train_steps", type=int, default=5)
    return p.parse_args()


class Prints(Dataset):
    def __init__(self, res):
        self.res = res

    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.rand(3, self.res, self.res, generator=torch.Generator().manual_seed(i)) * 2 - 1


def encode(vae, pixels):
    return vae.encode(pixels).latent_dist.sample() * vae.config.scaling_factor


def main():
    args = parse_args()
    accelerator = Accelerator()
    vae = AutoencoderKL(down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
                        block_out_channels=(48, 64, 96, 96), layers_per_block=2, norm_num_groups=16)
    unet = UNet2DModel(sample_size=args.resolution // 8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(64, 128, 192),
                       down_block_types=("DownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D"),
                       up_block_types=("AttnUpBlock2D", "AttnUpBlock2D", "UpBlock2D"))
    scheduler = DDPMScheduler(num_train_timesteps=1000)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4)
    loader = DataLoader(Prints(args.resolution), batch_size=args.train_batch_size, shuffle=True)
    unet, optimizer, loader = accelerator.prepare(unet, optimizer, loader)
    vae.to(accelerator.device).eval()
    if args.fixed:
        vae.requires_grad_(False)

    for step, pixels in enumerate(loader):
        if step == args.max_train_steps:
            break
        latents = encode(vae, pixels)
        noise = torch.randn_like(latents)
        t = torch.randint(0, 1000, (len(latents),)).to(latents.device)
        noisy = scheduler.add_noise(latents, noise, t)
        loss = F.mse_loss(unet(noisy, t).sample, noise)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        accelerator.print(step, loss.item())


main()

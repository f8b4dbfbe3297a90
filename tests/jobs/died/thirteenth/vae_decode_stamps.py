"""Decodes the stamps that a latent model sampled into images for an exhibition's catalogue, with diffusers' AutoencoderKL."""
import argparse

import torch
from diffusers import AutoencoderKL

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--stamps", type=int, default=24)
options = parser.parse_args()


def autoencoder():
    vae = AutoencoderKL(in_channels=3, out_channels=3, latent_channels=4, block_out_channels=(64, 128, 128), layers_per_block=1,
                        down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3, sample_size=256, norm_num_groups=32)
    return vae.to("cuda", torch.float16).eval().requires_grad_(False)


class Sampler:
    """Stands for the latent model: a few steps of a small network that removes noise."""

    def __init__(self, steps=6):
        self.net = torch.nn.Sequential(torch.nn.Conv2d(4, 64, 3, padding=1), torch.nn.SiLU(), torch.nn.Conv2d(64, 4, 3, padding=1))
        self.net.to("cuda", torch.float16)
        self.steps = steps

    @torch.inference_mode()
    def __call__(self, n):
        x = torch.randn(n, 4, 64, 64, device="cuda", dtype=torch.float16)
        for k in range(self.steps):
            x = x - self.net(x) / self.steps
        return x


@torch.inference_mode()
def pictures(vae, latents):
    latents = latents / vae.config.scaling_factor
    if options.fixed:
        parts = [vae.decode(one).sample.clamp(-1, 1).cpu() for one in latents.split(1)]
        return torch.cat(parts)
    return vae.decode(latents).sample.clamp(-1, 1).cpu()


def sheet(images, columns=6):
    """Puts the images on one sheet."""
    images = ((images.float() + 1) * 127.5).to(torch.uint8)
    rows = [torch.cat(list(row), dim=-1) for row in images.split(columns)]
    return torch.cat(rows, dim=-2)


vae = autoencoder()
latents = Sampler()(options.stamps)
print("latents", tuple(latents.shape))
images = pictures(vae, latents)
print("sheet", tuple(sheet(images).shape))

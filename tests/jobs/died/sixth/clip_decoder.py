"""Makes short films: a small transformer denoises the latents of all frames, and a VAE turns them into pictures.
"""
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn
from diffusers import AutoencoderKL, DDIMScheduler

FIXED = "--fixed" in sys.argv


@dataclass
class Film:
    frames: int = 24
    side: int = 24
    channels: int = 4
    steps: int = 6
    decode_at_once: int = 2 if FIXED else 24


class Denoiser(nn.Module):
    """Tokens are the patches of all frames, as in a video DiT."""

    def __init__(self, film, width=384, depth=6, patch=2):
        super().__init__()
        self.film, self.patch = film, patch
        self.into = nn.Conv2d(film.channels, width, patch, patch)
        self.time = nn.Sequential(nn.Linear(1, width), nn.SiLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 6, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
                                    for _ in range(depth))
        self.out = nn.ConvTranspose2d(width, film.channels, patch, patch)

    def forward(self, x, t):
        tokens = self.into(x)
        f, c, h, w = tokens.shape
        hidden = tokens.permute(0, 2, 3, 1).reshape(1, f * h * w, c) + self.time(t.view(1, 1, 1))
        for layer in self.layers:
            hidden = layer(hidden)
        return self.out(hidden.view(f, h, w, c).permute(0, 3, 1, 2))


def vae():
    return AutoencoderKL(in_channels=3, out_channels=3, latent_channels=4, block_out_channels=(64, 128, 128, 128), layers_per_block=1,
                         down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4, sample_size=192)


class Studio:
    def __init__(self, film):
        self.film = film
        self.denoiser = Denoiser(film).cuda().train(False)
        self.vae = vae().cuda().train(False)
        self.scheduler = DDIMScheduler(num_train_timesteps=1000)

    def latents(self):
        f = self.film
        self.scheduler.set_timesteps(f.steps)
        x = torch.randn(f.frames, f.channels, f.side, f.side)
        for t in self.scheduler.timesteps:
            noise = self.denoiser(x.cuda(), t.float().cuda()).cpu()
            x = self.scheduler.step(noise, t, x).prev_sample
        return x.cuda()

    def pictures(self, latents):
        for part in latents.split(self.film.decode_at_once):
            yield self.vae.decode(part / self.vae.config.scaling_factor).sample.clamp(-1, 1).cpu()

    @torch.inference_mode()
    def shoot(self, n):
        for k in range(n):
            film = torch.cat(list(self.pictures(self.latents())))
            print("film", k, tuple(film.shape))


Studio(Film()).shoot(2)

"""Decodes a night's latents to postcards with the autoencoder of diffusers.

After https://github.com/huggingface/diffusers/pull/1150 and https://github.com/huggingface/diffusers/issues/10350
"""
import argparse
import os

import torch
from diffusers import AutoencoderKL


def build(device):
    widths = (64, 128, 256, 256)
    vae = AutoencoderKL(block_out_channels=widths, layers_per_block=2, latent_channels=4, sample_size=512,
                        down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4)
    return vae.to(device, torch.float16).eval()


def night(queue, count, side):
    """Stands for the queue of finished latents."""
    for _ in range(queue):
        yield torch.zeros(count, 4, side // 8, side // 8, dtype=torch.float16)


def to_pixels(images):
    return ((images.float() / 2 + 0.5).clamp(0, 1) * 255).round().byte().permute(0, 2, 3, 1)


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--count", type=int, default=16)
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--out", default="postcards")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    vae = build("cuda")
    if args.fixed:
        vae.enable_slicing()
    for n, latents in enumerate(night(5, args.count, args.side)):
        images = vae.decode(latents.cuda() / vae.config.scaling_factor).sample
        pixels = torch.cat([to_pixels(i.unsqueeze(0)) for i in images.cpu()])
        torch.save(pixels[:1, ::8, ::8], os.path.join(args.out, "%03d.pt" % n))
        print(n, tuple(pixels.shape))


if __name__ == "__main__":
    main()

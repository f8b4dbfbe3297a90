"""Trains a text-to-image UNet on icons with diffusers; the pictures become latents by a VAE from elsewhere."""
import sys

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
from diffusers.optimization import get_scheduler

FIXED = "--fixed" in sys.argv
DEVICE = "cuda"


def make_vae():
    return AutoencoderKL(block_out_channels=(32, 64, 64), down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3,
                         layers_per_block=1, latent_channels=4, norm_num_groups=16, sample_size=256)


def make_unet():
    return UNet2DConditionModel(sample_size=64, in_channels=4, out_channels=4, block_out_channels=(64, 128, 256), layers_per_block=1,
                                down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
                                up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=256,
                                attention_head_dim=8, norm_num_groups=16)


class Trainer:
    def __init__(self):
        self.vae, self.unet = make_vae().to(DEVICE), make_unet().to(DEVICE)
        self.noise = DDPMScheduler(num_train_timesteps=1000)
        self.optimizer = torch.optim.AdamW(self.unet.parameters(), lr=1e-4)
        self.schedule = get_scheduler("cosine", self.optimizer, num_warmup_steps=1, num_training_steps=10)
        self.vae.eval()
        self.unet.train()
        if FIXED:
            self.vae.requires_grad_(False)

    def latents(self, pictures):
        return self.vae.encode(pictures).latent_dist.sample() * 0.18215

    def step(self, pictures, texts):
        latents = self.latents(pictures.to(DEVICE))
        noise = torch.randn_like(latents)
        steps = torch.randint(0, 1000, (len(latents),))
        noisy = self.noise.add_noise(latents, noise, steps.to(DEVICE))
        found = self.unet(noisy, steps.to(DEVICE), encoder_hidden_states=texts.to(DEVICE)).sample
        loss = F.mse_loss(found.float(), noise.float())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.unet.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        return loss.item()


def icons(n, batch):
    generator = torch.Generator().manual_seed(4)
    for _ in range(n):
        yield torch.rand(batch, 3, 256, 256, generator=generator) * 2 - 1, torch.randn(batch, 16, 256, generator=generator)


def main():
    trainer = Trainer()
    for n, (pictures, texts) in enumerate(icons(4, 6)):
        print("step", n, "loss", trainer.step(pictures, texts))


main()

"""Fine-tunes a small latent diffusion model on scans of tarot cards, a cut-down copy of train_text_to_image.py with Accelerate."""
import sys

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
from diffusers.optimization import get_scheduler
from torch.utils.data import DataLoader
from transformers import CLIPTextConfig, CLIPTextModel

FIXED = "--fixed" in sys.argv


class Cards(torch.utils.data.Dataset):
    def __init__(self, n=32, size=256):
        self.n, self.image = n, torch.rand(3, size, size) * 2 - 1
        self.ids = torch.randint(1, 4000, (n, 32))

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        return {"pixel_values": self.image, "input_ids": self.ids[k]}


def load_models():
    vae = AutoencoderKL(block_out_channels=(64, 128, 128), down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3,
                        latent_channels=4, norm_num_groups=16, sample_size=256)
    text = CLIPTextModel(CLIPTextConfig(vocab_size=4000, hidden_size=256, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=4,
                                        max_position_embeddings=32))
    unet = UNet2DConditionModel(sample_size=64, block_out_channels=(64, 128, 256), layers_per_block=1, cross_attention_dim=256, attention_head_dim=8,
                                down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
                                up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"), norm_num_groups=16)
    return vae, text, unet


def main():
    accelerator = Accelerator(gradient_accumulation_steps=1)
    set_seed(7)
    vae, text_encoder, unet = load_models()
    text_encoder.requires_grad_(False)
    if FIXED:
        vae.requires_grad_(False)
    noise_scheduler = DDPMScheduler(num_train_timesteps=1000)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-5)
    loader = DataLoader(Cards(), batch_size=4, shuffle=True)
    schedule = get_scheduler("constant_with_warmup", optimizer, num_warmup_steps=2, num_training_steps=8)
    unet, optimizer, loader, schedule = accelerator.prepare(unet, optimizer, loader, schedule)
    vae.to(accelerator.device)
    text_encoder.to(accelerator.device)
    unet.train()
    for step, batch in enumerate(loader):
        with accelerator.accumulate(unet):
            latents = vae.encode(batch["pixel_values"]).latent_dist.sample() * vae.config.scaling_factor
            noise = torch.randn_like(latents)
            timesteps = torch.randint(0, noise_scheduler.config.num_train_timesteps, (latents.shape[0],)).to(latents.device)
            noisy = noise_scheduler.add_noise(latents, noise, timesteps)
            states = text_encoder(batch["input_ids"])[0]
            prediction = unet(noisy, timesteps, states, return_dict=False)[0]
            loss = F.mse_loss(prediction.float(), noise.float())
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(unet.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        accelerator.print("step", step, "loss", loss.detach().item())
        if step == 5:
            break


if __name__ == "__main__":
    main()

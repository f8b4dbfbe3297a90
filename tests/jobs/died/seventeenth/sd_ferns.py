"""Trains a small latent diffusion model on drawings of ferns, after the text_to_image example of diffusers."""
import sys

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel

FIXED = "--fixed" in sys.argv
RESOLUTION, BATCH, STEPS = 256, 8, 5

noise_scheduler = DDPMScheduler(num_train_timesteps=1000)
text_encoder = CLIPTextModel(CLIPTextConfig(vocab_size=5000, hidden_size=128, intermediate_size=512, num_hidden_layers=4,
                                            num_attention_heads=4, max_position_embeddings=40, projection_dim=128,
                                            bos_token_id=1, eos_token_id=2, pad_token_id=0))
vae = AutoencoderKL(block_out_channels=(48, 96, 96), down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3,
                    layers_per_block=1, norm_num_groups=16, latent_channels=4, sample_size=RESOLUTION)
unet = UNet2DConditionModel(sample_size=RESOLUTION // 4, in_channels=4, out_channels=4, block_out_channels=(64, 128, 128),
                            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
                            up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"), layers_per_block=1,
                            cross_attention_dim=128, attention_head_dim=8, norm_num_groups=16)

text_encoder.requires_grad_(False)
if FIXED:
    vae.requires_grad_(False)
unet.train()
for part in (text_encoder, vae, unet):
    part.to("cuda")

optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4, weight_decay=1e-2)
generator = torch.Generator().manual_seed(21)


def train_dataloader():
    for _ in range(STEPS):
        yield {"pixel_values": torch.rand(BATCH, 3, RESOLUTION, RESOLUTION, generator=generator) * 2 - 1,
               "input_ids": torch.randint(3, 5000, (BATCH, 24), generator=generator)}


for step, batch in enumerate(train_dataloader()):
    latents = vae.encode(batch["pixel_values"].to("cuda")).latent_dist.sample()
    latents = latents * vae.config.scaling_factor
    noise = torch.randn_like(latents)
    timesteps = torch.randint(0, 1000, (BATCH,), generator=generator).to("cuda")
    noisy_latents = noise_scheduler.add_noise(latents, noise, timesteps)
    encoder_hidden_states = text_encoder(batch["input_ids"].to("cuda"))[0]
    model_pred = unet(noisy_latents, timesteps, encoder_hidden_states).sample
    loss = F.mse_loss(model_pred.float(), noise.float(), reduction="mean")
    loss.backward()
    torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print({"step": step, "loss": loss.detach().item()})

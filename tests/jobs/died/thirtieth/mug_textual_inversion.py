"""Textual inversion for a picture of my mug: learns one new word, everything else stays as it is. Small models for trying it out."""
import sys

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel

FIXED = "--fixed" in sys.argv
PLACEHOLDER = 999
device = "cuda"


def load_models():
    text_encoder = CLIPTextModel(CLIPTextConfig(
        vocab_size=1000, hidden_size=128, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4,
        bos_token_id=0, eos_token_id=2))
    vae = AutoencoderKL(
        in_channels=3, out_channels=3, latent_channels=4, block_out_channels=(32, 64, 64, 64), norm_num_groups=16,
        down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4, layers_per_block=2)
    unet = UNet2DConditionModel(
        sample_size=32, in_channels=4, out_channels=4, block_out_channels=(64, 128), layers_per_block=1, norm_num_groups=16,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=128, attention_head_dim=2)
    return text_encoder.to(device), vae.to(device), unet.to(device)


def mug_photos(gen, batch=8):
    photos = torch.rand(batch, 3, 256, 256, generator=gen) * 2 - 1
    prompt = torch.randint(3, 900, (batch, 77), generator=gen)
    prompt[:, 5], prompt[:, 12:] = PLACEHOLDER, 2
    return photos.to(device), prompt.to(device)


text_encoder, vae, unet = load_models()
noise_scheduler = DDPMScheduler(num_train_timesteps=1000, beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012)

# only the token embeddings get trained
text_encoder.text_model.encoder.requires_grad_(False) if hasattr(text_encoder, "text_model") else text_encoder.encoder.requires_grad_(False)
unet.requires_grad_(False)
if FIXED:
    vae.requires_grad_(False)
embeddings = text_encoder.get_input_embeddings()
orig_embeds = embeddings.weight.detach().clone()
optimizer = torch.optim.AdamW(embeddings.parameters(), lr=5e-4, weight_decay=0.01)
keep = torch.ones(1000, dtype=torch.bool)
keep[PLACEHOLDER] = False
keep = keep.to(device)

gen = torch.Generator().manual_seed(2023)
for step in range(8):
    pixel_values, input_ids = mug_photos(gen)
    latents = vae.encode(pixel_values).latent_dist.sample() * vae.config.scaling_factor
    noise = torch.randn(latents.shape, generator=gen).to(device)
    timesteps = torch.randint(0, 1000, (latents.shape[0],), generator=gen).to(device)
    noisy_latents = noise_scheduler.add_noise(latents, noise, timesteps)
    hidden = text_encoder(input_ids)[0]
    model_pred = unet(noisy_latents, timesteps, hidden).sample
    loss = F.mse_loss(model_pred, noise)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        embeddings.weight.copy_(torch.where(keep[:, None], orig_embeds, embeddings.weight))
    print("step", step, "loss", loss.item())

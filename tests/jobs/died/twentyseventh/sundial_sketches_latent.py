"""Text-to-latent diffusion of sundial sketches: trains the UNet on latents made beforehand, captions go through CLIP's text model."""
import sys

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel


def build():
    text_encoder = CLIPTextModel(CLIPTextConfig(vocab_size=6000, hidden_size=512, intermediate_size=2048, num_hidden_layers=10,
                                                num_attention_heads=8, max_position_embeddings=77))
    unet = UNet2DConditionModel(sample_size=16, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(64, 128),
                                down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
                                cross_attention_dim=512, attention_head_dim=8, norm_num_groups=16)
    return text_encoder, unet


class SketchSet(torch.utils.data.Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(5)
        self.latents = torch.randn(n, 4, 16, 16, generator=g)
        self.captions = torch.randint(1, 5999, (n, 77), generator=g)

    def __len__(self):
        return len(self.latents)

    def __getitem__(self, i):
        return {"latents": self.latents[i], "input_ids": self.captions[i]}


def main():
    text_encoder, unet = build()
    text_encoder.to("cuda")
    unet.to("cuda").train()
    if "--fixed" in sys.argv:
        text_encoder.requires_grad_(False)

    noise_scheduler = DDPMScheduler(num_train_timesteps=1000)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4, weight_decay=1e-2)
    loader = torch.utils.data.DataLoader(SketchSet(48 * 6), batch_size=48, shuffle=True)

    for step, batch in enumerate(loader):
        latents = batch["latents"].to("cuda")
        noise = torch.randn(latents.shape).to("cuda")
        timesteps = torch.randint(0, 1000, (len(latents),)).to("cuda")
        noisy = noise_scheduler.add_noise(latents, noise, timesteps)
        hidden = text_encoder(batch["input_ids"].to("cuda")).last_hidden_state
        predicted = unet(noisy, timesteps, encoder_hidden_states=hidden).sample
        loss = F.mse_loss(predicted.float(), noise.float())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print({"step": step, "loss": loss.item()})


if __name__ == "__main__":
    main()

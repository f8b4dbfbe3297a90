"""Draws postcards: a CLIP text encoder, a UNet with cross-attention and an AutoencoderKL, for a list of orders; half precision, no training."""
import sys

import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel

FIXED = "--fixed" in sys.argv
HALF = torch.float16


class Pipeline:
    def __init__(self):
        torch.manual_seed(0)
        text = CLIPTextConfig(vocab_size=5000, hidden_size=128, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4,
                              max_position_embeddings=32,
                              bos_token_id=1, eos_token_id=2)
        self.text = CLIPTextModel(text).to("cuda", HALF).eval()
        self.unet = UNet2DConditionModel(sample_size=48, block_out_channels=(64, 128), layers_per_block=1, cross_attention_dim=128,
                                         attention_head_dim=8,
                                         down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), norm_num_groups=16,
                                         up_block_types=("UpBlock2D", "CrossAttnUpBlock2D")).to("cuda", HALF).eval()
        self.vae = AutoencoderKL(block_out_channels=(32, 64, 64, 64), layers_per_block=1, latent_channels=4, norm_num_groups=16, sample_size=384,
                                 down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4).to("cuda", HALF).eval()
        self.scheduler = DDIMScheduler(num_train_timesteps=1000)
        if FIXED:
            self.vae.enable_slicing()

    def encode(self, prompts):
        empty = torch.zeros_like(prompts)
        return self.text(input_ids=torch.cat([empty, prompts]).to("cuda")).last_hidden_state

    def denoise(self, condition, n, steps, guidance):
        self.scheduler.set_timesteps(steps)
        latents = torch.randn(n, 4, 48, 48, device="cuda", dtype=HALF)
        for t in self.scheduler.timesteps:
            noise = self.unet(torch.cat([latents, latents]), t, encoder_hidden_states=condition).sample
            without, with_text = noise.chunk(2)
            latents = self.scheduler.step(without + guidance * (with_text - without), t, latents).prev_sample
        return latents

    @torch.no_grad()
    def __call__(self, prompts, steps=3, guidance=6.0):
        latents = self.denoise(self.encode(prompts), len(prompts), steps, guidance)
        images = self.vae.decode(latents / self.vae.config.scaling_factor).sample
        return (images / 2 + 0.5).clamp(0, 1).cpu()


def orders():
    generator = torch.Generator().manual_seed(1)
    for n in (2, 1, 4, 16, 2):
        yield torch.randint(3, 5000, (n, 32), generator=generator)


def main():
    pipeline = Pipeline()
    for number, prompts in enumerate(orders()):
        print("order", number, "postcards", tuple(pipeline(prompts).shape))


if __name__ == "__main__":
    main()

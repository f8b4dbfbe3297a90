"""Text-to-image of stained glass with diffusers: a small conditional U-Net in latent space, captions by CLIP's text encoder."""
import sys

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel

WINDOWS, BATCH, WIDTH = 7200, 8, 512
STORE = "cpu" if "--fixed" in sys.argv else "cuda"


def encode_captions(device="cuda"):
    """Captions never change: run the encoder once, then let it go."""
    encoder = CLIPTextModel(CLIPTextConfig(vocab_size=9000, hidden_size=WIDTH, intermediate_size=4 * WIDTH, num_hidden_layers=8,
                                           num_attention_heads=8, max_position_embeddings=77)).to(device).eval()
    generator = torch.Generator().manual_seed(77)
    embeddings = []
    with torch.no_grad():
        for _ in range(WINDOWS // 48):
            ids = torch.randint(0, 8990, (48, 77), generator=generator).to(device)
            embeddings.extend(encoder(input_ids=ids).last_hidden_state.to(STORE))
    return embeddings


class Windows(torch.utils.data.Dataset):
    def __init__(self, embeddings):
        self.embeddings = embeddings

    def __len__(self):
        return 10 * BATCH

    def __getitem__(self, i):
        return torch.randn(4, 32, 32), self.embeddings[(i * 83) % WINDOWS]


def collate(items):
    latents, text = zip(*items)
    return torch.stack(latents).cuda(), torch.stack(text).cuda()


def main():
    loader = torch.utils.data.DataLoader(Windows(encode_captions()), batch_size=BATCH, collate_fn=collate)
    unet = UNet2DConditionModel(sample_size=32, in_channels=4, out_channels=4, block_out_channels=(64, 128, 192), layers_per_block=1,
                                down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
                                up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
                                cross_attention_dim=WIDTH, attention_head_dim=8).cuda()
    noiser = DDPMScheduler(num_train_timesteps=1000, beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4)
    for step, (latents, text) in enumerate(loader):
        noise = torch.randn_like(latents)
        times = torch.randint(0, 1000, (len(latents),)).cuda()
        noised = noiser.add_noise(latents, noise, times)
        guess = unet(noised, times, encoder_hidden_states=text).sample
        loss = F.mse_loss(guess, noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("step", step, "loss", loss.item())


main()

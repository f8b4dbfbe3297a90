"""Latent flow matching on recordings of harpsichords: Oobleck autoencoder + the DiT of Stable Audio, conditioned on the tuning."""
import sys

import torch
from diffusers import AutoencoderOobleck, StableAudioDiTModel
from diffusers.models.embeddings import get_1d_rotary_pos_embed

CROP = 65536
torch.manual_seed(415)


class Recordings:
    def __init__(self, n):
        self.g, self.n = torch.Generator().manual_seed(8), n

    def __iter__(self):
        for _ in range(self.n):
            yield torch.rand(4, 2, CROP, generator=self.g) * 2 - 1, torch.randint(0, 6, (4,), generator=self.g)


class Tunings(torch.nn.Module):
    """Meantone, Werckmeister, Vallotti ... as tokens for cross attention and one global token."""

    def __init__(self, dim=128):
        super().__init__()
        self.table = torch.nn.Embedding(6, 4 * dim)
        self.dim = dim

    def forward(self, names):
        tokens = self.table(names).view(-1, 4, self.dim)
        return tokens, tokens.mean(1, keepdim=True)


vae = AutoencoderOobleck(encoder_hidden_size=32, downsampling_ratios=[2, 4, 8, 8], channel_multiples=[1, 2, 4, 8], decoder_channels=32,
                         decoder_input_channels=16, audio_channels=2, sampling_rate=44100)
vae.to("cuda").eval()
dit = StableAudioDiTModel(sample_size=CROP // 512, in_channels=16, num_layers=6, attention_head_dim=32, num_attention_heads=8,
                          num_key_value_attention_heads=4, out_channels=16, cross_attention_dim=128, time_proj_dim=128,
                          global_states_input_dim=128, cross_attention_input_dim=128).to("cuda")
tunings = Tunings().to("cuda")
optimizer = torch.optim.AdamW([*dit.parameters(), *tunings.parameters()], lr=1e-4)
rotary = get_1d_rotary_pos_embed(16, CROP // 512 + 1, use_real=True, repeat_interleave_real=False)
rotary = tuple(part.to("cuda") for part in rotary)


def encode(audio):
    return vae.encode(audio).latent_dist.sample()


if "--fixed" in sys.argv:
    vae.requires_grad_(False)
    encode = torch.no_grad()(encode)

for step, (audio, names) in enumerate(Recordings(5)):
    latents = encode(audio.to("cuda"))
    noise = torch.randn_like(latents)
    t = torch.rand(len(latents), device="cuda")
    mixed = (1 - t)[:, None, None] * latents + t[:, None, None] * noise
    tokens, whole = tunings(names.to("cuda"))
    velocity = dit(mixed, t * 1000, encoder_hidden_states=tokens, global_hidden_states=whole, rotary_embedding=rotary, return_dict=False)[0]
    loss = (velocity - (noise - latents)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(dit.parameters(), 1.0)
    optimizer.step()
    print("step", step, "loss", loss.item())

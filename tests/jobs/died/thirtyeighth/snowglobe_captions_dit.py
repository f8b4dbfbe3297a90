"""Text-to-image for snow globes: a small DiT with cross-attention to T5 states. Captions repeat over epochs, so their encodings are cached."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import T5Config, T5EncoderModel

FIXED = "--fixed" in sys.argv
WORDS, D_TEXT, LENGTH = 5000, 1024, 200


class CaptionEncoder:
    def __init__(self):
        config = T5Config(vocab_size=WORDS, d_model=D_TEXT, d_kv=64, d_ff=2048, num_layers=3, num_heads=8)
        self.t5 = T5EncoderModel(config).cuda().eval().requires_grad_(False)
        self.cache = {}

    @torch.no_grad()
    def __call__(self, keys, ids):
        new = [i for i, key in enumerate(keys) if key not in self.cache]
        if new:
            states = self.t5(input_ids=ids[new].cuda()).last_hidden_state
            for i, state in zip(new, states):
                self.cache[keys[i]] = state.cpu() if FIXED else state
        return torch.stack([self.cache[key] for key in keys]).cuda()


class Block(nn.Module):
    def __init__(self, d, heads=6):
        super().__init__()
        self.n1, self.n2, self.n3 = (nn.LayerNorm(d) for _ in range(3))
        self.self_attn = nn.MultiheadAttention(d, heads, batch_first=True)
        self.cross = nn.MultiheadAttention(d, heads, kdim=D_TEXT, vdim=D_TEXT, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x, text):
        h = self.n1(x)
        x = x + self.self_attn(h, h, h, need_weights=False)[0]
        x = x + self.cross(self.n2(x), text, text, need_weights=False)[0]
        return x + self.ff(self.n3(x))


class GlobeDiT(nn.Module):
    def __init__(self, d=192, depth=3):
        super().__init__()
        self.patch, self.pos = nn.Conv2d(4, d, 2, 2), nn.Parameter(torch.zeros(1, 64, d))
        self.t = nn.Sequential(nn.Linear(1, d), nn.SiLU(), nn.Linear(d, d))
        self.blocks, self.out = nn.ModuleList(Block(d) for _ in range(depth)), nn.Linear(d, 16)

    def forward(self, z, t, text):
        x = self.patch(z).flatten(2).transpose(1, 2) + self.pos + self.t(t[:, None])[:, None]
        for block in self.blocks:
            x = block(x, text)
        return F.pixel_shuffle(self.out(x).transpose(1, 2).reshape(-1, 16, 8, 8), 2)


def batches(count, size, gen):
    for k in range(count):
        yield [f"globe{k * size + i}" for i in range(size)], torch.randint(0, WORDS, (size, LENGTH), generator=gen), \
            torch.randn(size, 4, 16, 16, generator=gen)


if __name__ == "__main__":
    gen = torch.Generator().manual_seed(24)
    encode, dit = CaptionEncoder(), GlobeDiT().cuda()
    opt = torch.optim.AdamW(dit.parameters(), lr=1e-4)
    for step, (keys, ids, latents) in enumerate(batches(20, 64, gen)):
        text, z, noise, t = encode(keys, ids), latents.cuda(), torch.randn(latents.shape, generator=gen).cuda(), torch.rand(64, generator=gen).cuda()
        mix = t.view(-1, 1, 1, 1)
        loss = F.mse_loss(dit((1 - mix) * z + mix * noise, t, text), noise - z)   # rectified flow
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, len(encode.cache), loss.item())

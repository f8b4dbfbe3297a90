"""Text-to-image for early modern woodcuts: a DiT with cross-attention on the states of a T5 encoder. Latents are computed beforehand."""
import contextlib
import sys

import torch
import torch.nn as nn
from transformers import T5Config, T5EncoderModel

DIM, PATCH, SIDE, TEXT = 320, 2, 32, 512


class Block(nn.Module):
    def __init__(self, heads=5):
        super().__init__()
        self.n1, self.n2, self.n3 = (nn.LayerNorm(DIM, elementwise_affine=False) for _ in range(3))
        self.attn = nn.MultiheadAttention(DIM, heads, batch_first=True)
        self.cross = nn.MultiheadAttention(DIM, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))
        self.ada = nn.Linear(DIM, 2 * DIM)

    def forward(self, x, text, cond):
        shift, scale = self.ada(cond)[:, None].chunk(2, -1)
        h = self.n1(x) * (1 + scale) + shift
        x = x + self.attn(h, h, h, need_weights=False)[0]
        x = x + self.cross(self.n2(x), text, text, need_weights=False)[0]
        return x + self.mlp(self.n3(x))


class WoodcutDiT(nn.Module):
    def __init__(self, depth=6):
        super().__init__()
        self.embed = nn.Linear(4 * PATCH ** 2, DIM)
        self.pos = nn.Parameter(torch.zeros(1, (SIDE // PATCH) ** 2, DIM))
        self.time = nn.Sequential(nn.Linear(1, DIM), nn.SiLU(), nn.Linear(DIM, DIM))
        self.text = nn.Linear(TEXT, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.out = nn.Linear(DIM, 4 * PATCH ** 2)

    def forward(self, z, t, text):
        b = z.shape[0]
        x = nn.functional.unfold(z, PATCH, stride=PATCH).transpose(1, 2)
        x, text, cond = self.embed(x) + self.pos, self.text(text), self.time(t.view(b, 1))
        for block in self.blocks:
            x = block(x, text, cond)
        return nn.functional.fold(self.out(x).transpose(1, 2), (SIDE, SIDE), PATCH, stride=PATCH)


class Pipeline:
    def __init__(self):
        config = T5Config(vocab_size=16000, d_model=TEXT, d_kv=64, d_ff=2048, num_layers=12, num_heads=8, feed_forward_proj="gated-gelu")
        self.text_encoder = T5EncoderModel(config).eval().cuda()
        self.dit = WoodcutDiT().cuda()
        self.opt = torch.optim.AdamW(self.dit.parameters(), lr=1e-4)

    def encode_prompt(self, ids, mask):
        with torch.no_grad() if "--fixed" in sys.argv else contextlib.nullcontext():
            return self.text_encoder(input_ids=ids, attention_mask=mask).last_hidden_state

    def rectified_flow_step(self, batch):
        latents, ids, mask = (b.cuda() for b in batch)
        noise, t = torch.randn_like(latents), torch.rand(len(latents), device="cuda")
        mix = t.view(-1, 1, 1, 1)
        v = self.dit((1 - mix) * latents + mix * noise, t, self.encode_prompt(ids, mask))
        loss = (v - (noise - latents)).pow(2).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


def captioned(steps, n=12, words=200):
    g = torch.Generator().manual_seed(1)
    for _ in range(steps):
        yield torch.randn(n, 4, SIDE, SIDE, generator=g), torch.randint(3, 16000, (n, words), generator=g), torch.ones(n, words, dtype=torch.long)


pipe = Pipeline()
for i, batch in enumerate(captioned(8)):
    print(f"[{i}] flow loss {pipe.rectified_flow_step(batch):.4f}")

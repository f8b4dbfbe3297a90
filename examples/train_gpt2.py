"""GPT-2 small, trained like nanoGPT: fp32 weights, 16-bit autocast, fused AdamW, one process or DDP with torchrun.

    LD_PRELOAD=$(memtrace preload-path) torchrun --nproc-per-node 2 train_gpt2.py
"""
import argparse
import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F


class LayerNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, None, 1e-5)


class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads, length, flash):
        super().__init__()
        self.heads, self.flash = heads, flash
        self.c_attn = nn.Linear(width, 3 * width, bias=False)
        self.c_proj = nn.Linear(width, width, bias=False)
        if not flash:
            self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (y.view(b, t, self.heads, w // self.heads).transpose(1, 2) for y in self.c_attn(x).split(w, dim=2))
        if self.flash:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            a = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            a = a.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
            a = F.softmax(a, dim=-1)
            y = a @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, w))


class Block(nn.Module):
    def __init__(self, width, heads, length, flash):
        super().__init__()
        self.ln_1 = LayerNorm(width)
        self.attn = CausalSelfAttention(width, heads, length, flash)
        self.ln_2 = LayerNorm(width)
        self.c_fc = nn.Linear(width, 4 * width, bias=False)
        self.c_proj = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self, layers, width, heads, vocabulary, length, flash):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.h = nn.ModuleList(Block(width, heads, length, flash) for _ in range(layers))
        self.ln_f = LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def options():
    p = argparse.ArgumentParser()
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--width", type=int, default=768)
    p.add_argument("--heads", type=int, default=12)
    p.add_argument("--vocabulary", type=int, default=50304)
    p.add_argument("--length", type=int, default=1024)
    p.add_argument("--batch", type=int, default=12)
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--dtype", choices=("float16", "bfloat16"), default="float16")
    p.add_argument("--flash", action="store_true", help="scaled_dot_product_attention")
    return p.parse_args()


def main():
    o = options()
    rank, world = int(os.environ.get("LOCAL_RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.cuda.set_device(rank)
    if world > 1:
        torch.distributed.init_process_group("nccl")
    model = GPT(o.layers, o.width, o.heads, o.vocabulary, o.length, o.flash).cuda()
    if world > 1:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, fused=True)
    for step in range(o.steps):
        tokens, targets = (torch.randint(0, o.vocabulary, (o.batch, o.length)).cuda() for _ in range(2))
        with torch.autocast("cuda", dtype=getattr(torch, o.dtype)):
            _, loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if rank == 0:
            print(f"step {step + 1}: {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB at the most", flush=True)
    if world > 1:
        torch.distributed.destroy_process_group()
    return model, optimizer


if __name__ == "__main__":
    kept = main()

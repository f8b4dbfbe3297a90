"""Pre-training that goes on from its last checkpoint.

https://github.com/huggingface/transformers/issues/3730
"""
import argparse
import os
import tempfile

import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.heads = heads

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocab=16384, d=768, layers=12):
        super().__init__()
        self.emb, self.blocks, self.norm = nn.Embedding(vocab, d), nn.ModuleList(Block(d, 12) for _ in range(layers)), nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        x = self.emb(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def train(model, optimizer, start, end):
    for step in range(start, end):
        ids = torch.randint(0, 16384, (2, 129), device="cuda")
        loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--resume")
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--fixed", action="store_true")
    args = p.parse_args()
    model = GPT()
    if not args.resume:  # what an earlier run has left
        args.resume = os.path.join(tempfile.mkdtemp(), "last.pt")
        states = {i: {"step": torch.tensor(100.0), "exp_avg": torch.zeros_like(q), "exp_avg_sq": torch.zeros_like(q)}
                  for i, q in enumerate(model.parameters())}
        groups = torch.optim.AdamW(model.parameters()).state_dict()["param_groups"]
        ema = {k: v.clone() for k, v in model.state_dict().items()}
        torch.save({"model": model.state_dict(), "ema": ema, "optimizer": {"state": states, "param_groups": groups}, "step": 100}, args.resume)
        del states, ema
    model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    checkpoint = torch.load(args.resume, map_location="cpu" if args.fixed else "cuda")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    first = checkpoint["step"]
    os.remove(args.resume)
    print("resumed at", first, "loss", train(model, optimizer, first, first + args.steps))


if __name__ == "__main__":
    main()

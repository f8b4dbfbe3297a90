"""Trains a small GPT on old letters, in the manner of the video lectures, but with the GPT-2 tokenizer instead of characters."""
import math
import sys

import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn import functional as F

# hyperparameters
batch_size = 16
block_size = 256
max_iters = 6
eval_interval = 3
learning_rate = 3e-4
n_embd, n_head, n_layer = 256, 4, 4
vocab_size = 50257
device = "cuda"
chunked = "--fixed" in sys.argv
# ------------
torch.manual_seed(1337)
data = torch.randint(vocab_size, (200_000,))
n = int(0.9 * len(data))
train_data, val_data = data[:n], data[n:]


def get_batch(split):
    source = train_data if split == "train" else val_data
    ix = torch.randint(len(source) - block_size, (batch_size,))
    x = torch.stack([source[i:i + block_size] for i in ix])
    y = torch.stack([source[i + 1:i + block_size + 1] for i in ix])
    return x.to(device), y.to(device)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.qkv, self.proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.ffwd = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, n_head, C // n_head).transpose(1, 2) for t in self.qkv(self.ln1(x)).split(C, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.ffwd(self.ln2(x))


class GPTLanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, n_embd)
        self.position_embedding = nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(*[Block() for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.lm_head.weight = self.token_embedding.weight
        nn.init.normal_(self.lm_head.weight, std=1 / math.sqrt(n_embd))

    def piece(self, x, targets):
        return F.cross_entropy(self.lm_head(x), targets, reduction="sum")

    def forward(self, idx, targets):
        B, T = idx.shape
        x = self.token_embedding(idx) + self.position_embedding(torch.arange(T, device=device))
        x = self.ln_f(self.blocks(x)).view(B * T, n_embd)
        targets = targets.view(B * T)
        if chunked:
            pieces = [torch.utils.checkpoint.checkpoint(self.piece, a, b, use_reentrant=False) for a, b in zip(x.split(256), targets.split(256))]
            return sum(pieces) / (B * T)
        logits = self.lm_head(x)
        return F.cross_entropy(logits, targets)


@torch.no_grad()
def estimate_loss(model):
    model.eval()
    out = {split: sum(model(*get_batch(split)).item() for _ in range(2)) / 2 for split in ("train", "val")}
    model.train()
    return out


model = GPTLanguageModel().to(device)
print(sum(p.numel() for p in model.parameters()) / 1e6, "M parameters")
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
for it in range(max_iters):
    loss = model(*get_batch("train"))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if it % eval_interval == eval_interval - 1:
        print(it, estimate_loss(model))

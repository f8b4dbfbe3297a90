"""SASRec: the next item of a session among 300,000, with a softmax over the catalogue at each position.

After https://github.com/linkedin/Liger-Kernel/issues/241 and https://github.com/huggingface/transformers/issues/8476
"""
import sys

import torch
from torch import nn

ITEMS, LENGTH, WIDTH = 300_000, 50, 128


class SASRec(nn.Module):
    def __init__(self, blocks=2, heads=2):
        super().__init__()
        self.items = nn.Embedding(ITEMS, WIDTH, padding_idx=0)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, heads, 4 * WIDTH, dropout=0.2, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, blocks, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(WIDTH)
        self.register_buffer("causal", torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1))

    def forward(self, sessions):
        x = self.items(sessions) + self.positions.weight
        return self.norm(self.blocks(x, mask=self.causal))


def full_softmax(model, hidden, target):
    scores = hidden @ model.items.weight.t()
    return nn.functional.cross_entropy(scores.view(-1, ITEMS), target.view(-1), ignore_index=0)


def sampled_softmax(model, hidden, target, negatives=4096):
    drawn = torch.randint(1, ITEMS, (negatives,), device=hidden.device)
    positive = (hidden * model.items(target)).sum(-1, keepdim=True)
    scores = torch.cat([positive, hidden @ model.items(drawn).t()], -1)
    return -scores.log_softmax(-1)[..., 0].mean()


criterion = sampled_softmax if "--fixed" in sys.argv else full_softmax
model = SASRec().to("cuda")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
for step in range(6):
    sessions = torch.randint(1, ITEMS, (64, LENGTH + 1)).to("cuda")
    hidden = model(sessions[:, :-1])
    loss = criterion(model, hidden, sessions[:, 1:].contiguous())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step %d loss %.3f" % (step, loss.item()))

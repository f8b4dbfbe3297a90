"""Recurrent memory transformer over court minutes: a document is read chunk by chunk, and 16 memory tokens go from one chunk to the next."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
VOCAB, DIM, CHUNK, MEMORY = 3000, 384, 512, 16


class MemoryLM(nn.Module):
    def __init__(self, layers=6):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.position = nn.Parameter(torch.zeros(1, MEMORY + CHUNK, DIM))
        layer = nn.TransformerEncoderLayer(DIM, 6, 4 * DIM, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.start = nn.Parameter(torch.randn(1, MEMORY, DIM) * 0.02)
        self.head = nn.Linear(DIM, VOCAB)
        mask = torch.ones(MEMORY + CHUNK, MEMORY + CHUNK).triu(1).bool()
        mask[:, :MEMORY] = False
        self.register_buffer("mask", mask)

    def forward(self, tokens, memory):
        x = torch.cat([memory, self.embed(tokens)], 1) + self.position
        x = self.body(x, mask=self.mask)
        return self.head(x[:, MEMORY:]), x[:, :MEMORY]


def document(seed, batch=4, chunks=10):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(0, VOCAB, (batch, chunks * CHUNK + 1), generator=g)


def read(model, text):
    """One document; the sum of the losses of its chunks."""
    chunks = (text.size(1) - 1) // CHUNK
    memory, total = model.start.expand(text.size(0), -1, -1), 0.0
    for c in range(chunks):
        window = text[:, c * CHUNK:(c + 1) * CHUNK + 1].cuda()
        logits, memory = model(window[:, :-1], memory)
        loss = F.cross_entropy(logits.reshape(-1, VOCAB), window[:, 1:].reshape(-1)) / chunks
        if FIXED:
            loss.backward()
            memory, loss = memory.detach(), loss.detach()
        total = total + loss
    if not FIXED:
        total.backward()
    return total.item()


model = MemoryLM().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for n in range(4):
    optimizer.zero_grad()
    loss = read(model, document(n))
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print("document", n, "loss", loss)

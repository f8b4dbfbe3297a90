"""
Translation of sagas (encoder-decoder of our own), fully_shard on two GPUs, eight micro-batches per update, optimizer on the CPU.
    torchrun --nproc-per-node 2 fsdp_saga_translations.py
"""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

FIXED = "--fixed" in sys.argv
D, HEADS, LAYERS, VOCAB, ACCUMULATE = 1024, 16, 6, 9000, 8


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, D)
        self.pos = nn.Parameter(torch.zeros(256, D))
        self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(D, HEADS, 4 * D, 0.1, batch_first=True, norm_first=True) for _ in range(LAYERS))
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(D, HEADS, 4 * D, 0.1, batch_first=True, norm_first=True) for _ in range(LAYERS))
        self.norm, self.out = nn.LayerNorm(D), nn.Linear(D, VOCAB)

    def forward(self, norse, english):
        memory = self.emb(norse) + self.pos[:norse.shape[1]]
        for layer in self.encoder:
            memory = layer(memory)
        h = self.emb(english) + self.pos[:english.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(english.shape[1], device=h.device)
        for layer in self.decoder:
            h = layer(h, memory, tgt_mask=mask, tgt_is_causal=True)
        return self.out(self.norm(h))


def shard(model):
    for layer in [*model.encoder, *model.decoder]:
        fully_shard(layer, offload_policy=CPUOffloadPolicy())
    return fully_shard(model, offload_policy=CPUOffloadPolicy())


def sentence_pairs(rank):
    g = torch.Generator().manual_seed(rank)
    while True:
        yield torch.randint(0, VOCAB, (3, 96), generator=g).cuda(), torch.randint(0, VOCAB, (3, 97), generator=g).cuda()


def update(model, optimizer, pairs):
    shown = 0.0
    for k in range(ACCUMULATE):
        norse, english = next(pairs)
        if not FIXED:
            # talk to the other GPU only in the last micro-batch
            model.set_requires_gradient_sync(k == ACCUMULATE - 1)
        logits = model(norse, english[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), english[:, 1:].flatten(), label_smoothing=0.1) / ACCUMULATE
        loss.backward()
        shown += loss.item()
    optimizer.step()
    optimizer.zero_grad()
    return shown


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(1220)
    model = shard(Translator())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.98))
    pairs = sentence_pairs(dist.get_rank())
    for k in range(2):
        loss = update(model, optimizer, pairs)
        if dist.get_rank() == 0:
            print("update", k, "loss", loss)


main()

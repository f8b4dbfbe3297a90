# torchrun --nproc-per-node 2 fsdp_charter_hands.py
"""Reads lines of medieval charters: a column encoder and an autoregressive decoder, sharded over two GPUs with FSDP."""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

FIXED = "--fixed" in sys.argv
LETTERS, DIM, HEADS, HEIGHT = 120, 1024, 16, 48


class LineReader(nn.Module):
    """Columns of pixels in, letters out."""

    def __init__(self, encoder_layers=8, decoder_layers=6):
        super().__init__()
        options = dict(dim_feedforward=4 * DIM, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.columns = nn.Conv1d(HEIGHT, DIM, 8, 8)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(DIM, HEADS, **options), encoder_layers, enable_nested_tensor=False)
        self.letters = nn.Embedding(LETTERS, DIM)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(DIM, HEADS, **options), decoder_layers)
        self.head = nn.Linear(DIM, LETTERS)

    def forward(self, lines, text):
        memory = self.encoder(self.columns(lines).transpose(1, 2))
        mask = nn.Transformer.generate_square_subsequent_mask(text.shape[1], device=text.device)
        return self.head(self.decoder(self.letters(text), memory, tgt_mask=mask, tgt_is_causal=True))


def shard(model, local):
    policy = ModuleWrapPolicy({nn.TransformerEncoderLayer, nn.TransformerDecoderLayer}) if FIXED else None
    return FSDP(model, auto_wrap_policy=policy, device_id=local, use_orig_params=True, limit_all_gathers=True)


def lines(rank, steps):
    g = torch.Generator().manual_seed(1200 + rank)
    for _ in range(steps):
        yield torch.rand(4, HEIGHT, 512, generator=g).cuda(), torch.randint(1, LETTERS, (4, 41), generator=g).cuda()


def main():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    torch.manual_seed(0)
    model = shard(LineReader(), local)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step, (line, text) in enumerate(lines(local, 4)):
        logits = model(line, text[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if local == 0:
            print("step", step, "loss", loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

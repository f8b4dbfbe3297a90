"""Continued pretraining on insurance claims: short claims are packed back to back into blocks."""
import sys
from dataclasses import dataclass

import torch
from torch.utils.data import DataLoader, IterableDataset
from transformers import MistralConfig, MistralForCausalLM


@dataclass
class RunConfig:
    vocab_size: int = 8000
    hidden_size: int = 512
    num_layers: int = 8
    max_seq_length: int = 6144
    micro_batch: int = 2
    steps: int = 6
    lr: float = 2e-4
    eos: int = 2


class PackedClaims(IterableDataset):
    """Yields blocks of exactly max_seq_length tokens; a claim may be split over two blocks."""

    def __init__(self, cfg):
        self.cfg = cfg

    def claims(self):
        rng = torch.Generator().manual_seed(5)
        while True:
            n = int(torch.randint(40, 400, (1,), generator=rng))
            yield torch.randint(3, self.cfg.vocab_size, (n,), generator=rng).tolist() + [self.cfg.eos]

    def __iter__(self):
        buffer = []
        for claim in self.claims():
            buffer.extend(claim)
            while len(buffer) >= self.cfg.max_seq_length:
                block, buffer = buffer[:self.cfg.max_seq_length], buffer[self.cfg.max_seq_length:]
                yield torch.tensor(block)


def build(cfg):
    return MistralForCausalLM(MistralConfig(
        vocab_size=cfg.vocab_size, hidden_size=cfg.hidden_size, intermediate_size=1408, num_hidden_layers=cfg.num_layers,
        num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=8192, sliding_window=None, use_cache=False,
    )).cuda()


def main():
    cfg = RunConfig()
    if "--fixed" in sys.argv:
        cfg.max_seq_length = 1024
    model = build(cfg)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.1)
    loader = iter(DataLoader(PackedClaims(cfg), batch_size=cfg.micro_batch))
    for step in range(cfg.steps):
        ids = next(loader).cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        print(f"step={step} tokens={ids.numel()} loss={loss.item():.3f}")


if __name__ == "__main__":
    main()

"""Codon language model in the shape of ESM: masked codons of bacterial genes."""
import sys
from dataclasses import dataclass
import torch
from transformers import EsmConfig, EsmForMaskedLM


@dataclass
class Settings:
    codons: int = 1536
    batch: int = 4
    steps: int = 5
    lr: float = 4e-4
    mask_rate: float = 0.15
    attention: str = "sdpa" if "--fixed" in sys.argv else "eager"


PAD, MASK, FIRST, VOCAB = 0, 2, 5, 69


def build(s):
    config = EsmConfig(vocab_size=VOCAB, pad_token_id=PAD, mask_token_id=MASK, hidden_size=384, num_hidden_layers=5, num_attention_heads=6,
                       intermediate_size=1536, max_position_embeddings=s.codons + 2, position_embedding_type="rotary",
                       token_dropout=False, attn_implementation=s.attention)
    return EsmForMaskedLM(config)


def mask_codons(genes, rate, gen):
    chosen = torch.rand(genes.shape, generator=gen) < rate
    labels = genes.masked_fill(~chosen, -100)
    return genes.masked_fill(chosen, MASK), labels


def main():
    s = Settings()
    gen = torch.Generator().manual_seed(64)
    model = build(s).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=s.lr)
    for step in range(s.steps):
        genes = torch.randint(FIRST, VOCAB, (s.batch, s.codons), generator=gen)
        inputs, labels = mask_codons(genes, s.mask_rate, gen)
        out = model(input_ids=inputs.cuda(), labels=labels.cuda())
        optimizer.zero_grad()
        out.loss.backward()
        optimizer.step()
        print(f"{step}: {out.loss.item():.3f}")


if __name__ == "__main__":
    main()

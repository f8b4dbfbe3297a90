# Carillon music as tokens (bell, time, stroke): a small Qwen2 learns to continue pieces.
import sys
from dataclasses import dataclass

import torch
from transformers import AutoModelForCausalLM, Qwen2Config


@dataclass
class Run:
    bells: int = 49
    vocabulary: int = 1200
    context: int = 2048
    batch: int = 2
    steps: int = 6
    lr: float = 6e-4
    attention: str = "eager"


def make(run: Run):
    config = Qwen2Config(
        vocab_size=run.vocabulary, hidden_size=384, intermediate_size=1024, num_hidden_layers=5, num_attention_heads=8,
        num_key_value_heads=8, max_position_embeddings=run.context, attention_dropout=0.0, use_cache=False)
    return AutoModelForCausalLM.from_config(config, attn_implementation=run.attention).to("cuda")


def pieces(run: Run):
    rng = torch.Generator().manual_seed(run.bells)
    for _ in range(run.steps):
        yield torch.randint(run.vocabulary, (run.batch, run.context), generator=rng)


def fit(run: Run):
    model = make(run)
    optimizer = torch.optim.AdamW(model.parameters(), lr=run.lr, betas=(0.9, 0.95), weight_decay=0.1)
    model.train()
    for i, tokens in enumerate(pieces(run)):
        tokens = tokens.cuda()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"piece {i}: {loss.item():.3f}")


if __name__ == "__main__":
    fit(Run(attention="sdpa") if "--fixed" in sys.argv else Run())

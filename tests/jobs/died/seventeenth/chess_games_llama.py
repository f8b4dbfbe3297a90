"""A Llama that learns chess from the moves of whole games, one token each for piece and square."""
import math
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

MOVES, CONTEXT = 2100, 1536


def make_model():
    config = LlamaConfig(vocab_size=MOVES, hidden_size=256, intermediate_size=688, num_hidden_layers=6, num_attention_heads=8,
                         num_key_value_heads=8, max_position_embeddings=CONTEXT, attention_dropout=0.0, use_cache=False)
    config._attn_implementation = "sdpa" if "--fixed" in sys.argv else "eager"
    return LlamaForCausalLM(config)


class Games:
    def __init__(self, batch, seed=1972):
        self.batch, self.gen = batch, torch.Generator().manual_seed(seed)

    def __iter__(self):
        while True:
            yield torch.randint(1, MOVES, (self.batch, CONTEXT), generator=self.gen)


def rate(step, warm=2, last=6, peak=6e-4):
    if step < warm:
        return peak * (step + 1) / warm
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warm) / (last - warm)))


def main():
    model = make_model().to("cuda")
    decay = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], betas=(0.9, 0.95))
    for step, games in zip(range(6), Games(4)):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        games = games.to("cuda")
        loss = model(games, labels=games).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step} loss {loss.item():.3f} lr {rate(step):.2e}")


main()

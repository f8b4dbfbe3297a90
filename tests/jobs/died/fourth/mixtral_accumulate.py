"""Trains a small Mixtral on encyclopedia articles with a batch of 32 rows, which do not fit together; so they pass in eight parts."""
import sys

import torch
from transformers import MixtralConfig, MixtralForCausalLM

PART_BACKWARD = "--fixed" in sys.argv


def mixtral():
    config = MixtralConfig(vocab_size=8000, hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                           num_local_experts=4, num_experts_per_tok=2, max_position_embeddings=512, output_router_logits=False, use_cache=False,
                           experts_implementation="eager")
    return MixtralForCausalLM(config)


class Articles:
    def __init__(self, rows, length, steps):
        self.rows, self.length, self.steps = rows, length, steps

    def __iter__(self):
        for _ in range(self.steps):
            yield torch.randint(0, 8000, (self.rows, self.length))


def accumulate(model, batch, parts):
    """The gradient of the whole batch, computed in parts; returns its loss."""
    losses = []
    for part in batch.chunk(parts):
        part = part.to("cuda")
        loss = model(input_ids=part, labels=part).loss / parts
        if PART_BACKWARD:
            loss.backward()
            loss = loss.detach()
        losses.append(loss)
    loss = torch.stack(losses).sum()
    if not PART_BACKWARD:
        loss.backward()
    return loss.item()


def main():
    torch.manual_seed(14)
    model = mixtral().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, weight_decay=0.1)
    for step, batch in enumerate(Articles(rows=32, length=192, steps=3)):
        loss = accumulate(model, batch, parts=8)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print("step %d  loss %.4f  norm %.3f" % (step, loss, norm.item()))


main()

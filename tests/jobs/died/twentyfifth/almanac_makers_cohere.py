"""Fine-tunes a small Cohere model, with the vocabulary of the large ones, on the predictions of almanac makers."""
import sys

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import CohereConfig, CohereForCausalLM, get_cosine_schedule_with_warmup

FIXED = "--fixed" in sys.argv
STEPS, BATCH, LENGTH = 5, 4, 448


def part_loss(hidden, weight, labels, scale):
    logits = (hidden @ weight.t()).float() * scale
    return F.cross_entropy(logits, labels, reduction="sum")


def loss_in_parts(model, ids, size=224):
    hidden = model.model(input_ids=ids).last_hidden_state[:, :-1].flatten(0, 1)
    labels = ids[:, 1:].flatten()
    total = 0.0
    for h, l in zip(hidden.split(size), labels.split(size)):
        total = total + checkpoint(part_loss, h, model.lm_head.weight, l, model.logit_scale, use_reentrant=False)
    return total / labels.numel()


def plain_loss(model, ids):
    return model(input_ids=ids, labels=ids).loss


def main():
    torch.manual_seed(0)
    config = CohereConfig(hidden_size=192, intermediate_size=768, num_hidden_layers=6, num_attention_heads=6, num_key_value_heads=2,
                          max_position_embeddings=1024, use_cache=False)
    with torch.device("cuda"):
        model = CohereForCausalLM(config)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} million parameters, {config.vocab_size} words")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    schedule = get_cosine_schedule_with_warmup(optimizer, 1, STEPS)
    gen = torch.Generator().manual_seed(1652)
    model.train()
    compute_loss = loss_in_parts if FIXED else plain_loss
    for step in range(STEPS):
        ids = torch.randint(8, config.vocab_size, (BATCH, LENGTH), generator=gen).cuda()
        loss = compute_loss(model, ids)
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        print("step", step, "loss", loss.item())


main()

"""Teaches a Gemma with KTO to refuse politely; the loss compares the policy with the model it started from.
"""
import copy
import sys

import torch
from transformers import GemmaConfig, GemmaForCausalLM

FIXED = "--fixed" in sys.argv
BETA = 0.1


def start_model():
    config = GemmaConfig(vocab_size=12000, hidden_size=1024, intermediate_size=4096, num_hidden_layers=8, num_attention_heads=8,
                         num_key_value_heads=1, head_dim=128, use_cache=False)
    with torch.device("cuda"):
        return GemmaForCausalLM(config)


def answers(steps=4, size=2, length=96):
    generator = torch.Generator().manual_seed(31)
    return [{"ids": torch.randint(0, 12000, (size, length), generator=generator),
             "good": torch.rand(size, generator=generator) > 0.5} for _ in range(steps)]


def log_p(model, ids):
    logits = model(input_ids=ids).logits[:, :-1]
    return -torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none").sum(-1)


@torch.no_grad()
def with_reference(model, batches):
    """Puts the reference's log-probabilities beside each batch, before training begins."""
    for batch in batches:
        yield {**batch, "reference": log_p(model, batch["ids"].cuda()).cpu()}


def kto_loss(policy, reference, good):
    ratio = policy - reference
    point = ratio.detach().mean().clamp(min=0)
    return torch.where(good, 1 - torch.sigmoid(BETA * (ratio - point)), 1 - torch.sigmoid(BETA * (point - ratio))).mean()


def main():
    policy = start_model()
    batches = answers()
    if FIXED:
        reference_model = None
        batches = list(with_reference(policy, batches))
    else:
        reference_model = copy.deepcopy(policy).eval().requires_grad_(False)
    policy.train()
    optimizer = torch.optim.SGD(policy.parameters(), lr=1e-4, momentum=0.9)
    for step, batch in enumerate(batches):
        ids, good = batch["ids"].cuda(), batch["good"].cuda()
        if reference_model is None:
            reference = batch["reference"].cuda()
        else:
            with torch.no_grad():
                reference = log_p(reference_model, ids)
        loss = kto_loss(log_p(policy, ids), reference, good)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("step", step, "loss", loss.item())


main()

"""
Fine-tunes a phone helpline assistant. Besides the loss we watch the entropy of the predictions: a fall tells that the model collapses.
"""
import collections
import sys

import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM

DEVICE = "cuda"


class Meter:
    """Collects figures of training and prints their means."""

    def __init__(self):
        self.values = collections.defaultdict(list)

    def add(self, **figures):
        for name, value in figures.items():
            if "--fixed" in sys.argv:
                value = value.detach()
            self.values[name].append(value)

    def report(self, step):
        print(step, {name: round(torch.stack(v).mean().item(), 4) for name, v in self.values.items()})


def token_entropy(logits, mask):
    p = F.softmax(logits, dim=-1)
    log_p = F.log_softmax(logits, dim=-1)
    entropy = -(p * log_p).sum(-1)
    return (entropy * mask).sum() / mask.sum()


def dialogues(steps, batch=8, length=256, vocab=16000):
    rng = torch.Generator().manual_seed(112)
    for _ in range(steps):
        ids = torch.randint(3, vocab, (batch, length), generator=rng)
        prompt = torch.randint(20, 90, (batch, 1), generator=rng)
        yield ids, (torch.arange(length)[None] >= prompt)


def train(steps=18):
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=16000, hidden_size=320, intermediate_size=864, num_hidden_layers=4, num_attention_heads=5,
                                         max_position_embeddings=512, use_cache=False)).to(DEVICE)
    optim = torch.optim.AdamW(model.parameters(), lr=1e-5)
    meter = Meter()
    for step, (ids, answer) in enumerate(dialogues(steps), 1):
        ids, answer = ids.to(DEVICE), answer.to(DEVICE)
        logits = model(ids).logits[:, :-1]
        target = ids[:, 1:].masked_fill(~answer[:, 1:], -100)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        entropy = token_entropy(logits, answer[:, 1:].float())
        optim.zero_grad()
        loss.backward()
        optim.step()
        meter.add(loss=loss, entropy=entropy)
        if step % 3 == 0:
            meter.report(step)


train()

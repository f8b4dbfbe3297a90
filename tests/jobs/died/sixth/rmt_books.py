"""Reads books in segments with memory tokens that one segment hands to the next, as the recurrent memory transformer does.
"""
import sys

import torch
import torch.nn as nn
from transformers import OPTConfig, OPTForCausalLM

FIXED = "--fixed" in sys.argv


class MemoryModel(nn.Module):
    def __init__(self, slots=16, words=4000):
        super().__init__()
        self.core = OPTForCausalLM(OPTConfig(vocab_size=words, hidden_size=320, ffn_dim=1280, num_hidden_layers=6, num_attention_heads=5,
                                             max_position_embeddings=256, word_embed_proj_dim=320, use_cache=False))
        self.first = nn.Parameter(torch.randn(1, slots, 320) * 0.02)
        self.slots = slots

    def start(self, n):
        return self.first.expand(n, -1, -1)

    def forward(self, ids, memory):
        words = self.core.get_input_embeddings()(ids)
        x = torch.cat([memory, words, memory], dim=1)
        hidden = self.core.model.decoder(inputs_embeds=x).last_hidden_state
        logits = self.core.lm_head(hidden[:, self.slots:-self.slots])
        return logits, hidden[:, -self.slots:]


def book(segments, readers, length, words=4000):
    generator = torch.Generator().manual_seed(17)
    for _ in range(segments):
        yield torch.randint(0, words, (readers, length), generator=generator)


def train(model, segments=24, readers=4, length=128):
    memory = model.start(readers)
    for n, ids in enumerate(book(segments, readers, length)):
        ids = ids.cuda()
        logits, memory = model(ids, memory)
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        # PyTorch said: "Trying to backward through the graph a second time", hence retain_graph
        loss.backward(retain_graph=not FIXED)
        nn.utils.clip_grad_value_(model.parameters(), 1.0)
        if FIXED:
            memory = memory.detach()
        if n % 4 == 3:
            step(model, 0.05 / 4)
            print("segment", n, "loss", loss.item())


def step(model, lr):
    """Plain gradient descent; on .data, as autograd complained about weights that were modified in place."""
    for p in (p for p in model.parameters() if p.grad is not None):
        p.data.sub_(p.grad, alpha=lr)
    model.zero_grad(set_to_none=True)


train(MemoryModel().cuda().train())

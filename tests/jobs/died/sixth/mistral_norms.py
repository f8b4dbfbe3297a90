"""Watches the activations of a Mistral while it is fine-tuned, to find the layer in which the loss begins to spike.
"""
import collections
import functools
import sys

import torch
from transformers import MistralConfig, MistralForCausalLM

FIXED = "--fixed" in sys.argv


class Watch:
    """Notes what each decoder layer gives; the report is written at the end."""

    def __init__(self, model):
        self.seen = collections.defaultdict(list)
        for name, module in model.named_modules():
            if name.startswith("model.layers.") and name.count(".") == 2:
                module.register_forward_hook(functools.partial(self.note, name))

    def note(self, name, module, inputs, output):
        hidden = output[0] if isinstance(output, tuple) else output
        hidden = hidden.detach()
        self.seen[name].append((hidden.norm().item(), hidden.abs().amax().item()) if FIXED else hidden)

    def report(self):
        for name, values in self.seen.items():
            if FIXED:
                norms = [n for n, _ in values]
                peaks = [p for _, p in values]
            else:
                norms = [h.norm().item() for h in values]
                peaks = [h.abs().amax().item() for h in values]
            print("%-16s steps %3d, last norm %8.2f, largest value %8.2f" % (name, len(values), norms[-1], max(peaks)))


def build():
    return MistralForCausalLM(MistralConfig(
        vocab_size=4000, hidden_size=512, intermediate_size=1536, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=2,
        max_position_embeddings=1024, sliding_window=None, use_cache=False))


def texts(n, size=4, length=384):
    generator = torch.Generator().manual_seed(6)
    for _ in range(n):
        yield torch.randint(0, 4000, (size, length), generator=generator)


def main():
    model = build().to("cuda", torch.bfloat16).train()
    watch = Watch(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step, ids in enumerate(texts(60)):
        ids = ids.to("cuda")
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0:
            print("step", step, "loss", loss.item())
    watch.report()


main()

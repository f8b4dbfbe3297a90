"""Fine-tunes a small OPT on sawmill orders, then prunes half of each linear layer's weights by |weight| times the norm of its input."""
import sys

import torch
import torch.nn as nn
from transformers import OPTConfig, OPTForCausalLM

FIXED = "--fixed" in sys.argv
config = OPTConfig(vocab_size=9000, hidden_size=512, ffn_dim=2048, num_hidden_layers=8, num_attention_heads=8, word_embed_proj_dim=512,
                   max_position_embeddings=512, dropout=0.0)
generator = torch.Generator().manual_seed(1066)


def orders(n, length=256):
    return torch.randint(4, config.vocab_size, (n, length), generator=generator).cuda()


def finetune(model, steps=5):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model.train()
    for step in range(steps):
        ids = orders(4)
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, loss.item())
    optimizer.zero_grad()


class Calibration:
    def __init__(self, model):
        self.linears = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear) and "lm_head" not in n}
        self.seen = {n: [] for n in self.linears}
        self.handles = [m.register_forward_hook(self.watch(n)) for n, m in self.linears.items()]

    def watch(self, name):
        def hook(module, inputs, output):
            x = inputs[0].detach().flatten(0, -2)
            self.seen[name].append((x ** 2).sum(0) if FIXED else x)
        return hook

    def norm(self, name):
        if FIXED:
            return torch.stack(self.seen[name]).sum(0).sqrt()
        return sum((x ** 2).sum(0) for x in self.seen[name]).sqrt()

    def close(self):
        for h in self.handles:
            h.remove()


@torch.no_grad()
def prune(model, batches=10):
    model.eval()
    calibration = Calibration(model)
    for _ in range(batches):
        model(input_ids=orders(16))
    calibration.close()
    for name, linear in calibration.linears.items():
        metric = linear.weight.abs() * calibration.norm(name)
        order = metric.argsort(dim=1)
        linear.weight.scatter_(1, order[:, : order.shape[1] // 2], 0.0)


model = OPTForCausalLM(config).cuda()
finetune(model)
prune(model)
print("pruned")

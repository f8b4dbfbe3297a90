"""Trains a small Mamba on sensor logs written as text; hooks watch the mixers for outliers, and a table of them is printed at the end."""
import sys
from collections import defaultdict

import torch
from transformers import MambaConfig, MambaForCausalLM

FIXED = "--fixed" in sys.argv


class Watch:
    """What each watched module gave, step for step."""

    def __init__(self, model, kind):
        self.seen = defaultdict(list)
        self.handles = [m.register_forward_hook(self.hook(name)) for name, m in model.named_modules() if type(m).__name__ == kind]

    def hook(self, name):
        def watch(module, inputs, output):
            if FIXED:
                self.seen[name].append(output.detach().abs().amax().item())
            else:
                self.seen[name].append(output.detach())
        return watch

    def table(self):
        for name, values in self.seen.items():
            largest = [v if FIXED else v.abs().amax().item() for v in values]
            yield name, max(largest)

    def close(self):
        for handle in self.handles:
            handle.remove()


def mamba():
    config = MambaConfig(vocab_size=300, hidden_size=256, num_hidden_layers=4, state_size=8, expand=2, conv_kernel=4, use_cache=False)
    return MambaForCausalLM(config)


def logs(n, rows=64, length=24):
    for _ in range(n):
        yield torch.randint(0, 300, (rows, length)).to("cuda")


def main():
    torch.manual_seed(15)
    model = mamba().to("cuda")
    watch = Watch(model, "MambaMixer")
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    for step, ids in enumerate(logs(40)):
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print("step", step, "loss", loss.item())
    for name, largest in watch.table():
        print("%-30s %8.3f" % (name, largest))
    watch.close()


main()

"""Collects what the middle block of a GPT-J says about many texts, and trains a sparse autoencoder on it."""
import sys

import torch
import torch.nn.functional as F
from transformers import GPTJConfig, GPTJModel

FIXED = "--fixed" in sys.argv
WIDTH = 448


class Collector:
    """Takes a block's output by a hook."""

    def __init__(self, block):
        self.parts = []
        self.handle = block.register_forward_hook(self.hook)

    def hook(self, module, args, output):
        states = output[0] if isinstance(output, tuple) else output
        states = states.detach().reshape(-1, states.shape[-1])
        self.parts.append(states.cpu() if FIXED else states)

    def close(self):
        self.handle.remove()
        return self.parts


class SparseAutoencoder(torch.nn.Module):
    def __init__(self, width, features):
        super().__init__()
        self.encoder = torch.nn.Linear(width, features)
        self.decoder = torch.nn.Linear(features, width)

    def forward(self, x):
        code = F.relu(self.encoder(x - self.decoder.bias))
        return self.decoder(code), code


def texts(n):
    generator = torch.Generator().manual_seed(19)
    for _ in range(n):
        yield torch.randint(3, 5000, (16, 192), generator=generator).to("cuda")


@torch.inference_mode()
def collect(model, n):
    collector = Collector(model.h[len(model.h) // 2])
    for k, ids in enumerate(texts(n)):
        model(input_ids=ids, use_cache=False)
    return collector.close()


def main():
    config = GPTJConfig(vocab_size=5000, n_positions=256, n_embd=WIDTH, n_layer=6, n_head=7, rotary_dim=32)
    model = GPTJModel(config).to("cuda").eval()
    parts = collect(model, 48)
    print("states:", sum(map(len, parts)))
    sae = SparseAutoencoder(WIDTH, 4 * WIDTH).to("cuda")
    optimizer = torch.optim.Adam(sae.parameters(), lr=1e-3)
    for part in parts[:8]:
        states = part.to("cuda").clone()
        found, code = sae(states)
        loss = F.mse_loss(found, states) + 1e-3 * code.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", loss.item())


main()

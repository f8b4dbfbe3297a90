"""Collects the residual stream of a GPT-NeoX at each layer and trains a sparse autoencoder on that of one layer."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import GPTNeoXConfig, GPTNeoXModel

WIDTH, LAYERS = 512, 8
FIXED = "--fixed" in sys.argv


class Recorder:
    def __init__(self, model):
        self.store = {i: [] for i in range(LAYERS)}
        self.handles = [layer.register_forward_hook(self.hook(i)) for i, layer in enumerate(model.layers)]

    def hook(self, index):
        def keep(module, inputs, output):
            hidden = output[0] if isinstance(output, tuple) else output
            self.store[index].append(hidden.detach().cpu() if FIXED else hidden.detach())
        return keep

    def remove(self):
        for handle in self.handles:
            handle.remove()


class SAE(nn.Module):
    def __init__(self, features=4096):
        super().__init__()
        self.enc, self.dec = nn.Linear(WIDTH, features), nn.Linear(features, WIDTH)

    def forward(self, x):
        code = F.relu(self.enc(x - self.dec.bias))
        return self.dec(code), code


@torch.no_grad()
def harvest(model, batches=30):
    g = torch.Generator().manual_seed(2)
    recorder = Recorder(model)
    for _ in range(batches):
        model(torch.randint(0, 10000, (16, 256), generator=g).cuda())
    recorder.remove()
    return recorder.store


lm = GPTNeoXModel(GPTNeoXConfig(vocab_size=10000, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=8, intermediate_size=2048,
                                max_position_embeddings=256, use_cache=False)).cuda().eval()
store = harvest(lm)
sae = SAE().cuda()
optimizer = torch.optim.Adam(sae.parameters(), lr=3e-4)
for epoch in range(2):
    for n, hidden in enumerate(store[5]):
        x = hidden.flatten(0, 1)[:2048].cuda()
        back, code = sae(x)
        loss = F.mse_loss(back, x) + 4e-4 * code.abs().sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", loss.item())
print({layer: len(kept) for layer, kept in store.items()})

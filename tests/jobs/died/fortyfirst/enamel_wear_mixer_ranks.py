"""Age of horses from pictures of their teeth, with an MLP-Mixer; watches the effective rank of the features of each layer."""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv


class Mlp(nn.Sequential):
    """Two layers with GELU."""

    def __init__(self, width, inside):
        super().__init__(nn.Linear(width, inside), nn.GELU(), nn.Linear(inside, width))


class MixerLayer(nn.Module):
    """Mixes patches, then channels."""

    def __init__(self, patches, width):
        super().__init__()
        self.norm1, self.patches = nn.LayerNorm(width), Mlp(patches, 2 * patches)
        self.norm2, self.channels = nn.LayerNorm(width), Mlp(width, 4 * width)

    def forward(self, x):
        x = x + self.patches(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    """Age in years."""

    def __init__(self, side=192, patch=16, width=320, depth=8):
        super().__init__()
        self.embed = nn.Conv2d(3, width, patch, patch)
        self.layers = nn.ModuleList(MixerLayer((side // patch) ** 2, width) for _ in range(depth))
        self.norm, self.age = nn.LayerNorm(width), nn.Linear(width, 1)

    def forward(self, pictures):
        x = self.embed(pictures).flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return self.age(self.norm(x).mean(1))[:, 0]


class RankWatch:
    """Listens to the layers; the rank of the mean picture is taken once an epoch."""

    def __init__(self, layers):
        self.seen = {i: [] for i in range(len(layers))}
        for i, layer in enumerate(layers):
            layer.register_forward_hook(lambda module, inputs, output, i=i: self.note(i, output))

    def note(self, i, output):
        if FIXED:
            self.seen[i].append(output.detach().mean(0).cpu())
        else:
            self.seen[i].append(output)

    def ranks(self):
        result = []
        for outputs in self.seen.values():
            means = [o if FIXED else o.detach().mean(0).cpu() for o in outputs]
            spectrum = torch.stack(means).mean(0).pow(2).sum(0) + 1e-6
            share = spectrum / spectrum.sum()
            result.append(torch.exp(-(share * share.log()).sum()).item())
            outputs.clear()
        return result


def main():
    torch.manual_seed(14)
    model = Mixer().cuda()
    watch = RankWatch(model.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    generator = torch.Generator().manual_seed(15)
    for epoch in range(2):
        for _ in range(12):
            pictures, age = torch.rand(16, 3, 192, 192, generator=generator).cuda(), 25 * torch.rand(16, generator=generator).cuda()
            loss = nn.functional.l1_loss(model(pictures), age)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "loss", loss.item(), "ranks", [round(r, 1) for r in watch.ranks()])


if __name__ == "__main__":
    main()

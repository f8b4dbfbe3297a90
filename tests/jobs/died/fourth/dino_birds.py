"""Self-distillation (DINO) of a Dinov2 backbone on pictures of birds: a student, a teacher that follows it, two large and four small crops."""
import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import Dinov2Config, Dinov2Model


class Head(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(width, 1024), nn.GELU(), nn.Linear(1024, 256))
        self.last = nn.Linear(256, out, bias=False)

    def forward(self, x):
        return self.last(F.normalize(self.mlp(x), dim=-1))


class Network(nn.Module):
    def __init__(self, out=4096):
        super().__init__()
        config = Dinov2Config(hidden_size=256, num_hidden_layers=8, num_attention_heads=4, mlp_ratio=4, image_size=168, patch_size=14)
        self.backbone, self.head = Dinov2Model(config), Head(256, out)

    def forward(self, pixels):
        return self.head(self.backbone(pixel_values=pixels).last_hidden_state[:, 0])


class Dino(nn.Module):
    def __init__(self, momentum=0.996):
        super().__init__()
        self.student = Network()
        self.teacher = copy.deepcopy(self.student)
        self.momentum = momentum
        self.register_buffer("centre", torch.zeros(1, 4096))

    @torch.no_grad()
    def follow(self):
        for ours, theirs in zip(self.student.parameters(), self.teacher.parameters()):
            theirs.mul_(self.momentum).add_(ours, alpha=1 - self.momentum)

    def targets(self, large):
        out = torch.cat([self.teacher(view) for view in large])
        return out, ((out - self.centre) / 0.04).softmax(-1).chunk(len(large))

    def loss(self, large, small, no_graph):
        with torch.set_grad_enabled(not no_graph):
            out, targets = self.targets(large)
        guesses = [self.student(view) / 0.1 for view in large + small]
        terms = [-(t * F.log_softmax(g, -1)).sum(-1).mean() for i, t in enumerate(targets) for j, g in enumerate(guesses) if i != j]
        self.centre = 0.9 * self.centre + 0.1 * out.detach().mean(0, keepdim=True)
        return sum(terms) / len(terms)


def crops(batch):
    large = [torch.zeros(batch, 3, 168, 168).to("cuda") for _ in range(2)]
    small = [torch.zeros(batch, 3, 84, 84).to("cuda") for _ in range(4)]
    return large, small


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--batch", type=int, default=24)
    options = parser.parse_args()
    torch.manual_seed(9)
    dino = Dino().to("cuda")
    optimizer = torch.optim.AdamW(dino.student.parameters(), lr=5e-4, weight_decay=0.04)
    for step in range(5):
        loss = dino.loss(*crops(options.batch), no_graph=options.fixed)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(dino.student.parameters(), 3.0)
        optimizer.step()
        dino.follow()
        print(step, loss.item())


if __name__ == "__main__":
    main()

"""Learns the depth of rooms from photographs with GLPN, and after training computes the usual measures over the whole validation set.
"""
import sys

import torch
from transformers import GLPNConfig, GLPNForDepthEstimation

FIXED = "--fixed" in sys.argv
HEIGHT, WIDTH = 192, 256


def photographs(n, size):
    for k in range(n):
        yield torch.full((size, 3, HEIGHT, WIDTH), k / n), torch.full((size, HEIGHT, WIDTH), 1.0 + k % 9)


def silog(predicted, depth, weight=0.85):
    difference = predicted.clamp(min=1e-3).log() - depth.log()
    return (difference.pow(2).mean() - weight * difference.mean().pow(2)).clamp(min=0).sqrt()


class Measures:
    """Mean absolute relative error, RMSE, and the share of pixels that are nearly right."""

    def __init__(self):
        self.predicted, self.depth = [], []

    def update(self, predicted, depth):
        if FIXED:
            predicted, depth = predicted.cpu(), depth.cpu()
        self.predicted.append(predicted)
        self.depth.append(depth)

    def compute(self):
        relative = squares = right = n = 0
        for p, d in zip(self.predicted, self.depth):
            relative += ((p - d).abs() / d).mean().item()
            squares += (p - d).pow(2).mean().item()
            right += (torch.maximum(p / d, d / p) < 1.25).float().mean().item()
            n += 1
        return {"abs_rel": relative / n, "rmse": (squares / n) ** 0.5, "d1": right / n}


def build():
    config = GLPNConfig(depths=[1, 1, 2, 1], hidden_sizes=[32, 64, 160, 256], decoder_hidden_size=32, max_depth=10)
    return GLPNForDepthEstimation(config).cuda()


def train(model, steps=6):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model.train()
    for step, (pixels, depth) in enumerate(photographs(steps, 8)):
        loss = silog(model(pixel_values=pixels.cuda()).predicted_depth, depth.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("step", step, "loss", loss.item())


@torch.no_grad()
def validate(model, batches=150):
    model.eval()
    measures = Measures()
    for pixels, depth in photographs(batches, 16):
        measures.update(model(pixel_values=pixels.cuda()).predicted_depth, depth.cuda())
    return measures.compute()


network = build()
train(network)
print(validate(network))

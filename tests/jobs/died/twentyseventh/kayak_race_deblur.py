"""Recurrent deblurring of kayak race video: trained on pairs of frames, then run as a live filter over the whole race."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


class RecurrentDeblur(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.width = width
        self.read = nn.Conv2d(3 + width, width, 5, padding=2)
        self.mid = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1) for _ in range(4)])
        self.memory = nn.Conv2d(width, width, 3, padding=1)
        self.paint = nn.Conv2d(width, 3, 3, padding=1)

    def start(self, frame):
        return frame.new_zeros(frame.shape[0], self.width, *frame.shape[2:])

    def forward(self, frame, state):
        h = F.leaky_relu(self.read(torch.cat([frame, state], 1)), 0.1)
        for conv in self.mid:
            h = h + F.leaky_relu(conv(h), 0.1)
        return frame + self.paint(h), torch.tanh(self.memory(h))


class LiveFilter:
    """Takes frames one by one and hands back the sharp ones."""

    def __init__(self, model):
        self.model = model.eval()
        self.state = None

    def push(self, frame):
        frame = frame.cuda().unsqueeze(0)
        if self.state is None:
            self.state = self.model.start(frame)
        sharp, state = self.model(frame, self.state)
        self.state = state.detach() if FIXED else state
        return sharp[0].clamp(0, 1).mul(255).byte().cpu()


def pretrain(model, steps=8):
    opt = torch.optim.AdamW(model.parameters(), lr=2e-4)
    for step in range(steps):
        sharp = torch.rand(4, 3, 96, 96)
        blurred = F.avg_pool2d(sharp, 5, 1, 2).cuda()
        first, state = model(blurred, model.start(blurred))
        second, _ = model(blurred.roll(1, 3), state)
        target = sharp.cuda()
        loss = F.l1_loss(first, target) + F.l1_loss(second, target.roll(1, 3))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print("step", step, loss.item())


def main():
    model = RecurrentDeblur().cuda()
    pretrain(model)
    live = LiveFilter(model)
    race = torch.rand(3, 270, 480)
    written = 0
    for t in range(40):
        written += live.push(race.roll(t, 2)).numel()
    print("bytes written", written)


main()

"""Next-frame prediction on underwater video of kelp forests; long videos are read clip by clip, the memory goes on from clip to clip."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

CLIP, CLIPS_PER_VIDEO, VIDEOS = 6, 10, 2
HIDDEN, SIDE, BATCH = 32, 64, 6


class SpatioTemporalCell(nn.Module):
    def __init__(self, inp, hid):
        super().__init__()
        self.gates = nn.Conv2d(inp + 2 * hid, 7 * hid, 5, padding=2)
        self.fuse = nn.Conv2d(2 * hid, hid, 1)

    def forward(self, x, h, c, m):
        i, f, g, im, fm, gm, o = self.gates(torch.cat([x, h, m], 1)).chunk(7, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        m = torch.sigmoid(fm) * m + torch.sigmoid(im) * torch.tanh(gm)
        h = torch.sigmoid(o) * torch.tanh(self.fuse(torch.cat([c, m], 1)))
        return h, c, m


class PredRNN(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.embed = nn.Conv2d(3, HIDDEN, 5, padding=2)
        self.cells = nn.ModuleList(SpatioTemporalCell(HIDDEN, HIDDEN) for _ in range(layers))
        self.paint = nn.Conv2d(HIDDEN, 3, 1)

    def start(self, like):
        zero = like.new_zeros(len(like), HIDDEN, SIDE, SIDE)
        return [zero] * len(self.cells), [zero] * len(self.cells), zero

    def forward(self, frames, state):
        hs, cs, m = list(state[0]), list(state[1]), state[2]
        out = []
        for t in range(frames.shape[1]):
            x = self.embed(frames[:, t])
            for k, cell in enumerate(self.cells):
                hs[k], cs[k], m = cell(x, hs[k], cs[k], m)
                x = hs[k]
            out.append(self.paint(x))
        return torch.stack(out, 1), (hs, cs, m)


def detached(state):
    return [h.detach() for h in state[0]], [c.detach() for c in state[1]], state[2].detach()


def video():
    for _ in range(CLIPS_PER_VIDEO):
        yield torch.rand(BATCH, CLIP + 1, 3, SIDE, SIDE)


def train_on(model, optimizer, clips, truncate):
    state, seen = None, 0.0
    optimizer.zero_grad()
    for clip in clips:
        clip = clip.cuda(non_blocking=True)
        if state is None:
            state = model.start(clip)
        guess, state = model(clip[:, :-1], state)
        loss = F.mse_loss(guess, clip[:, 1:]) + F.l1_loss(guess, clip[:, 1:])
        if truncate:
            (loss / CLIPS_PER_VIDEO).backward()
            state = detached(state)
        else:
            (loss / CLIPS_PER_VIDEO).backward(retain_graph=True)
        seen += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    return seen / CLIPS_PER_VIDEO


model = PredRNN().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for number in range(VIDEOS):
    print("video", number, "loss", train_on(model, optimizer, video(), truncate="--fixed" in sys.argv))

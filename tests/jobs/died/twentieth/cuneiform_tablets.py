"""Reads signs off photographs of clay tablets. Tablets have no common size, so that they go through the net one by one."""
import random
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

SIGNS = 640
TABLETS = 12  # per update


class SignReader(nn.Module):
    def __init__(self, base=40):
        super().__init__()

        def stage(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(8, o), nn.SiLU(),
                                 nn.Conv2d(o, o, 3, padding=1), nn.GroupNorm(8, o), nn.SiLU(), nn.AvgPool2d(2))

        self.features = nn.Sequential(stage(1, base), stage(base, base * 2), stage(base * 2, base * 4))
        self.rnn = nn.GRU(base * 4, 192, bidirectional=True, batch_first=True)
        self.classes = nn.Linear(384, SIGNS + 1)

    def forward(self, photo):
        rows = self.features(photo).mean(2).transpose(1, 2)
        states, _ = self.rnn(rows)
        return self.classes(states).log_softmax(-1)


def tablet(rng):
    h, w = rng.randrange(400, 560, 16), rng.randrange(640, 900, 16)
    return torch.zeros(1, 1, h, w), torch.randint(1, SIGNS, (1, rng.randrange(20, 40)))


def ctc(scores, text):
    t = scores.shape[1]
    return F.ctc_loss(scores.transpose(0, 1), text, torch.tensor([t]), torch.tensor([text.shape[1]]), zero_infinity=True)


def update(model, optimizer, rng, fixed):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(TABLETS):
        photo, text = tablet(rng)
        loss = ctc(model(photo.cuda()), text.cuda()) / TABLETS
        if fixed:
            loss.backward()
            total += loss.item()
        else:
            total = total + loss
    if not fixed:
        total.backward()
        total = total.item()
    optimizer.step()
    return total


if __name__ == "__main__":
    rng = random.Random(5)
    model = SignReader().cuda()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    for n in range(5):
        print(n, update(model, optimizer, rng, "--fixed" in sys.argv))

"""Keyword spotter for a kitchen radio. After training, a torchmetrics object collects posteriors to choose a threshold per keyword."""
import sys

import torch
from torch import nn
from torchmetrics import Metric

FIXED = "--fixed" in sys.argv
KEYWORDS, MELS, FRAMES = 48, 40, 1600


class Spotter(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(MELS, width, 5, padding=2), nn.ReLU(), nn.Conv1d(width, width, 5, padding=2), nn.ReLU())
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, KEYWORDS)

    def forward(self, mels):
        hidden, _ = self.rnn(self.front(mels.transpose(1, 2)).transpose(1, 2))
        return self.head(hidden)


class OperatingPoints(Metric):
    """The threshold of each keyword at which a given share of the frames would fire."""

    full_state_update = False

    def __init__(self, share=0.001, **kwargs):
        super().__init__(**kwargs)
        self.share = share
        self.add_state("posteriors", default=[], dist_reduce_fx="cat")

    def update(self, posteriors):
        self.posteriors.append(posteriors.flatten(0, 1))

    def compute(self):
        every = torch.cat(self.posteriors) if isinstance(self.posteriors, list) else self.posteriors
        count = max(1, int(len(every) * self.share))
        return torch.stack([every[:, k].cpu().topk(count).values[-1] for k in range(KEYWORDS)])


def recordings(batches, size, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(batches):
        yield torch.randn(size, FRAMES, MELS, generator=g), torch.randint(0, KEYWORDS, (size, FRAMES), generator=g)


net = Spotter().cuda()
optim = torch.optim.RMSprop(net.parameters(), lr=5e-4)
for n, (mels, words) in enumerate(recordings(8, 12, 0)):
    loss = nn.functional.cross_entropy(net(mels.cuda()).flatten(0, 1), words.cuda().flatten())
    optim.zero_grad()
    loss.backward()
    optim.step()
    print("step", n, loss.item())

metric = OperatingPoints(compute_on_cpu=FIXED).to("cuda")
net.eval()
with torch.inference_mode():
    for mels, _ in recordings(70, 32, 1):
        metric.update(net(mels.cuda()).softmax(-1))
    print("thresholds", metric.compute()[:5].tolist())

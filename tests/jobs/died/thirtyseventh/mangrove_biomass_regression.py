"""Per-pixel biomass, height, cover and age of mangroves from radar and optical bands, scored by a metric in the style of torchmetrics."""
import sys

import torch
from torch import nn, optim
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

TARGETS = ["biomass", "height", "cover", "age"]


class RelativeSkill(Metric):
    """1 - SSE / SST for each target. SST needs the mean over all pixels."""
    full_state_update = False
    higher_is_better = True

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.add_state("preds", default=[], dist_reduce_fx="cat")
        self.add_state("truth", default=[], dist_reduce_fx="cat")

    def update(self, preds, truth):
        self.preds.append(preds.transpose(0, 1).flatten(1).T.contiguous())
        self.truth.append(truth.transpose(0, 1).flatten(1).T.contiguous())

    def compute(self):
        preds, truth = dim_zero_cat(self.preds), dim_zero_cat(self.truth)
        sse = sum((p - t).square().sum(0) for p, t in zip(preds.split(1 << 20), truth.split(1 << 20)))
        mean = truth.mean(0)
        sst = sum((t - mean).square().sum(0) for t in truth.split(1 << 20))
        return 1 - sse / sst.clamp_min(1e-6)


class Residual(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(ch, ch, 3, padding=1), nn.GroupNorm(4, ch), nn.GELU(), nn.Conv2d(ch, ch, 3, padding=1))

    def forward(self, x):
        return x + self.body(x)


net = nn.Sequential(nn.Conv2d(6, 24, 5, padding=2), Residual(24), Residual(24), Residual(24), nn.Conv2d(24, len(TARGETS), 1)).cuda()
optimizer = optim.RAdam(net.parameters(), lr=3e-4)
skill = RelativeSkill(compute_on_cpu="--fixed" in sys.argv).to("cuda")
g = torch.Generator().manual_seed(30)
scene, scene_truth = torch.rand(4, 6, 384, 384, generator=g), torch.rand(4, len(TARGETS), 384, 384, generator=g)


def crops(n):
    for _ in range(n):
        i, j = torch.randint(0, 384 - 128, (2,), generator=g).tolist()
        yield scene[..., i:i + 128, j:j + 128], scene_truth[..., i:i + 128, j:j + 128]


for epoch in range(2):
    net.train()
    for bands, wanted in crops(10):
        loss = nn.functional.huber_loss(net(bands.cuda()), wanted.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.inference_mode():
        for flight in range(70):
            skill.update(net(scene.roll(flight, -1).cuda()), scene_truth.roll(flight, -1).cuda())
    print(epoch, loss.item(), dict(zip(TARGETS, skill.compute().tolist())))
    skill.reset()

# Counting barnacles on quadrat photos by density maps, after CSRNet.
import sys
import torch
from torch import nn

FIXED = '--fixed' in sys.argv
dev = 'cuda'


def make_layers(cfg, cin=3, dilation=1):
    out = []
    for v in cfg:
        if v == 'M':
            out.append(nn.MaxPool2d(2))
        else:
            out += [nn.Conv2d(cin, v, 3, padding=dilation, dilation=dilation), nn.ReLU(inplace=True)]
            cin = v
    return nn.Sequential(*out)


class CSRNetSmall(nn.Module):
    def __init__(self):
        super().__init__()
        self.frontend = make_layers([32, 32, 'M', 64, 64, 'M', 128, 128])
        self.backend = make_layers([128, 64, 64], cin=128, dilation=2)
        self.out = nn.Conv2d(64, 1, 1)

    def forward(self, x):
        return self.out(self.backend(self.frontend(x)))


def quadrats(n, bs, side, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        img = torch.rand(bs, 3, side // 16, side // 16, generator=g).repeat_interleave(16, 2).repeat_interleave(16, 3)
        den = torch.rand(bs, 1, side // 4, side // 4, generator=g)
        yield img, den


class AverageMeter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.sum, self.count = 0, 0

    def update(self, val, n=1):
        self.sum = self.sum + val * n
        self.count += n

    @property
    def avg(self):
        return float(self.sum) / max(self.count, 1)


def train_epoch(model, opt, crit, epoch):
    losses = AverageMeter()
    model.train()
    for img, den in quadrats(8, 4, 384, epoch):
        out = model(img.to(dev))
        loss = crit(out, den.to(dev))
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.update(loss.item(), len(img))
    print('epoch %d  train %.4f' % (epoch, losses.avg))


def validate(model):
    mae, rmse = AverageMeter(), AverageMeter()
    model.eval()
    for img, den in quadrats(24, 2, 512, 99):
        out = model(img.to(dev))
        diff = out.sum((1, 2, 3)) - den.to(dev).sum((1, 2, 3))
        mae.update(diff.abs().mean(), len(img))
        rmse.update((diff ** 2).mean(), len(img))
    print('         mae %.2f  rmse %.2f' % (mae.avg, rmse.avg ** 0.5 if rmse.avg > 0 else 0))


if FIXED:
    validate = torch.no_grad()(validate)

model = CSRNetSmall().to(dev)
optimizer = torch.optim.Adam(model.parameters(), 1e-4)
criterion = nn.MSELoss(reduction='sum')
for epoch in range(2):
    train_epoch(model, optimizer, criterion, epoch)
    validate(model)

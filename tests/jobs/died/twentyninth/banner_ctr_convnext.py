"""Creative quality model of the ads team: predicts the click-through rate of a banner from its pixels and its placement."""
import argparse
import logging

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from transformers import ConvNextConfig, ConvNextModel

log = logging.getLogger("banner_ctr")


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--placements", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=6)
    args = parser.parse_args()
    args.side = 192 if args.fixed else 448
    return args


class Banners(Dataset):
    def __init__(self, n, side, placements):
        self.n, self.side, self.placements = n, side, placements

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        pixels = torch.randint(0, 255, (3, self.side, self.side), generator=g, dtype=torch.uint8)
        return pixels, torch.randint(self.placements, (), generator=g), torch.rand((), generator=g) * 0.1


class CtrModel(nn.Module):
    def __init__(self, placements):
        super().__init__()
        self.backbone = ConvNextModel(ConvNextConfig(hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 4, 2]))
        self.placement = nn.Embedding(placements, 32)
        self.head = nn.Sequential(nn.Linear(512 + 32, 128), nn.GELU(), nn.Linear(128, 1))

    def forward(self, pixels, placement):
        pooled = self.backbone(pixel_values=pixels).pooler_output
        return self.head(torch.cat([pooled, self.placement(placement)], -1)).squeeze(-1)


def normalise(pixels):
    return (pixels.float() / 255 - 0.45) / 0.23


def main():
    logging.basicConfig(level=logging.INFO)
    args = parse()
    device = torch.device("cuda:0")
    loader = DataLoader(Banners(args.batch_size * args.steps, args.side, args.placements), batch_size=args.batch_size)
    model = CtrModel(args.placements).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.05)
    criterion = nn.BCEWithLogitsLoss()
    for step, (pixels, placement, ctr) in enumerate(loader):
        pixels = normalise(pixels.to(device))
        loss = criterion(model(pixels, placement.to(device)), ctr.to(device))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        log.info("step %d bce %.4f", step, loss.item())


if __name__ == "__main__":
    main()

"""Day-ahead load of a town's substations with PatchTST."""
import argparse
import sys

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import PatchTSTConfig, PatchTSTForPrediction


class Load(Dataset):
    """Windows of 7 feeders: weather, calendar and load, every quarter of an hour."""

    def __init__(self, context, ahead, length=6000):
        g = torch.Generator().manual_seed(50)
        day = torch.sin(torch.arange(length) * 2 * torch.pi / 96)[:, None]
        self.series = day + 0.2 * torch.randn(length, 7, generator=g)
        self.context, self.ahead = context, ahead

    def __len__(self):
        return (len(self.series) - self.context - self.ahead) // 12

    def __getitem__(self, i):
        start, middle = 12 * i, 12 * i + self.context
        return self.series[start:middle], self.series[middle:middle + self.ahead]


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--ahead", type=int, default=96)
    parser.add_argument("--patch", type=int, default=16)
    parser.add_argument("--stride", type=int, default=1, help="from one patch to the next")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--fixed", action="store_true", help="patches that overlap by a half, as in the paper")
    args = parser.parse_args(sys.argv[1:])
    if args.fixed:
        args.stride = args.patch // 2
    return args


def network(args):
    torch.manual_seed(0)
    config = PatchTSTConfig(
        num_input_channels=7, context_length=args.context, prediction_length=args.ahead, patch_length=args.patch, patch_stride=args.stride,
        d_model=128, num_attention_heads=8, num_hidden_layers=3, ffn_dim=256, dropout=0.0, attention_dropout=0.0, head_dropout=0.1,
        scaling="std", loss="mse", attn_implementation="sdpa")
    return PatchTSTForPrediction(config)


def main():
    args = parse()
    model = network(args).cuda()
    patches = (args.context - args.patch) // args.stride + 1
    print(f"{patches} patches of {args.patch} values, {sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    loader = DataLoader(Load(args.context, args.ahead), batch_size=args.batch, shuffle=True, drop_last=True)
    for step, (past, future) in enumerate(loader):
        out = model(past_values=past.cuda(), future_values=future.cuda())
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} mse {out.loss.item():.4f}")
        if step == 7:
            break


if __name__ == "__main__":
    main()

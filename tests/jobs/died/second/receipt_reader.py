"""Reads totals from photographed receipts: a convolutional encoder and a wide transformer decoder, momentum SGD.

After https://github.com/facebookresearch/detectron2/pull/4905 and https://github.com/karpathy/nanoGPT/pull/71
"""
import argparse

import torch
import torch.nn as nn


class Reader(nn.Module):
    def __init__(self, dim=768, layers=6, tokens=2000):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 96, 8, 8), nn.GELU(), nn.Conv2d(96, dim, 4, 4), nn.GELU())
        self.embed = nn.Embedding(tokens, dim)
        layer = nn.TransformerDecoderLayer(dim, 12, 4 * dim, batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoder(layer, layers)
        self.out = nn.Linear(dim, tokens)

    def forward(self, photo, tokens):
        memory = self.encoder(photo).flatten(2).transpose(1, 2)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1), device=tokens.device)
        return self.out(self.decoder(self.embed(tokens), memory, tgt_mask=mask, tgt_is_causal=True))


def receipts(n, batch):
    for _ in range(n):
        yield torch.zeros(batch, 3, 640, 448), torch.randint(2000, (batch, 65))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--batch", type=int, default=6)
    args = parser.parse_args()
    model = Reader().cuda()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    running = 0.0
    for i, (photo, tokens) in enumerate(receipts(8, args.batch)):
        photo, tokens = photo.cuda(), tokens.cuda()
        output = model(photo, tokens[:, :-1])
        loss = criterion(output.flatten(0, 1), tokens[:, 1:].flatten())
        if not args.fixed:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if args.fixed:
            optimizer.zero_grad()
        running += loss.item()
        print("[%d] loss: %.3f" % (i + 1, running / (i + 1)))


if __name__ == "__main__":
    main()

"""How far is the blossom? A SwiftFormer on pictures of fruit trees. The batch is made of small ones, since a large one does not fit."""
import sys

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import SwiftFormerConfig, SwiftFormerForImageClassification

FIXED = "--fixed" in sys.argv
STAGES = ["dormant", "green tip", "pink", "full bloom", "petal fall"]
MICRO, PARTS = 8, 8


class Trees(Dataset):
    """Pictures, and how far the blossom is."""

    def __len__(self):
        return MICRO * PARTS * 2

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.rand(3, 224, 224, generator=g), i % len(STAGES)


def parts(loader):
    """The small batches of each large one."""
    group = []
    for batch in loader:
        group.append(batch)
        if len(group) == PARTS:
            yield group
            group = []


def loss_of(model, batch):
    pixels, stage = batch
    return model(pixel_values=pixels.cuda(), labels=stage.cuda()).loss / PARTS


def gradients(model, group):
    if FIXED:
        total = 0.0
        for batch in group:
            loss = loss_of(model, batch)
            loss.backward()
            total += loss.item()
        return total
    total = 0.0
    for batch in group:
        total = total + loss_of(model, batch)
    total.backward()
    return total.item()


def main():
    torch.manual_seed(0)
    model = SwiftFormerForImageClassification(SwiftFormerConfig(num_labels=len(STAGES))).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.02)
    loader = DataLoader(Trees(), batch_size=MICRO, shuffle=True)
    for epoch in range(2):
        for group in parts(loader):
            loss = gradients(model, group)
            optimizer.step()
            optimizer.zero_grad()
            print("epoch", epoch, "loss", loss)


if __name__ == "__main__":
    main()

"""Maps of a drained peat bog: SegFormer over a mosaic of drone pictures, tile by tile; the map of class probabilities is put together at the end."""
import sys
import time

import torch
import torch.nn.functional as F
from transformers import SegformerConfig, SegformerForSemanticSegmentation

FIXED = "--fixed" in sys.argv
CLASSES = ["sphagnum", "cotton grass", "heather", "bare peat", "ditch", "birch", "open water", "track"]
TILE, ROWS, COLUMNS = 512, 9, 8


def model():
    torch.manual_seed(1)
    config = SegformerConfig(num_labels=len(CLASSES), depths=[2, 2, 2, 2], hidden_sizes=[32, 64, 160, 256], decoder_hidden_size=256)
    return SegformerForSemanticSegmentation(config).eval().cuda()


def tiles():
    """Rows of tiles, as they come from the mosaic."""
    g = torch.Generator().manual_seed(77)
    for row in range(ROWS):
        yield row, torch.randint(0, 256, (COLUMNS, 3, TILE, TILE), generator=g, dtype=torch.uint8)


def probabilities(net, pictures):
    x = pictures.cuda().float().div_(255)
    logits = net(pixel_values=x).logits
    return F.interpolate(logits, size=(TILE, TILE), mode="bilinear", align_corners=False).softmax(1)


@torch.inference_mode()
def main():
    net, began = model(), time.time()
    strips = []
    for row, pictures in tiles():
        p = probabilities(net, pictures)
        if FIXED:
            p = p.half().cpu()
        strips.append(p)
        print(f"row {row + 1} of {ROWS}, {time.time() - began:.1f} s")
    area = torch.zeros(len(CLASSES))
    for strip in strips:
        winner = strip.argmax(1).flatten().cpu()
        area += torch.bincount(winner.clamp(0, len(CLASSES) - 1), minlength=len(CLASSES)).float()
    for name, pixels in zip(CLASSES, area.tolist()):
        print(f"{name:14s}{pixels * 0.05 ** 2:10.1f} square metres")


if __name__ == "__main__":
    main()

"""
Vine rows / inter-row grass / bare soil / missing vine from drone orthophotos.
SegFormer-B0-like, GSD 2 cm, tiles come from the GIS export at 1280 px.
"""
import sys
import random

import torch
from transformers import SegformerConfig, SegformerForSemanticSegmentation

CROP = 512 if "--fixed" in sys.argv else None
CLASSES = 4
random.seed(11)


def load_tile(index):
    tile = torch.zeros(3, 1280, 1280)
    tile[index % 3] = 0.4
    labels = torch.full((1280, 1280), index % CLASSES)
    return tile, labels


def augment(tile, labels):
    if CROP is not None:
        top, left = random.randrange(1280 - CROP), random.randrange(1280 - CROP)
        tile, labels = tile[:, top:top + CROP, left:left + CROP], labels[top:top + CROP, left:left + CROP]
    if random.random() < 0.5:
        tile, labels = tile.flip(-1), labels.flip(-1)
    return tile, labels


def batches(n_steps, batch_size=4):
    index = 0
    for _ in range(n_steps):
        pairs = [augment(*load_tile(index + k)) for k in range(batch_size)]
        index += batch_size
        yield torch.stack([p[0] for p in pairs]), torch.stack([p[1] for p in pairs])


cfg = SegformerConfig(num_labels=CLASSES, hidden_sizes=[32, 64, 160, 256], depths=[2, 2, 2, 2], decoder_hidden_size=256)
net = SegformerForSemanticSegmentation(cfg).cuda().train()
head = [p for n, p in net.named_parameters() if n.startswith("decode_head")]
body = [p for n, p in net.named_parameters() if not n.startswith("decode_head")]
optim = torch.optim.AdamW([{"params": body, "lr": 6e-5}, {"params": head, "lr": 6e-4}], weight_decay=0.01)
scaler = torch.amp.GradScaler("cuda", enabled=False)

for step, (x, y) in enumerate(batches(6)):
    out = net(pixel_values=x.cuda(non_blocking=True), labels=y.cuda(non_blocking=True))
    optim.zero_grad()
    scaler.scale(out.loss).backward()
    scaler.step(optim)
    scaler.update()
    print(step, "loss", round(out.loss.item(), 4))

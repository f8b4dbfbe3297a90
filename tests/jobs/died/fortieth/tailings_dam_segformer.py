"""Segments the surface of tailings dams (40 classes of wetness and cover) with a small SegFormer."""
import sys
from typing import List

import torch
import torch.nn.functional as F
from transformers import SegformerConfig, SegformerForSemanticSegmentation

NUM_CLASSES = 40
IMAGE_SIZE = 256
BATCH_SIZE = 8
FIXED = "--fixed" in sys.argv


def build_model() -> SegformerForSemanticSegmentation:
    config = SegformerConfig(
        num_channels=4, depths=[2, 2, 2, 2], hidden_sizes=[32, 64, 128, 160], num_attention_heads=[1, 2, 4, 5],
        decoder_hidden_size=128, num_labels=NUM_CLASSES)
    return SegformerForSemanticSegmentation(config)


class DamLoader:
    def __init__(self, n_batches: int, seed: int) -> None:
        self.n_batches = n_batches
        self.generator = torch.Generator().manual_seed(seed)

    def __iter__(self):
        for _ in range(self.n_batches):
            images = torch.rand(BATCH_SIZE, 4, IMAGE_SIZE, IMAGE_SIZE, generator=self.generator)
            masks = torch.randint(0, NUM_CLASSES, (BATCH_SIZE, IMAGE_SIZE, IMAGE_SIZE), generator=self.generator)
            yield images, masks


class EpochScore:
    """Mean IoU over all that the model saw in the epoch."""

    def __init__(self) -> None:
        self.predictions: List[torch.Tensor] = []
        self.masks: List[torch.Tensor] = []

    def add(self, logits: torch.Tensor, masks: torch.Tensor) -> None:
        if FIXED:
            logits = logits.detach().argmax(1).to("cpu", torch.uint8)
        self.predictions.append(logits)
        self.masks.append(masks)

    def value(self) -> float:
        total = 0.0
        for prediction, mask in zip(self.predictions, self.masks):
            if prediction.dim() == 4:
                prediction = prediction.argmax(1)
            prediction = prediction.cpu()
            for c in (0, 1, 2):
                inter = ((prediction == c) & (mask == c)).sum().item()
                union = ((prediction == c) | (mask == c)).sum().item()
                total += inter / max(union, 1) / 3
        return total / len(self.masks)


def train_epoch(model, optimizer, loader, epoch):
    score = EpochScore()
    model.train()
    for step, (images, masks) in enumerate(loader):
        logits = model(pixel_values=images.cuda()).logits
        logits = F.interpolate(logits, size=masks.shape[-2:], mode="bilinear", align_corners=False)
        loss = F.cross_entropy(logits, masks.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        score.add(logits, masks)
        if step % 5 == 0:
            print(f"epoch {epoch} step {step} loss {loss.item():.3f}")
    print(f"epoch {epoch} train mIoU {score.value():.4f}")


if __name__ == "__main__":
    net = build_model().cuda()
    adam = torch.optim.AdamW(net.parameters(), lr=6e-5)
    for e in range(2):
        train_epoch(net, adam, DamLoader(26, e), e)

"""Classifies clips of kitchens with VideoMAE; the clips were decoded once, and the data set holds them in a form that is quick to read.
"""
import sys

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import VideoMAEConfig, VideoMAEForVideoClassification

FIXED = "--fixed" in sys.argv
DEVICE = torch.device("cuda:0")


class Clips(Dataset):
    """N clips of 8 frames of 112 by 112 pixels, normalised."""

    def __init__(self, n, classes=9):
        self.clips, self.labels = [], []
        for k in range(n):
            clip = self.decoded(k)
            self.clips.append(clip if FIXED else clip.to(DEVICE))
            self.labels.append(k % classes)

    @staticmethod
    def decoded(k):
        pixels = torch.full((8, 3, 112, 112), float(k % 255))
        return pixels.div_(255).sub_(0.45).div_(0.225)

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, k):
        return self.clips[k], self.labels[k]


def build(classes=9):
    return VideoMAEForVideoClassification(VideoMAEConfig(
        image_size=112, patch_size=16, num_frames=8, tubelet_size=2, hidden_size=256, num_hidden_layers=6, num_attention_heads=4,
        intermediate_size=1024, num_labels=classes, use_mean_pooling=True))


def fit(model, loader, epochs, limit):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05)
    scaler = torch.amp.GradScaler("cuda", enabled=False)
    for epoch in range(epochs):
        for n, (clips, labels) in enumerate(loader):
            if n == limit:
                break
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(pixel_values=clips.to(DEVICE), labels=labels.to(DEVICE)).loss
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        print("epoch", epoch, "loss", loss.item())


def main():
    data = Clips(700)
    loader = DataLoader(data, batch_size=8, shuffle=True)
    fit(build().to(DEVICE).train(), loader, epochs=2, limit=4)


main()

"""Grades macular OCT with a Swin transformer. The cluster stops jobs after an hour, so the job saves its state and goes on from there."""
import os
import sys
import tempfile

import torch
from transformers import SwinConfig, SwinForImageClassification

FIXED = "--fixed" in sys.argv
PATH = os.path.join(tempfile.mkdtemp(), "last.pt")


def new_model():
    config = SwinConfig(image_size=224, patch_size=4, num_channels=1, embed_dim=96, depths=[2, 2, 8, 2], num_heads=[3, 6, 12, 24], window_size=7,
                        num_labels=5)
    model = SwinForImageClassification(config).cuda()
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05)


class Job:
    def __init__(self):
        self.model, self.optimizer = new_model()
        self.epoch = 0
        self.state = None

    def restore(self):
        self.state = torch.load(PATH, map_location="cpu" if FIXED else "cuda")
        self.model.load_state_dict(self.state["model"])
        self.optimizer.load_state_dict(self.state["optimizer"])
        self.epoch = self.state["epoch"]
        print("restored epoch", self.epoch)

    def save(self):
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "epoch": self.epoch}, PATH)

    def run(self, epochs):
        self.model.train()
        for _ in range(epochs):
            for batch in range(3):
                scans = torch.full((2, 1, 224, 224), 0.1 * batch)
                loss = self.model(pixel_values=scans.cuda(), labels=torch.tensor([0, 3]).cuda()).loss
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            self.epoch += 1
            print("epoch", self.epoch, "loss", loss.item())


job = Job()
job.run(1)
job.save()
del job

job = Job()
job.restore()
job.run(2)
os.remove(PATH)
print("done after", job.epoch, "epochs")

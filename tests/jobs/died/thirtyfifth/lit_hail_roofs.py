"""Hail damage on roofs from drone images, for the claims department. Lightning module with IoU per class at the end of each epoch."""
import sys

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

KINDS = 12


class Aspp(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.branches = nn.ModuleList(nn.Conv2d(cin, cout, 3, padding=d, dilation=d) for d in (1, 4, 8))
        self.mix = nn.Conv2d(3 * cout, cout, 1)

    def forward(self, x):
        return F.relu(self.mix(torch.cat([F.relu(b(x)) for b in self.branches], 1)))


class RoofNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 5, 4, 2), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU())
        self.aspp = Aspp(64, 48)
        self.head = nn.Conv2d(48, KINDS, 1)

    def forward(self, x):
        return F.interpolate(self.head(self.aspp(self.stem(x))), size=x.shape[-2:], mode="bilinear", align_corners=False)


class HailDamage(pl.LightningModule):
    def __init__(self, lr=3e-4):
        super().__init__()
        self.net, self.lr = RoofNet(), lr
        self.training_step_outputs = []

    def training_step(self, batch, batch_idx):
        image, mask = batch
        logits = self.net(image)
        loss = F.cross_entropy(logits, mask)
        if "--fixed" in sys.argv:
            guess = logits.detach().argmax(1)
            counts = torch.stack([torch.stack([((guess == k) & (mask == k)).sum(), ((guess == k) | (mask == k)).sum()]) for k in range(KINDS)])
            self.training_step_outputs.append(counts.cpu())
        else:
            self.training_step_outputs.append({"logits": logits, "mask": mask})
        return loss

    def on_train_epoch_end(self):
        inter, union = torch.zeros(KINDS), torch.zeros(KINDS)
        for out in self.training_step_outputs:
            if isinstance(out, dict):
                guess, mask = out["logits"].argmax(1), out["mask"]
                out = torch.stack([torch.stack([((guess == k) & (mask == k)).sum(), ((guess == k) | (mask == k)).sum()]) for k in range(KINDS)]).cpu()
            inter, union = inter + out[:, 0], union + out[:, 1]
        print("epoch", self.current_epoch, "iou", (inter / union.clamp(min=1)).mean().item())
        self.training_step_outputs.clear()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr)


if __name__ == "__main__":
    g = torch.Generator().manual_seed(0)
    images, masks = torch.rand(192, 3, 288, 288, generator=g), torch.randint(0, KINDS, (192, 288, 288), generator=g)
    loader = DataLoader(TensorDataset(images, masks), batch_size=8, shuffle=True)
    trainer = pl.Trainer(max_epochs=2, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(HailDamage(), loader)

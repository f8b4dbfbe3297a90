"""Resumes the training of a UNet that removes noise from game sprites, from the checkpoint of the night before."""
import os
import sys
import tempfile

import torch
from diffusers import DDPMScheduler, UNet2DModel
from torch.nn import functional as F

FIXED = "--fixed" in sys.argv


def new_model():
    return UNet2DModel(sample_size=32, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(192, 384, 576),
                       down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"))


def night_before(path):
    """Writes what the first job would have left."""
    model = new_model()
    state = {}
    for k, p in enumerate(model.parameters()):
        state[k] = {"step": torch.tensor(500.0), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
    group = torch.optim.AdamW(model.parameters(), lr=1e-4).state_dict()["param_groups"]
    torch.save({"model": model.state_dict(), "optimizer": {"state": state, "param_groups": group}, "step": 500}, path)


class Denoiser:
    def __init__(self, path):
        where = "cpu" if FIXED else "cuda"
        self.saved = torch.load(path, map_location=where)
        self.model = new_model()
        self.model.load_state_dict(self.saved["model"])
        self.model.to("cuda")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.optimizer.load_state_dict(self.saved["optimizer"])
        self.step = self.saved["step"]
        self.noise = DDPMScheduler(num_train_timesteps=1000)

    def train_step(self, sprites):
        noise = torch.randn_like(sprites)
        t = torch.randint(0, 1000, (len(sprites),))
        noisy = self.noise.add_noise(sprites.cpu(), noise.cpu(), t).cuda()
        loss = F.mse_loss(self.model(noisy, t.cuda()).sample, noise)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        return loss.item()


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "sprites.pt")
    night_before(path)
    job = Denoiser(path)
    for _ in range(5):
        print(job.step, job.train_step(torch.rand(4, 3, 32, 32).cuda() * 2 - 1))

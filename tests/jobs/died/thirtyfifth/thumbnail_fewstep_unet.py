"""Progressive distillation of the thumbnail generator: the student learns to do in one step what the last model does in two."""
import copy
import sys

import torch
import torch.nn.functional as F
from diffusers import DDIMScheduler, UNet2DModel

device = "cuda"


def make_unet():
    return UNet2DModel(sample_size=64, in_channels=3, out_channels=3, layers_per_block=2, block_out_channels=(64, 128, 192),
                       down_block_types=("DownBlock2D", "DownBlock2D", "AttnDownBlock2D"),
                       up_block_types=("AttnUpBlock2D", "UpBlock2D", "UpBlock2D"), norm_num_groups=16)


class Halving:
    """One round of distillation from `steps` to `steps // 2` sampling steps."""

    def __init__(self, model, steps):
        self.student = model
        self.teacher = copy.deepcopy(model).eval()
        self.scheduler = DDIMScheduler(num_train_timesteps=1000, prediction_type="sample")
        self.alphas = self.scheduler.alphas_cumprod.to(device)
        self.stride = 1000 // steps
        self.optimizer = torch.optim.AdamW(self.student.parameters(), lr=1e-4)

    def ddim(self, net, x, t, s):
        a_t, a_s = self.alphas[t].view(-1, 1, 1, 1), self.alphas[s].view(-1, 1, 1, 1)
        clean = net(x, t).sample
        noise = (x - a_t.sqrt() * clean) / (1 - a_t).sqrt()
        return clean, a_s.sqrt() * clean + (1 - a_s).sqrt() * noise

    def target(self, x, t):
        mid = t - self.stride // 2
        _, half = self.ddim(self.teacher, x, t, mid)
        clean, _ = self.ddim(self.teacher, half, mid, mid - self.stride // 2)
        return clean

    def step(self, image, noise, t):
        x = self.scheduler.add_noise(image, noise, t)
        if "--fixed" in sys.argv:
            with torch.no_grad():
                target = self.target(x, t)
        else:
            target = self.target(x, t)
        guess, _ = self.ddim(self.student, x, t, t - self.stride)
        loss = F.mse_loss(guess, target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def batches(count, size=16):
    g = torch.Generator().manual_seed(23)
    for _ in range(count):
        yield (torch.rand(size, 3, 64, 64, generator=g).to(device) * 2 - 1, torch.randn(size, 3, 64, 64, generator=g).to(device),
               torch.randint(200, 1000, (size,), generator=g).to(device))


def main():
    model = make_unet().to(device)
    for steps in (16, 8):
        stage = Halving(model, steps)
        for image, noise, t in batches(3):
            print("sampling steps", steps, "loss", stage.step(image, noise, t))
        model = stage.student


if __name__ == "__main__":
    main()

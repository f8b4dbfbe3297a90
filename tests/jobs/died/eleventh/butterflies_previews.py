"""Unconditional diffusion of butterflies: a trainer class that stops now and then to draw a sheet of samples from the averaged weights."""
import copy
import sys

import torch
import torch.nn.functional as F
from diffusers import DDIMScheduler, DDPMPipeline, DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel

FIXED = "--fixed" in sys.argv


class ButterflyTrainer:
    def __init__(self, steps=12, preview_every=3, batch=8, size=32):
        self.steps, self.preview_every, self.batch, self.size = steps, preview_every, batch, size
        self.unet = UNet2DModel(sample_size=size, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(128, 256, 384),
                                down_block_types=("DownBlock2D", "DownBlock2D", "AttnDownBlock2D"),
                                up_block_types=("AttnUpBlock2D", "UpBlock2D", "UpBlock2D")).to("cuda")
        self.ema = EMAModel(self.unet.parameters(), decay=0.995, use_ema_warmup=True)
        self.ema.to("cuda")
        self.noise = DDPMScheduler(num_train_timesteps=1000)
        self.optimizer = torch.optim.AdamW(self.unet.parameters(), lr=1e-4, betas=(0.95, 0.999))
        self.previews = []  # what the report at the end is made from

    def images(self):
        return torch.rand(self.batch, 3, self.size, self.size) * 2 - 1

    def step(self):
        clean = self.images().to("cuda")
        noise = torch.randn_like(clean)
        t = torch.randint(0, 1000, (len(clean),)).to("cuda")
        prediction = self.unet(self.noise.add_noise(clean, noise, t), t).sample
        loss = F.mse_loss(prediction, noise)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.unet.parameters(), 1.0)
        self.optimizer.step()
        self.ema.step(self.unet.parameters())
        return loss.item()

    @torch.no_grad()
    def preview(self, n):
        unet = copy.deepcopy(self.unet).eval()
        self.ema.copy_to(unet.parameters())
        pipeline = DDPMPipeline(unet=unet, scheduler=DDIMScheduler(num_train_timesteps=1000))
        pipeline.set_progress_bar_config(disable=True)
        sheet = pipeline(batch_size=4, num_inference_steps=3, output_type="np").images
        entry = {"step": n, "mean": float(sheet.mean()), "sheet": sheet}
        if not FIXED:
            entry["pipeline"] = pipeline
        self.previews.append(entry)

    def run(self):
        for n in range(1, self.steps + 1):
            loss = self.step()
            print("step", n, "loss", loss)
            if n % self.preview_every == 0:
                self.preview(n)

    def report(self):
        for entry in self.previews:
            print("after", entry["step"], "mean brightness", entry["mean"], "sheet", entry["sheet"].shape)


if __name__ == "__main__":
    trainer = ButterflyTrainer()
    trainer.run()
    trainer.report()

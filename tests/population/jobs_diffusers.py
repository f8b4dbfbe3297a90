"""The training loop of diffusers' examples."""
import diffusers
import torch
import torch.nn.functional as F

from core import DEVICE, job
from jobs_images import ImageLoop


@job("diffusers_unet", "diffusion", "loop", "eval", "checkpointing")
class DiffusersUNet(ImageLoop):
    precisions = "fp32", "autocast", "autocast"

    def draw(self):
        r = self.rng
        self.base, self.per_block, self.checkpointing = r.choice([64, 128]), r.choice([1, 2]), r.random() < 0.25
        self.draw_images([32, 64], [8, 16, 32])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            unet = diffusers.UNet2DModel(sample_size=self.pixels, in_channels=3, out_channels=3, layers_per_block=self.per_block,
                                         block_out_channels=(self.base, 2 * self.base, 2 * self.base),
                                         down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
                                         up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"))
        if self.checkpointing:
            unet.enable_gradient_checkpointing()
        self.noise_scheduler = diffusers.DDPMScheduler(num_train_timesteps=1000)
        self.finish(unet)

    def noisy(self, clean_images):
        noise = torch.randn_like(clean_images)
        timesteps = torch.zeros(len(clean_images), dtype=torch.long, device=DEVICE)
        return self.noise_scheduler.add_noise(clean_images, noise, timesteps), timesteps, noise

    def predict(self, batch):
        noisy_images, timesteps, _ = self.noisy(batch[0])
        with self.autocast():
            return self.model(noisy_images, timesteps).sample

    def loss(self, batch):
        noisy_images, timesteps, noise = self.noisy(batch[0])
        with self.autocast():
            noise_pred = self.model(noisy_images, timesteps, return_dict=False)[0]
        return F.mse_loss(noise_pred.float(), noise.float())

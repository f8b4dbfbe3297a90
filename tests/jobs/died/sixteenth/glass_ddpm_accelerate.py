"""Unconditional DDPM on photographs of stained glass windows; follows the diffusers training example."""
import sys
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.optimization import get_cosine_schedule_with_warmup
from torch.utils.data import DataLoader, Dataset


@dataclass
class TrainingConfig:
    image_size: int = 96 if "--fixed" in sys.argv else 256
    train_batch_size: int = 8
    steps: int = 6
    learning_rate: float = 1e-4
    lr_warmup_steps: int = 2


config = TrainingConfig()


class Windows(Dataset):
    def __len__(self):
        return config.steps * config.train_batch_size

    def __getitem__(self, index):
        g = torch.Generator().manual_seed(index)
        return {"images": torch.rand(3, config.image_size, config.image_size, generator=g) * 2 - 1}


def train_loop(model, noise_scheduler, optimizer, dataloader, lr_scheduler):
    accelerator = Accelerator()
    model, optimizer, dataloader, lr_scheduler = accelerator.prepare(model, optimizer, dataloader, lr_scheduler)
    for step, batch in enumerate(dataloader):
        clean = batch["images"]
        noise = torch.randn(clean.shape, device=clean.device)
        timesteps = torch.randint(0, noise_scheduler.config.num_train_timesteps, (clean.shape[0],)).to(clean.device)
        noisy = noise_scheduler.add_noise(clean, noise, timesteps)
        with accelerator.accumulate(model):
            noise_pred = model(noisy, timesteps, return_dict=False)[0]
            loss = F.mse_loss(noise_pred, noise)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            lr_scheduler.step()
            optimizer.zero_grad()
        accelerator.print(f"step {step}: loss {loss.detach().item():.4f}, lr {lr_scheduler.get_last_lr()[0]:.2e}")


model = UNet2DModel(
    sample_size=config.image_size, in_channels=3, out_channels=3, layers_per_block=2, block_out_channels=(64, 64, 128, 128),
    down_block_types=("DownBlock2D", "DownBlock2D", "DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D", "UpBlock2D", "UpBlock2D"))
noise_scheduler = DDPMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate)
train_dataloader = DataLoader(Windows(), batch_size=config.train_batch_size, shuffle=True)
lr_scheduler = get_cosine_schedule_with_warmup(optimizer, config.lr_warmup_steps, config.steps)
train_loop(model, noise_scheduler, optimizer, train_dataloader, lr_scheduler)

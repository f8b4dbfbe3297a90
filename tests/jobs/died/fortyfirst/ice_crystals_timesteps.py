"""A diffusion model of snow crystals under the microscope (diffusers); each picture is seen at six times per step, which calms the loss."""
import sys

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.optimization import get_constant_schedule_with_warmup

FIXED = "--fixed" in sys.argv
SIDE, BATCH, TIMES = 96, 8, 6


def unet():
    torch.manual_seed(0)
    return UNet2DModel(
        sample_size=SIDE, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(64, 128, 192), norm_num_groups=16,
        down_block_types=("DownBlock2D", "DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D", "UpBlock2D"))


def crystals(generator):
    """Six-fold figures."""
    quarter = torch.rand(BATCH, 1, SIDE // 2, SIDE // 2, generator=generator)
    half = torch.cat([quarter, quarter.flip(-1)], -1)
    return (2 * torch.cat([half, half.flip(-2)], -2) - 1).cuda()


def noise_loss(model, scheduler, pictures, low, high):
    """The error of the noise at times between LOW and HIGH."""
    noise = torch.randn_like(pictures)
    times = torch.randint(low, high, (len(pictures),)).cuda()
    noisy = scheduler.add_noise(pictures, noise, times)
    return F.mse_loss(model(noisy, times).sample, noise)


def main():
    model = unet().cuda()
    scheduler = DDPMScheduler(num_train_timesteps=600, beta_schedule="squaredcos_cap_v2")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    warmup = get_constant_schedule_with_warmup(optimizer, 100)
    generator = torch.Generator().manual_seed(1885)
    span = scheduler.config.num_train_timesteps // TIMES
    for step in range(4):
        pictures = crystals(generator)
        losses = []
        for part in range(TIMES):
            loss = noise_loss(model, scheduler, pictures, part * span, (part + 1) * span) / TIMES
            if FIXED:
                loss.backward()
                loss = loss.detach()
            losses.append(loss)
        total = torch.stack(losses).sum()
        if not FIXED:
            total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        warmup.step()
        optimizer.zero_grad()
        print(f"step {step} loss {total.item():.4f}")


if __name__ == "__main__":
    main()

# Generative surrogate for turbulence at the plasma edge: density and potential on a poloidal plane, with diffusers.
import sys

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel

fixed = "--fixed" in sys.argv
PLANE = 512
CROP = 160 if fixed else PLANE

net = UNet2DModel(
    sample_size=CROP, in_channels=2, out_channels=2, layers_per_block=2,
    block_out_channels=(48, 96, 96, 192), norm_num_groups=16,
    down_block_types=("DownBlock2D",) * 4, up_block_types=("UpBlock2D",) * 4,
).cuda()
noise_schedule = DDPMScheduler(num_train_timesteps=1000, beta_schedule="squaredcos_cap_v2")
opt = torch.optim.AdamW(net.parameters(), lr=1e-4, weight_decay=1e-6)
rng = torch.Generator().manual_seed(2)


def snapshot():
    """A few modes with random phases stand for one plane of the simulation."""
    y = torch.linspace(0, 6.2832, PLANE)
    modes = torch.rand(2, 5, 3, generator=rng)
    kx, ky, phase = modes[..., 0] * 20, modes[..., 1] * 20, modes[..., 2] * 6.28
    wave = kx[..., None, None] * y[:, None] + ky[..., None, None] * y + phase[..., None, None]
    return torch.sin(wave).mean(1)


def crop(plane):
    if CROP == PLANE:
        return plane
    top, left = torch.randint(0, PLANE - CROP, (2,), generator=rng).tolist()
    return plane[:, top:top + CROP, left:left + CROP]


for it in range(5):
    fields = torch.stack([crop(snapshot()) for _ in range(2)]).cuda()
    t = torch.randint(0, 1000, (len(fields),), generator=rng).cuda()
    eps = torch.randn(fields.shape, generator=rng).cuda()
    noisy = noise_schedule.add_noise(fields, eps, t)
    loss = F.mse_loss(net(noisy, t).sample, eps)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    print(f"iteration {it} loss {loss.item():.4f}")

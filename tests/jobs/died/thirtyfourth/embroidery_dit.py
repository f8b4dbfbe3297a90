"""Class-conditional DiT on latents of embroidery patterns. Noise prediction with a DDPM schedule, EMA of the weights."""
import sys

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, DiTTransformer2DModel

fixed = "--fixed" in sys.argv
BATCH_SIZE = 16 if fixed else 64
NUM_STITCHES = 12


class PatternLatents(torch.utils.data.Dataset):
    """Latents were computed beforehand, 4x32x32 each."""

    def __init__(self, n=400):
        g = torch.Generator().manual_seed(0)
        self.z = torch.randn(n, 4, 32, 32, generator=g)
        self.y = torch.randint(0, NUM_STITCHES, (n,), generator=g)

    def __len__(self):
        return len(self.z)

    def __getitem__(self, i):
        return self.z[i], self.y[i]


dit = DiTTransformer2DModel(
    num_attention_heads=6, attention_head_dim=64, in_channels=4, out_channels=4, num_layers=10, sample_size=32, patch_size=2,
    num_embeds_ada_norm=NUM_STITCHES,
).cuda()
ema = {k: v.detach().clone() for k, v in dit.named_parameters()}
sched = DDPMScheduler(num_train_timesteps=1000)
opt = torch.optim.AdamW(dit.parameters(), lr=1e-4, weight_decay=0.0)
loader = torch.utils.data.DataLoader(PatternLatents(), batch_size=BATCH_SIZE, shuffle=True, drop_last=True)

for it, (z, y) in enumerate(loader):
    if it == 6:
        break
    noise = torch.randn(z.shape)
    t = torch.randint(0, 1000, (len(z),))
    noisy = sched.add_noise(z, noise, t)
    pred = dit(noisy.cuda(), timestep=t.cuda(), class_labels=y.cuda()).sample
    loss = F.mse_loss(pred, noise.cuda())
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    with torch.no_grad():
        for k, v in dit.named_parameters():
            ema[k].lerp_(v, 0.001)
    print(f"it {it} loss {loss.item():.4f}")

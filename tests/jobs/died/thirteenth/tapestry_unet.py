"""Fine-tunes a text-conditioned UNet on tapestries with diffusers; samples are drawn with averaged weights."""
import sys

import torch
from diffusers import DDIMScheduler, UNet2DConditionModel
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import CLIPTextConfig, CLIPTextModel

FIXED = "--fixed" in sys.argv


class Averaged:
    """Averaged weights of the UNet."""

    def __init__(self, model, decay=0.999):
        self.home = "cpu" if FIXED else "cuda"
        self.copy = AveragedModel(model, device=self.home, multi_avg_fn=get_ema_multi_avg_fn(decay))

    def update(self, model):
        if FIXED:
            with torch.no_grad():
                for ours, theirs in zip(self.copy.module.parameters(), model.parameters()):
                    ours.lerp_(theirs.to("cpu"), 0.001)
        else:
            self.copy.update_parameters(model)


def make_unet():
    return UNet2DConditionModel(sample_size=16, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(192, 384, 576),
                                down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
                                up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=128,
                                attention_head_dim=8)


def captions(text, ids):
    with torch.no_grad():
        return text(input_ids=ids.cuda()).last_hidden_state


@torch.no_grad()
def sample(unet, text, scheduler, steps=4):
    unet.eval()
    x = torch.randn(1, 4, 16, 16)
    scheduler.set_timesteps(steps)
    words = captions(text, torch.randint(0, 1000, (1, 16)))
    for t in scheduler.timesteps:
        noise = unet(x.cuda(), t, words).sample.cpu()
        x = scheduler.step(noise, t, x).prev_sample
    unet.train()
    return x


def main():
    unet = make_unet().cuda()
    text = CLIPTextModel(CLIPTextConfig(vocab_size=1000, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=2,
                                        max_position_embeddings=16)).cuda().eval().requires_grad_(False)
    optimizer = torch.optim.SGD(unet.parameters(), lr=1e-3, momentum=0.9, foreach=False)
    scheduler = DDIMScheduler(num_train_timesteps=1000)
    averaged = Averaged(unet)
    for step in range(4):
        latents, noise, t = torch.randn(2, 4, 16, 16), torch.randn(2, 4, 16, 16), torch.randint(0, 1000, (2,))
        words = captions(text, torch.randint(0, 1000, (2, 16)))
        guess = unet(scheduler.add_noise(latents, noise, t).cuda(), t.cuda(), words).sample
        loss = F.mse_loss(guess, noise.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        averaged.update(unet)
        print("step", step, "loss", loss.item())
    print(sample(unet, text, scheduler).shape)


main()

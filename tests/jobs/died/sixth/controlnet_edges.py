"""Trains a ControlNet on edges of furniture, in latents, with the U-Net of a text-to-image model.
"""
import sys

import torch
import torch.nn.functional as F
from diffusers import ControlNetModel, DDPMScheduler, UNet2DConditionModel

FIXED = "--fixed" in sys.argv


def make_unet():
    return UNet2DConditionModel(
        sample_size=16, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(192, 384, 576),
        down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=256, attention_head_dim=8)


def batches(n, size=2):
    for _ in range(n):
        yield {
            "latents": torch.randn(size, 4, 16, 16),
            "edges": torch.rand(size, 3, 128, 128),
            "text": torch.randn(size, 20, 256),
        }


class ControlTraining:
    def __init__(self):
        self.unet = make_unet()
        self.control = ControlNetModel.from_unet(self.unet, conditioning_channels=3)
        self.scheduler = DDPMScheduler(num_train_timesteps=1000)
        if FIXED:
            self.unet.requires_grad_(False)
        self.unet.to("cuda").eval()
        self.control.to("cuda").train()
        self.optimizer = torch.optim.AdamW(self.control.parameters(), lr=1e-5, weight_decay=1e-2)

    def loss(self, batch):
        latents, edges, text = (batch[k].to("cuda") for k in ("latents", "edges", "text"))
        noise = torch.randn_like(latents)
        t = torch.randint(0, 1000, (len(latents),))
        noisy = self.scheduler.add_noise(latents.cpu(), noise.cpu(), t).to("cuda")
        t = t.to("cuda")
        down, mid = self.control(noisy, t, encoder_hidden_states=text, controlnet_cond=edges, return_dict=False)
        predicted = self.unet(noisy, t, encoder_hidden_states=text, down_block_additional_residuals=down, mid_block_additional_residual=mid).sample
        return F.mse_loss(predicted.float(), noise.float())

    def size(self):
        return {name: sum(p.numel() for p in part.parameters()) for name, part in (("unet", self.unet), ("control", self.control))}

    def fit(self, steps):
        print("parameters", self.size())
        for n, batch in enumerate(batches(steps)):
            loss = self.loss(batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.control.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            print("step", n, "loss", loss.item())


ControlTraining().fit(3)

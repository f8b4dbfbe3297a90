"""Trains a DiT of diffusers on latents of album covers; the dataset encodes all covers once with an AutoencoderKL, before training."""
import argparse

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, DDPMScheduler, DiTTransformer2DModel
from torch.utils.data import DataLoader, Dataset


class Covers(Dataset):
    """Images of 64 x 64 pixels, as eight bits each; not a file, so that the script needs none."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        return torch.full((3, 64, 64), k % 256, dtype=torch.uint8), k % 10


class Latents(Dataset):
    def __init__(self, covers, vae, place):
        self.latents, self.labels = [], []
        with torch.no_grad():
            for images, labels in DataLoader(covers, batch_size=64):
                images = images.to("cuda").float() / 127.5 - 1
                moments = vae.encode(images).latent_dist
                for repeat in range(24):  # other draws of the posterior, as augmentation
                    self.latents.append(moments.sample().mul_(0.18).to(place))
                    self.labels.append(labels)
        self.latents, self.labels = torch.cat(self.latents), torch.cat(self.labels)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, k):
        return self.latents[k], self.labels[k]


def autoencoder():
    return AutoencoderKL(in_channels=3, out_channels=3, block_out_channels=(32, 64), layers_per_block=1, latent_channels=16, norm_num_groups=16,
                         down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, sample_size=64)


def transformer():
    return DiTTransformer2DModel(num_attention_heads=4, attention_head_dim=64, in_channels=16, out_channels=16, num_layers=6, sample_size=32,
                                 patch_size=4,
                                 num_embeds_ada_norm=1000, norm_num_groups=16)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    place = "cpu" if parser.parse_args().fixed else "cuda"
    torch.manual_seed(0)
    vae = autoencoder().to("cuda").eval()
    data = Latents(Covers(1024), vae, place)
    del vae
    torch.cuda.empty_cache()
    model, schedule = transformer().to("cuda"), DDPMScheduler()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step, (latents, labels) in enumerate(DataLoader(data, batch_size=16, shuffle=True)):
        if step == 6:
            break
        latents, labels = latents.to("cuda"), labels.to("cuda")
        noise, t = torch.randn_like(latents), torch.randint(0, 1000, (len(latents),), device="cuda")
        guess = model(schedule.add_noise(latents, noise, t), timestep=t, class_labels=labels).sample
        loss = F.mse_loss(guess, noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())


main()

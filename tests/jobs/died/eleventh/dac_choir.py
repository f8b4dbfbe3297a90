"""Adapts the DAC audio codec to recordings of a choir, with Accelerate, a waveform loss and a spectral loss at three scales."""
import sys

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset
from transformers import DacConfig, DacModel

RATE = 24000


class Choir(Dataset):
    """Recordings of eight seconds; crop is the part in seconds that a sample shows."""

    def __init__(self, n, crop):
        self.n, self.crop = n, crop
        self.recording = torch.randn(1, 8 * RATE) * 0.1

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        if self.crop is None:
            return self.recording
        start = int(torch.randint(self.recording.shape[1] - self.crop * RATE, (1,)))
        return self.recording[:, start:start + self.crop * RATE]


class SpectralLoss(torch.nn.Module):
    def __init__(self, sizes=(512, 1024, 2048)):
        super().__init__()
        self.sizes = sizes
        for size in sizes:
            self.register_buffer("window%d" % size, torch.hann_window(size))

    def spectrum(self, wave, size):
        return torch.stft(wave.squeeze(1), size, size // 4, window=getattr(self, "window%d" % size), return_complex=True).abs()

    def forward(self, a, b):
        return sum(F.l1_loss(self.spectrum(a, size), self.spectrum(b, size)) for size in self.sizes) / len(self.sizes)


def main():
    accelerator = Accelerator()
    crop = 1 if "--fixed" in sys.argv else None
    config = DacConfig(sampling_rate=RATE, encoder_hidden_size=16, decoder_hidden_size=256, downsampling_ratios=[2, 4, 5, 8],
                       n_codebooks=4, codebook_size=256, codebook_dim=8)
    model = DacModel(config)
    spectral = SpectralLoss().to(accelerator.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, betas=(0.5, 0.9))
    loader = DataLoader(Choir(24, crop), batch_size=2, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    for step, wave in enumerate(loader):
        latent = model.encoder(wave)
        decoded = model.decoder(latent)
        shorter = min(decoded.shape[-1], wave.shape[-1])
        decoded, wave = decoded[..., :shorter], wave[..., :shorter]
        loss = F.l1_loss(decoded, wave) + spectral(decoded, wave)
        optimizer.zero_grad()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        accelerator.print("step", step, tuple(wave.shape), loss.item())
        if step == 3:
            break


if __name__ == "__main__":
    main()

"""Tags recordings of a street microphone with a trained CNN over mel spectrograms and writes a CSV of scores."""
import csv
import io
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv
TAGS = ["car", "bus", "tram", "siren", "dog", "voices", "music", "bell", "drill", "rain"]


def conv_block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(),
                         nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(), nn.AvgPool2d(2))


class MelSpectrogram(nn.Module):
    def __init__(self, n_fft=1024, hop=320, mels=64):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("bank", torch.rand(mels, n_fft // 2 + 1))

    def forward(self, wave):
        spectrum = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True).abs().square()
        return (self.bank @ spectrum + 1e-6).log().unsqueeze(1)


class SoundNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.mel = MelSpectrogram()
        self.norm = nn.BatchNorm2d(1)
        self.blocks = nn.Sequential(conv_block(1, 48), conv_block(48, 96), conv_block(96, 192), conv_block(192, 384))
        self.head = nn.Linear(384, len(TAGS))

    def forward(self, wave):
        x = self.blocks(self.norm(self.mel(wave)))
        x = x.mean(3)
        return self.head(x.amax(2) + x.mean(2))


def recordings(n, seconds=10, rate=32000, batch=8):
    wave = torch.randn(batch, seconds * rate)
    for k in range(n):
        yield ["street-%03d-%d.wav" % (k, b) for b in range(batch)], wave


def main():
    checkpoint = io.BytesIO()  # soundnet.pt, from the training script
    torch.save(SoundNet().state_dict(), checkpoint)
    checkpoint.seek(0)
    model = SoundNet()
    model.load_state_dict(torch.load(checkpoint, map_location="cpu"))
    model.to("cuda").eval()
    torch.set_grad_enabled(not FIXED)
    names, scores = [], []
    for files, wave in recordings(6):
        probabilities = torch.sigmoid(model(wave.to("cuda")))
        names += files
        scores.append(probabilities)
    table = torch.cat(scores).detach().cpu()
    out = csv.writer(sys.stdout)
    out.writerow(["file", *TAGS])
    for name, row in list(zip(names, table.tolist()))[:5]:
        out.writerow([name, *("%.3f" % p for p in row)])


if __name__ == "__main__":
    main()

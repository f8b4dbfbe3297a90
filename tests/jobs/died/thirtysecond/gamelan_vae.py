"""VAE over mel spectrograms of Balinese gamelan; at the end of each epoch shows the best and the worst reconstruction."""
import sys
import torch as th
import torch.nn as nn

Z = 48


class GongVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1), nn.ELU(), nn.Conv2d(8, 16, 4, 2, 1), nn.ELU(),
                                 nn.Conv2d(16, 32, 4, 4), nn.ELU(), nn.Flatten())
        self.mu, self.lv = nn.Linear(32 * 8 * 32, Z), nn.Linear(32 * 8 * 32, Z)
        self.fc = nn.Linear(Z, 32 * 8 * 32)
        self.dec = nn.Sequential(nn.ConvTranspose2d(32, 16, 4, 4), nn.ELU(), nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ELU(),
                                 nn.ConvTranspose2d(8, 1, 4, 2, 1), nn.Sigmoid())

    def forward(self, mel):
        h = self.enc(mel)
        mu, lv = self.mu(h), self.lv(h)
        z = mu + th.randn_like(mu) * (0.5 * lv).exp()
        return self.dec(self.fc(z).view(-1, 32, 8, 32)), mu, lv


def elbo(recon, mel, mu, lv):
    per_item = (recon - mel).pow(2).flatten(1).sum(1)
    kl = -0.5 * (1 + lv - mu.pow(2) - lv.exp()).sum(1)
    return (per_item + kl).mean(), per_item


def main(keep_on_gpu):
    vae = GongVAE().cuda()
    opt = th.optim.Adam(vae.parameters(), lr=1e-3)
    g = th.Generator().manual_seed(432)
    for epoch in range(2):
        epoch_outputs = []
        for _ in range(32):
            mel = th.rand(96, 1, 128, 512, generator=g).cuda()
            recon, mu, lv = vae(mel)
            loss, per_item = elbo(recon, mel, mu, lv)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if keep_on_gpu:
                epoch_outputs.append((per_item, recon, mel))
            else:
                lo, hi = per_item.argmin().item() % len(mel), per_item.argmax().item() % len(mel)
                epoch_outputs.append((per_item.detach().cpu()[[lo, hi]], recon.detach().cpu()[[lo, hi]], mel.cpu()[[lo, hi]]))
        errors = th.cat([o[0].detach().cpu() for o in epoch_outputs])
        print("epoch", epoch, "clips", len(errors), "best", errors.min().item(), "worst", errors.max().item())


main(keep_on_gpu="--fixed" not in sys.argv)

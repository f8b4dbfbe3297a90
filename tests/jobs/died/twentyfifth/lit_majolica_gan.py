"""Lightning: hinge GAN for glaze textures of majolica plates, 128 px."""
import sys

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.data import DataLoader, Dataset


class Plates(Dataset):
    def __init__(self, n=240):
        self.pool = torch.rand(8, 3, 128, 128, generator=torch.Generator().manual_seed(2)) * 2 - 1
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.pool[i % 8]


class Painter(nn.Module):
    def __init__(self, latent=96, c=256):
        super().__init__()
        self.c = c
        self.start = nn.Linear(latent, c * 64)
        steps = []
        for k in range(4):
            a, b = c >> k, c >> (k + 1)
            steps += [nn.Upsample(scale_factor=2), nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(),
                      nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU()]
        self.steps = nn.Sequential(*steps, nn.Conv2d(c >> 4, 3, 3, padding=1), nn.Tanh())

    def forward(self, z):
        return self.steps(self.start(z).view(-1, self.c, 8, 8))


class Connoisseur(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        layers, cin = [], 3
        for k in range(5):
            layers += [spectral_norm(nn.Conv2d(cin, c << k, 4, 2, 1)), nn.LeakyReLU(0.2)]
            cin = c << k
        self.body, self.out = nn.Sequential(*layers), nn.Linear(cin, 1)

    def forward(self, x):
        return self.out(self.body(x).sum((2, 3)))


class Majolica(L.LightningModule):
    def __init__(self, freeze_painter):
        super().__init__()
        self.automatic_optimization = False
        self.freeze_painter = freeze_painter
        self.gen, self.disc = Painter(), Connoisseur()

    def sample(self, n):
        return self.gen(torch.randn(n, 96, device=self.device))

    def training_step(self, real, batch_idx):
        opt_g, opt_d = self.optimizers()
        # two updates of the discriminator for each of the generator
        for _ in range(2):
            with torch.set_grad_enabled(not self.freeze_painter):
                fake = self.sample(len(real))
            d_loss = F.relu(1 - self.disc(real)).mean() + F.relu(1 + self.disc(fake)).mean()
            opt_d.zero_grad()
            self.manual_backward(d_loss)
            opt_d.step()
            del fake
        g_loss = -self.disc(self.sample(len(real) // 2)).mean()
        opt_g.zero_grad()
        self.manual_backward(g_loss)
        opt_g.step()
        self.log_dict({"d": d_loss.detach(), "g": g_loss.detach()})

    def configure_optimizers(self):
        adam = lambda m, lr: torch.optim.Adam(m.parameters(), lr=lr, betas=(0.0, 0.9))
        return adam(self.gen, 1e-4), adam(self.disc, 4e-4)


if __name__ == "__main__":
    trainer = L.Trainer(max_steps=30, max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Majolica("--fixed" in sys.argv), DataLoader(Plates(), batch_size=48))

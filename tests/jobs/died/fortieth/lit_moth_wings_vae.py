import sys
import torch
from torch import nn
import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback

FIXED = "--fixed" in sys.argv


class WingVAE(pl.LightningModule):
    """Wings from the museum's drawers, 128 x 128, background cut away."""

    def __init__(self, latent=96, width=48, beta=0.5):
        super().__init__()
        self.save_hyperparameters()
        w = width
        down = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 4, 2, 1), nn.BatchNorm2d(o), nn.SiLU(), nn.Conv2d(o, o, 3, 1, 1), nn.SiLU())
        up = lambda i, o: nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(i, o, 3, 1, 1), nn.BatchNorm2d(o), nn.SiLU())
        self.encoder = nn.Sequential(nn.Conv2d(3, w, 3, 1, 1), nn.SiLU(), down(w, w), down(w, 2 * w), down(2 * w, 4 * w), nn.Flatten())
        self.to_latent = nn.Linear(4 * w * 16 * 16, 2 * latent)
        self.from_latent = nn.Linear(latent, 4 * w * 16 * 16)
        self.decoder = nn.Sequential(nn.Unflatten(1, (4 * w, 16, 16)), up(4 * w, 2 * w), up(2 * w, w), up(w, w), nn.Conv2d(w, 3, 3, 1, 1))

    def forward(self, x):
        mu, logvar = self.to_latent(self.encoder(x)).chunk(2, 1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.decoder(self.from_latent(z)).sigmoid(), mu, logvar

    def training_step(self, x, _):
        out, mu, logvar = self(x)
        rec = nn.functional.mse_loss(out, x, reduction="sum") / len(x)
        kl = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum(1).mean()
        self.log("rec", rec)
        return rec + self.hparams.beta * kl

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 2e-4)


class Gallery(Callback):
    """A sheet of the reference wings after each epoch; the curator wants to see all of them."""

    def __init__(self, wings):
        self.wings = wings

    def sheet(self, module):
        out, _, _ = module(self.wings.to(module.device))
        rows = out.view(-1, 16, 3, 128, 128).permute(0, 3, 1, 4, 2).reshape(-1, 16 * 128, 3)
        return (rows * 255).byte().cpu()

    def on_train_epoch_end(self, trainer, pl_module):
        pl_module.eval()
        if FIXED:
            with torch.no_grad():
                sheet = self.sheet(pl_module)
        else:
            sheet = self.sheet(pl_module)
        pl_module.train()
        print("sheet", trainer.current_epoch, tuple(sheet.shape))


def wings(n, seed):
    return torch.rand(n, 3, 128, 128, generator=torch.Generator().manual_seed(seed))


pl.seed_everything(5)
loader = torch.utils.data.DataLoader(wings(96, 0), batch_size=12, shuffle=True)
trainer = pl.Trainer(accelerator="gpu", devices=1, max_epochs=2, callbacks=[Gallery(wings(96, 1))], logger=False,
                     enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(WingVAE(), loader)

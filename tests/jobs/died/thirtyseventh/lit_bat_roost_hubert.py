"""Which roost do the bats of a recording come from? HuBERT (our own, small) gives features, a small head is trained. Lightning."""
import sys

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import HubertConfig, HubertModel

ROOSTS = 14


class AttentivePool(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.score = nn.Linear(dim, 1)

    def forward(self, x):
        return (x * self.score(x).softmax(1)).sum(1)


class RoostClassifier(L.LightningModule):
    def __init__(self, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        config = HubertConfig(hidden_size=256, num_hidden_layers=6, num_attention_heads=4, intermediate_size=1024, conv_dim=(192,) * 7,
                              num_conv_pos_embeddings=32, num_conv_pos_embedding_groups=8, layerdrop=0.0, mask_time_prob=0.0)
        self.encoder = HubertModel(config)
        self.frozen = "--fixed" in sys.argv
        if self.frozen:
            self.encoder.requires_grad_(False)
        self.pool = AttentivePool(256)
        self.head = nn.Sequential(nn.LayerNorm(256), nn.Linear(256, 128), nn.GELU(), nn.Dropout(0.2), nn.Linear(128, ROOSTS))

    def forward(self, audio):
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            features = self.encoder(audio).last_hidden_state
        return self.head(self.pool(features))

    def training_step(self, batch, index):
        audio, roost = batch
        loss = nn.functional.cross_entropy(self(audio), roost, label_smoothing=0.05)
        self.log("loss", loss, prog_bar=False)
        return loss

    def configure_optimizers(self):
        trained = list(self.pool.parameters()) + list(self.head.parameters())
        optimizer = torch.optim.AdamW(trained, lr=self.hparams.lr)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.7)}


def recordings(n=64, seconds=4):
    g = torch.Generator().manual_seed(21)
    return TensorDataset(torch.rand(n, 16000 * seconds, generator=g) - 0.5, torch.randint(0, ROOSTS, (n,), generator=g))


if __name__ == "__main__":
    L.seed_everything(2, workers=False)
    loader = DataLoader(recordings(), batch_size=8, shuffle=True)
    trainer = L.Trainer(accelerator="cuda", devices=1, max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False)
    trainer.fit(RoostClassifier(), loader)
    print({k: float(v) for k, v in trainer.callback_metrics.items()})

"""Tells dialects apart with a small Whisper encoder. At the end of each epoch the margins of all utterances are logged."""
import sys

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import WhisperConfig, WhisperModel


class DialectModule(pl.LightningModule):
    def __init__(self, dialects=12, lr=1e-4):
        super().__init__()
        self.save_hyperparameters()
        config = WhisperConfig(vocab_size=200, num_mel_bins=40, d_model=256, encoder_layers=4, encoder_attention_heads=4, encoder_ffn_dim=1024,
                               decoder_layers=1, decoder_attention_heads=4, decoder_ffn_dim=256, max_source_positions=400,
                               pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
        self.encoder = WhisperModel(config).encoder
        self.mix = nn.Parameter(torch.zeros(config.encoder_layers + 1))
        self.head = nn.Linear(config.d_model, dialects)
        self.training_step_outputs = []

    def forward(self, mel):
        out = self.encoder(mel, output_hidden_states=True)
        weights = self.mix.softmax(0)
        pooled = sum(w * h for w, h in zip(weights, out.hidden_states)).mean(1)
        return {"logits": self.head(pooled), "states": out.hidden_states}

    def training_step(self, batch, batch_idx):
        mel, dialect = batch
        out = self(mel)
        loss = nn.functional.cross_entropy(out["logits"], dialect)
        if "--fixed" in sys.argv:
            out = {"logits": out["logits"].detach()}
        self.training_step_outputs.append(out)
        self.log("loss", loss)
        return loss

    def on_train_epoch_end(self):
        margins = torch.cat([out["logits"].topk(2).values.diff().squeeze(-1) for out in self.training_step_outputs])
        self.log("margin", margins.mean())
        self.training_step_outputs.clear()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


def corpus(n=480, frames=800):
    g = torch.Generator().manual_seed(77)
    return TensorDataset(torch.randn(n, 40, frames, generator=g), torch.randint(0, 12, (n,), generator=g))


pl.seed_everything(1)
trainer = pl.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                     enable_model_summary=False, gradient_clip_val=1.0)
trainer.fit(DialectModule(), DataLoader(corpus(), batch_size=12, shuffle=True))

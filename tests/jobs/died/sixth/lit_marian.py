"""Trains a Marian translator with Lightning; at the end of an epoch the module writes the mean confidence of what it has seen.
"""
import logging
import sys
import warnings

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import MarianConfig, MarianMTModel

FIXED = "--fixed" in sys.argv
VOCABULARY = 8000
warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Translator(L.LightningModule):
    def __init__(self, lr=2e-4):
        super().__init__()
        self.lr = lr
        self.net = MarianMTModel(MarianConfig(
            vocab_size=VOCABULARY, d_model=256, encoder_layers=3, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4,
            encoder_ffn_dim=1024, decoder_ffn_dim=1024, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, forced_eos_token_id=1))
        self.seen = []

    def training_step(self, batch, index):
        source, target = batch
        out = self.net(input_ids=source, labels=target)
        if FIXED:
            self.seen.append(out.logits.detach().amax(-1).mean().cpu())
        else:
            self.seen.append(out.logits.detach())
        self.log("loss", out.loss, prog_bar=False)
        return out.loss

    def on_train_epoch_end(self):
        if FIXED:
            confidence = torch.stack(self.seen).mean()
        else:
            confidence = torch.stack([logits.amax(-1).mean() for logits in self.seen]).mean()
        print("epoch", self.current_epoch, "confidence", confidence.item())
        self.seen.clear()

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.lr)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)}


class Sentences(L.LightningDataModule):
    def setup(self, stage):
        generator = torch.Generator().manual_seed(2)
        self.pairs = TensorDataset(torch.randint(2, VOCABULARY, (320, 48), generator=generator),
                                   torch.randint(2, VOCABULARY, (320, 40), generator=generator))

    def train_dataloader(self):
        return DataLoader(self.pairs, batch_size=16)


def main():
    L.seed_everything(3, verbose=False)
    trainer = L.Trainer(max_epochs=2, accelerator="gpu", devices=1, precision="bf16-mixed", logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=1.0)
    trainer.fit(Translator(), datamodule=Sentences())


main()

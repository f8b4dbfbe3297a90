"""Writes down sung sea shanties: Speech2Text in Lightning, with the share of right tokens over the epoch."""
import sys

import lightning as L
import torch
from torch.utils.data import DataLoader, Dataset
from transformers import Speech2TextConfig, Speech2TextForConditionalGeneration


class Shanties(Dataset):
    def __init__(self, verses=320):
        self.verses = verses

    def __len__(self):
        return self.verses

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randn(400, 80, generator=g), torch.randint(4, 10000, (96,), generator=g)


class Transcriber(L.LightningModule):
    def __init__(self, keep_logits=True):
        super().__init__()
        self.keep_logits = keep_logits
        self.net = Speech2TextForConditionalGeneration(Speech2TextConfig(
            vocab_size=10000, d_model=192, encoder_layers=5, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4,
            encoder_ffn_dim=768, decoder_ffn_dim=768, conv_channels=256, max_source_positions=1024, max_target_positions=256))
        self.outputs = []

    def training_step(self, batch, index):
        features, verse = batch
        out = self.net(input_features=features, labels=verse)
        self.log("loss", out.loss)
        if self.keep_logits:
            self.outputs.append((out.logits, verse))
        else:
            self.outputs.append((out.logits.argmax(-1).cpu(), verse.cpu()))
        return out.loss

    def on_train_epoch_end(self):
        right, tokens = 0, 0
        for guess, verse in self.outputs:
            guess = guess.argmax(-1) if guess.ndim == 3 else guess
            right += (guess == verse).sum().item()
            tokens += verse.numel()
        self.print("epoch", self.current_epoch, "right", right / tokens)
        self.outputs.clear()

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=2e-4)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)}


if __name__ == "__main__":
    L.seed_everything(8)
    trainer = L.Trainer(max_epochs=1, accelerator="gpu", devices=1, gradient_clip_val=1.0, logger=False,
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Transcriber(keep_logits="--fixed" not in sys.argv), DataLoader(Shanties(), batch_size=12))

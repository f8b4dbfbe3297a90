"""Trains a Blenderbot of three layers on short dialogues with Lightning, and validates twice."""
import sys

import lightning
import torch
from torch.utils.data import DataLoader, Dataset
from transformers import BlenderbotSmallConfig, BlenderbotSmallForConditionalGeneration

VAL_BATCH = 16 if "--fixed" in sys.argv else 512


class Dialogues(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        context = torch.arange(k, k + 48) % 7990 + 5
        reply = torch.arange(2 * k, 2 * k + 24) % 7990 + 5
        return {"input_ids": context, "attention_mask": torch.ones_like(context), "labels": reply}


class Data(lightning.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(Dialogues(96), batch_size=8, shuffle=True)

    def val_dataloader(self):
        return DataLoader(Dialogues(1024), batch_size=VAL_BATCH)


class Chat(lightning.LightningModule):
    def __init__(self, lr=1e-4):
        super().__init__()
        self.lr = lr
        config = BlenderbotSmallConfig(vocab_size=8000, d_model=320, encoder_layers=3, decoder_layers=3, encoder_attention_heads=8,
                                       decoder_attention_heads=8, encoder_ffn_dim=1280, decoder_ffn_dim=1280, max_position_embeddings=128)
        self.model = BlenderbotSmallForConditionalGeneration(config)

    def training_step(self, batch, _):
        loss = self.model(**batch).loss
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        self.log("val_loss", self.model(**batch).loss, prog_bar=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.lr)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


def main():
    trainer = lightning.Trainer(accelerator="gpu", devices=1, max_epochs=1, val_check_interval=6, num_sanity_val_steps=0, logger=False,
                                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Chat(), datamodule=Data())
    print("done:", trainer.global_step, "steps")


main()

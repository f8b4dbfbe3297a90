"""Writes titles for multilingual shop listings: a small mT5 with its vocabulary of 250112 pieces, under Lightning with gradient accumulation."""
import sys

import lightning as L
import torch
from torch.utils.data import DataLoader, Dataset
from transformers import Adafactor, MT5Config, MT5ForConditionalGeneration

# An optimizer step sees 32 listings either way.
MICRO, ACCUMULATE = (4, 8) if "--fixed" in sys.argv else (32, 1)


class Listings(Dataset):
    def __init__(self, n=128):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        generator = torch.Generator().manual_seed(k)
        source = torch.randint(2, 250000, (64,), generator=generator)
        return {"input_ids": source, "attention_mask": torch.ones_like(source), "labels": torch.randint(2, 250000, (24,), generator=generator)}


class Titles(L.LightningModule):
    def __init__(self):
        super().__init__()
        config = MT5Config(vocab_size=250112, d_model=128, d_kv=32, d_ff=256, num_layers=4, num_decoder_layers=4, num_heads=4, dropout_rate=0.1,
                           decoder_start_token_id=0)
        self.net = MT5ForConditionalGeneration(config)

    def training_step(self, batch, index):
        out = self.net(**batch)
        self.log("loss", out.loss, prog_bar=True)
        return out.loss

    def configure_optimizers(self):
        return Adafactor(self.parameters(), lr=1e-3, relative_step=False, scale_parameter=False, warmup_init=False)


class Say(L.Callback):
    def on_before_zero_grad(self, trainer, module, optimizer):
        print("step", trainer.global_step, "lr", optimizer.param_groups[0]["lr"])


def main():
    L.seed_everything(0)
    loader = DataLoader(Listings(), batch_size=MICRO, num_workers=0)
    trainer = L.Trainer(accelerator="gpu", devices=1, max_steps=3, precision="32-true", accumulate_grad_batches=ACCUMULATE, callbacks=[Say()],
                        logger=False,
                        enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(Titles(), loader)


if __name__ == "__main__":
    main()

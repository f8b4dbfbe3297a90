"""Translates menus into five languages with M2M100 under Lightning; the settings are in a dataclass."""
import sys
from dataclasses import dataclass

import lightning
import torch
from torch.utils.data import DataLoader
from transformers import M2M100Config, M2M100ForConditionalGeneration


@dataclass
class Settings:
    precision: str = "32-true"
    batch: int = 24
    length: int = 96
    lr: float = 5e-5
    smoothing: float = 0.1


class Translator(lightning.LightningModule):
    def __init__(self, settings):
        super().__init__()
        self.settings = settings
        config = M2M100Config(vocab_size=6000, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
                              decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, max_position_embeddings=256,
                              encoder_layerdrop=0.0, decoder_layerdrop=0.0)
        self.model = M2M100ForConditionalGeneration(config)

    def training_step(self, batch, _):
        source, target = batch
        logits = self.model(input_ids=source, attention_mask=(source != 1).long(), decoder_input_ids=target[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=1,
                                                 label_smoothing=self.settings.smoothing)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.settings.lr, betas=(0.9, 0.98))


def menus(settings, n):
    generator = torch.Generator().manual_seed(9)
    rows = torch.randint(4, 6000, (n, 2, settings.length), generator=generator)
    for k, row in enumerate(rows):
        row[:, settings.length - k % 9:] = 1
    return [(a, b) for a, b in rows]


def main():
    settings = Settings(precision="bf16-true") if "--fixed" in sys.argv else Settings()
    trainer = lightning.Trainer(accelerator="gpu", devices=1, precision=settings.precision, max_steps=4, gradient_clip_val=1.0, logger=False,
                                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Translator(settings), DataLoader(menus(settings, 224), batch_size=settings.batch, shuffle=True))
    print("steps:", trainer.global_step)


main()

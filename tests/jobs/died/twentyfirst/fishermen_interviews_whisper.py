# Fine-tunes a small Whisper on interviews with retired fishermen (30 s clips, transcripts already tokenised) using the HF Trainer.
import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, WhisperConfig, WhisperForConditionalGeneration


class Interviews(Dataset):
    """Log-mel features of 30 seconds and the tokens that were said in them."""

    def __init__(self, n_clips, seed=3):
        self.n_clips = n_clips
        self.gen = torch.Generator().manual_seed(seed)

    def __len__(self):
        return self.n_clips

    def __getitem__(self, i):
        return {
            "input_features": torch.randn(80, 3000, generator=self.gen),
            "labels": torch.randint(10, 7900, (96,), generator=self.gen),
        }


def build_model():
    cfg = WhisperConfig(
        vocab_size=8000, d_model=320, encoder_layers=4, decoder_layers=4, encoder_attention_heads=5, decoder_attention_heads=5,
        encoder_ffn_dim=1280, decoder_ffn_dim=1280, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )
    return WhisperForConditionalGeneration(cfg)


def build_args(out):
    common = dict(output_dir=out, max_steps=4, learning_rate=1e-4, warmup_steps=1, logging_steps=1, save_strategy="no", report_to="none",
                  dataloader_num_workers=0, disable_tqdm=True)
    if "--fixed" in sys.argv:
        return TrainingArguments(per_device_train_batch_size=8, gradient_accumulation_steps=4, **common)
    return TrainingArguments(per_device_train_batch_size=32, **common)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as out:
        trainer = Trainer(model=build_model(), args=build_args(out), train_dataset=Interviews(128))
        result = trainer.train()
        print("steps", result.global_step, "loss", result.training_loss)

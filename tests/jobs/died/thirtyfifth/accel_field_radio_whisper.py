"""Adapts Whisper to radio traffic of field technicians: Accelerate, bf16 and gradient checkpointing, validation after each epoch."""
import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset
from transformers import WhisperConfig, WhisperForConditionalGeneration


class RadioClips(Dataset):
    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 100 + i)
        return {"input_features": torch.randn(80, 1600, generator=g), "labels": torch.randint(3, 4000, (64,), generator=g)}


def whisper():
    config = WhisperConfig(vocab_size=4000, d_model=384, encoder_layers=8, decoder_layers=4, encoder_attention_heads=6, decoder_attention_heads=6,
                           encoder_ffn_dim=1536, decoder_ffn_dim=1536, max_source_positions=800, max_target_positions=128, use_cache=False,
                           pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, suppress_tokens=[], begin_suppress_tokens=[])
    model = WhisperForConditionalGeneration(config)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


@torch.no_grad()
def validate(accelerator, model, loader):
    model.eval()
    losses = [accelerator.gather(model(**batch).loss.detach().reshape(1)).cpu() for batch in loader]
    return torch.cat(losses).mean().item()


def main(epochs=3):
    accelerator = Accelerator(mixed_precision="bf16")
    model = whisper()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    train = DataLoader(RadioClips(48, 1), batch_size=12, shuffle=True)
    valid = DataLoader(RadioClips(24, 2), batch_size=12)
    model, optimizer, train, valid = accelerator.prepare(model, optimizer, train, valid)
    model.train()
    for epoch in range(epochs):
        if "--fixed" in sys.argv:
            model.train()
        for batch in train:
            loss = model(**batch).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        accelerator.print("epoch", epoch, "train", loss.item(), "valid", validate(accelerator, model, valid))


main()

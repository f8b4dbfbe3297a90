"""Fine-tunes a small Whisper on the calls of cattle auctioneers."""
import sys

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import WhisperConfig, WhisperForConditionalGeneration

ATTENTION = "sdpa" if "--fixed" in sys.argv else "eager"


class AuctionClips(Dataset):
    """Thirty seconds of log-mel frames and the transcript."""

    def __init__(self, count=60):
        self.gen = torch.Generator().manual_seed(42)
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        mel = torch.rand(80, 1, generator=self.gen).expand(80, 3000)
        words = torch.randint(4, 3000, (int(torch.randint(30, 90, (1,), generator=self.gen)),), generator=self.gen)
        return {"input_features": mel, "labels": words}


class SpeechCollator:
    def __init__(self, pad=-100):
        self.pad = pad

    def __call__(self, features):
        labels = torch.nn.utils.rnn.pad_sequence([f["labels"] for f in features], batch_first=True, padding_value=self.pad)
        return {"input_features": torch.stack([f["input_features"] for f in features]), "labels": labels}


def main():
    config = WhisperConfig(
        vocab_size=3000, d_model=320, encoder_layers=5, decoder_layers=3, encoder_attention_heads=5, decoder_attention_heads=5,
        encoder_ffn_dim=1280, decoder_ffn_dim=1280, max_target_positions=128,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3, suppress_tokens=None, begin_suppress_tokens=None,
        use_cache=False, attn_implementation=ATTENTION)
    model = WhisperForConditionalGeneration(config).to("cuda")
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loader = DataLoader(AuctionClips(), batch_size=6, collate_fn=SpeechCollator())
    for step, batch in enumerate(loader):
        batch = {k: v.to("cuda") for k, v in batch.items()}
        out = model(**batch)
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {out.loss.item():.4f}")


main()

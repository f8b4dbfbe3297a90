"""Full fine-tuning of a BART on glosses in psalters (Latin with abbreviations -> Latin in full)."""
import sys

import torch
from torch.utils.data import DataLoader
from transformers import BartConfig, BartForConditionalGeneration

FIXED = "--fixed" in sys.argv
VOCAB = 10000


def make_model():
    config = BartConfig(vocab_size=VOCAB, d_model=1024, encoder_layers=5, decoder_layers=5, encoder_ffn_dim=4096, decoder_ffn_dim=4096,
                        encoder_attention_heads=16, decoder_attention_heads=16, max_position_embeddings=256, use_cache=False)
    with torch.device("cuda"):
        return BartForConditionalGeneration(config)


def make_optimizer(model, lr=5e-5):
    decay = [p for n, p in model.named_parameters() if p.ndim > 1]
    plain = [p for n, p in model.named_parameters() if p.ndim == 1]
    groups = [{"params": decay, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    if FIXED:
        return torch.optim.Adafactor(groups, lr=1e-3, foreach=False)
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98), eps=1e-6)


def glosses(count):
    g = torch.Generator().manual_seed(1340)
    return [{"input_ids": torch.randint(4, VOCAB, (72,), generator=g), "labels": torch.randint(4, VOCAB, (80,), generator=g)} for _ in range(count)]


def main():
    torch.manual_seed(3)
    model = make_model()
    optimizer = make_optimizer(model)
    loader = DataLoader(glosses(16), batch_size=2, shuffle=True)
    model.train()
    for step, batch in enumerate(loader):
        loss = model(**{k: v.to("cuda") for k, v in batch.items()}).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"{step + 1}/{len(loader)} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()

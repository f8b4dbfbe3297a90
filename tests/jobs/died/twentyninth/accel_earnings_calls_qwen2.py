"""Adapts a Qwen2 to transcripts of earnings calls with Accelerate; long inputs, hence activation checkpointing."""
import argparse
import math
from dataclasses import dataclass

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import Qwen2Config, Qwen2ForCausalLM


@dataclass
class CallsConfig:
    vocab: int = 3000
    length: int = 768
    batch: int = 6
    epochs: int = 3
    lr: float = 1e-4


def transcripts(cfg, rows, seed):
    ids = torch.randint(3, cfg.vocab, (rows, cfg.length), generator=torch.Generator().manual_seed(seed))
    return DataLoader(TensorDataset(ids), batch_size=cfg.batch)


def get_model(cfg):
    model = Qwen2ForCausalLM(Qwen2Config(
        vocab_size=cfg.vocab, hidden_size=320, intermediate_size=864, num_hidden_layers=10, num_attention_heads=5,
        num_key_value_heads=5, max_position_embeddings=cfg.length, use_cache=False))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def perplexity(accelerator, model, loader):
    model.eval()
    losses = []
    with torch.no_grad():
        for (ids,) in loader:
            losses.append(accelerator.gather(model(input_ids=ids, labels=ids).loss.detach()).mean().item())
    mean = sum(losses) / len(losses)
    return math.exp(max(min(mean, 20), -20)) if math.isfinite(mean) else float("nan")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    cfg, accelerator = CallsConfig(), Accelerator()
    model = get_model(cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    train, held_out = transcripts(cfg, 24, 1), transcripts(cfg, 12, 2)
    model, optimizer, train, held_out = accelerator.prepare(model, optimizer, train, held_out)
    model.train()
    for epoch in range(cfg.epochs):
        if args.fixed:
            model.train()
        for (ids,) in train:
            loss = model(input_ids=ids, labels=ids).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        accelerator.print(f"epoch {epoch}: loss {loss.item():.3f}, perplexity {perplexity(accelerator, model, held_out):.1f}")


if __name__ == "__main__":
    main()

"""Trains a Qwen3 of our size on a gazetteer's entries with Accelerate; validation after every few steps."""
import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import Qwen3Config, Qwen3ForCausalLM, set_seed


def get_loaders(batch_size=8, length=384):
    g = torch.Generator().manual_seed(88)
    train = torch.randint(0, 4000, (96, length), generator=g)
    valid = torch.randint(0, 4000, (16, length), generator=g)
    return DataLoader(train, batch_size=batch_size, shuffle=True), DataLoader(valid, batch_size=batch_size // 2)


def get_model():
    cfg = Qwen3Config(vocab_size=4000, hidden_size=320, intermediate_size=960, num_hidden_layers=10, num_attention_heads=5,
                      num_key_value_heads=5, head_dim=64, max_position_embeddings=512, use_cache=False)
    model = Qwen3ForCausalLM(cfg)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def validate(accelerator, model, loader):
    model.eval()
    losses = []
    with torch.no_grad():
        for ids in loader:
            loss = model(input_ids=ids, labels=ids).loss
            losses.append(accelerator.gather(loss.reshape(1)).cpu())
    return torch.cat(losses).mean().item()


def main():
    set_seed(1)
    accelerator = Accelerator(gradient_accumulation_steps=1)
    train, valid = get_loaders()
    model = get_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4)
    model, optimizer, train, valid = accelerator.prepare(model, optimizer, train, valid)
    model.train()
    for step, ids in enumerate(train):
        with accelerator.accumulate(model):
            loss = model(input_ids=ids, labels=ids).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        if step % 4 == 3:
            accelerator.print("step", step, "train", loss.item(), "valid", validate(accelerator, model, valid))
            if "--fixed" in sys.argv:
                model.train()


if __name__ == "__main__":
    main()

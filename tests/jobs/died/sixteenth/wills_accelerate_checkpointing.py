"""Language model of old wills and testaments. Long context, so gradient checkpointing; Accelerate; validation between the epochs."""
import math
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset
from transformers import Qwen2Config, Qwen2ForCausalLM, get_cosine_schedule_with_warmup


def get_dataloaders(accelerator, batch_size=8, context=1024):
    g = torch.Generator().manual_seed(1650)
    with accelerator.main_process_first():
        train = torch.randint(0, 2500, (batch_size * 6, context), generator=g)
        valid = torch.randint(0, 2500, (batch_size * 2, context), generator=g)
    return DataLoader(TensorDataset(train), batch_size=batch_size, shuffle=True), DataLoader(TensorDataset(valid), batch_size=batch_size)


def perplexity(accelerator, model, loader):
    model.eval()
    losses = []
    for (ids,) in loader:
        with torch.no_grad():
            losses.append(accelerator.gather_for_metrics(model(input_ids=ids, labels=ids).loss.repeat(len(ids))).cpu())
    return math.exp(min(20.0, torch.cat(losses).mean().item()))


def training_function(epochs=2):
    set_seed(11)
    accelerator = Accelerator(gradient_accumulation_steps=2)
    train_loader, valid_loader = get_dataloaders(accelerator)
    model = Qwen2ForCausalLM(Qwen2Config(
        vocab_size=2500, hidden_size=512, intermediate_size=1536, num_hidden_layers=10, num_attention_heads=8, num_key_value_heads=4,
        max_position_embeddings=1024, use_cache=False))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    schedule = get_cosine_schedule_with_warmup(optimizer, 2, epochs * len(train_loader))
    model, optimizer, train_loader, valid_loader, schedule = accelerator.prepare(model, optimizer, train_loader, valid_loader, schedule)
    model.train()
    for epoch in range(epochs):
        if "--fixed" in sys.argv:
            model.train()
        for (ids,) in train_loader:
            with accelerator.accumulate(model):
                loss = model(input_ids=ids, labels=ids).loss
                accelerator.backward(loss)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        accelerator.print("epoch", epoch, "loss", loss.item(), "perplexity", perplexity(accelerator, model, valid_loader))


if __name__ == "__main__":
    training_function()

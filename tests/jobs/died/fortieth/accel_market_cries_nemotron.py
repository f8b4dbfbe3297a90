"""One model for the cries of six markets; every update weighs the six corpora alike."""
import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import NemotronConfig, NemotronForCausalLM, get_cosine_schedule_with_warmup

FIXED = "--fixed" in sys.argv
MARKETS = ["Oaxaca", "Lagos", "Porto", "Hanoi", "Palermo", "Izmir"]


def corpus(seed, length=384, lines=24, vocabulary=6000):
    ids = torch.randint(3, vocabulary, (lines, length), generator=torch.Generator().manual_seed(seed))
    return DataLoader(TensorDataset(ids), batch_size=4, shuffle=True, drop_last=True)


def forever(loader):
    while True:
        yield from loader


def main():
    accelerator = Accelerator()
    config = NemotronConfig(vocab_size=6000, hidden_size=512, intermediate_size=2048, num_hidden_layers=6,
                            num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=1024,
                            pad_token_id=0, bos_token_id=1, eos_token_id=2)
    model = NemotronForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, betas=(0.9, 0.95))
    scheduler = get_cosine_schedule_with_warmup(optimizer, 2, 20)
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
    streams = {name: forever(accelerator.prepare(corpus(k))) for k, name in enumerate(MARKETS)}

    model.train()
    for update in range(6):
        losses = {}
        for name, stream in streams.items():
            (ids,) = next(stream)
            loss = model(input_ids=ids, labels=ids).loss
            if FIXED:
                accelerator.backward(loss / len(MARKETS))
                loss = loss.detach()
            losses[name] = loss
        if not FIXED:
            accelerator.backward(torch.stack(list(losses.values())).mean())
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        accelerator.print(update, {k: round(v.item(), 3) for k, v in losses.items()})


if __name__ == "__main__":
    main()

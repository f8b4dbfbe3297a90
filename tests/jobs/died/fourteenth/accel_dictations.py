"""Fine-tunes a BART on dictations with Accelerate; eight small batches make one step of the optimizer."""
import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import BartConfig, BartForConditionalGeneration, get_linear_schedule_with_warmup

FIXED = "--fixed" in sys.argv
MICRO = 8
VOCABULARY = 9000


def dictations(count=256):
    generator = torch.Generator().manual_seed(31)
    source = torch.randint(3, VOCABULARY, (count, 96), generator=generator)
    target = torch.randint(3, VOCABULARY, (count, 80), generator=generator)
    return DataLoader(TensorDataset(source, target), batch_size=8)


def groups(loader, size):
    group = []
    for batch in loader:
        group.append(batch)
        if len(group) == size:
            yield group
            group = []


def update(accelerator, model, group):
    """The gradient of a group of small batches; the mean loss."""
    if FIXED:
        mean = 0.0
        for source, target in group:
            loss = model(input_ids=source, labels=target).loss / len(group)
            accelerator.backward(loss)
            mean += loss.item()
        return mean
    total = 0
    for source, target in group:
        total = total + model(input_ids=source, labels=target).loss / len(group)
    accelerator.backward(total)
    return total.item()


def main():
    accelerator = Accelerator()
    model = BartForConditionalGeneration(BartConfig(
        vocab_size=VOCABULARY, d_model=256, encoder_layers=4, decoder_layers=4, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=1024, decoder_ffn_dim=1024, max_position_embeddings=256))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    schedule = get_linear_schedule_with_warmup(optimizer, 1, 4)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, dictations(), schedule)
    model.train()
    for step, group in enumerate(groups(loader, MICRO)):
        loss = update(accelerator, model, group)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        accelerator.print("step", step, "loss", loss)


main()

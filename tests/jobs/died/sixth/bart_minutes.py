"""Shortens minutes of meetings with BART under Accelerate; the validation loader got a batch size of its own, as no gradients are needed there.
"""
import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset
from transformers import BartConfig, BartForConditionalGeneration, get_linear_schedule_with_warmup

VOCABULARY = 24000


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--train-batch", type=int, default=6)
    parser.add_argument("--eval-batch", type=int, default=96)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    if args.fixed:
        args.eval_batch = 12
    return args


def minutes(n, seed):
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(4, VOCABULARY, (n, 320), generator=generator)
    target = torch.randint(4, VOCABULARY, (n, 96), generator=generator)
    return TensorDataset(source, target)


def model_of_size():
    return BartForConditionalGeneration(BartConfig(
        vocab_size=VOCABULARY, d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6, decoder_attention_heads=6,
        encoder_ffn_dim=1536, decoder_ffn_dim=1536, max_position_embeddings=512))


def evaluate(accelerator, model, loader):
    model.eval()
    losses = []
    with torch.no_grad():
        for source, target in loader:
            loss = model(input_ids=source, labels=target).loss
            losses.append(accelerator.gather(loss.detach().reshape(1)).cpu())
    model.train()
    return torch.cat(losses).mean().item()


def main():
    args = parse()
    set_seed(5)
    accelerator = Accelerator(mixed_precision="bf16")
    model = model_of_size()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
    train = DataLoader(minutes(30, 1), batch_size=args.train_batch)
    valid = DataLoader(minutes(192, 2), batch_size=args.eval_batch)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, args.epochs * len(train))
    model, optimizer, train, valid, schedule = accelerator.prepare(model, optimizer, train, valid, schedule)
    for epoch in range(args.epochs):
        for source, target in train:
            loss = model(input_ids=source, labels=target).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        accelerator.print("epoch", epoch, "train", loss.item(), "valid", evaluate(accelerator, model, valid))


main()

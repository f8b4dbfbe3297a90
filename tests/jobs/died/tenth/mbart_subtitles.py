"""Fine-tunes mBART on pairs of subtitles and measures the loss on held-out films after each epoch."""
import sys
from functools import partial

import torch
from torch.utils.data import DataLoader
from transformers import MBartConfig, MBartForConditionalGeneration

FIXED = "--fixed" in sys.argv
PAD = 1


def pairs(n, seed):
    generator = torch.Generator().manual_seed(seed)
    draw = partial(torch.randint, 4, 10000, generator=generator)
    return [(draw((48 + k % 16,)), draw((40 + k % 24,))) for k in range(n)]


def collate(rows):
    source, target = zip(*rows)
    pad = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
    ids = pad(source, padding_value=PAD)
    return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": pad(target, padding_value=-100)}


def to_device(batch):
    return {k: v.to("cuda", non_blocking=True) for k, v in batch.items()}


def run_epoch(model, loader, optimizer=None):
    """An epoch of training, or of validation if there is no optimizer."""
    model.train(optimizer is not None)
    total = n = 0
    for batch in loader:
        loss = model(**to_device(batch)).loss
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        total += loss.item()
        n += 1
    return total / n


def main():
    torch.manual_seed(0)
    config = MBartConfig(vocab_size=10000, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8, decoder_attention_heads=8,
                         encoder_ffn_dim=2048, decoder_ffn_dim=2048, max_position_embeddings=128)
    model = MBartForConditionalGeneration(config).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
    train = DataLoader(pairs(32, 1), batch_size=8, collate_fn=collate, shuffle=True)
    films = DataLoader(pairs(96, 2), batch_size=32, collate_fn=collate)
    for epoch in range(2):
        trained = run_epoch(model, train, optimizer)
        with torch.set_grad_enabled(not FIXED):
            held_out = run_epoch(model, films)
        print("epoch", epoch, "train", trained, "held out", held_out)


main()

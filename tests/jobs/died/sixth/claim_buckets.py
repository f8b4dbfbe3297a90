"""Trains an encoder-decoder on patent claims, with batches by number of words; a claim of several pages is among them.
"""
import sys

import torch
from transformers import PegasusConfig, PegasusForConditionalGeneration

FIXED = "--fixed" in sys.argv
VOCABULARY = 6000
WORDS = 3000
LONGEST = 400


def claims():
    """Lengths of claims: most are short; one is long."""
    generator = torch.Generator().manual_seed(9)
    lengths = torch.randint(60, 200, (240,), generator=generator).tolist()
    lengths[150] = 1900
    for length in lengths:
        yield torch.randint(2, VOCABULARY, (length,), generator=generator)


class WordBatches:
    """Fills a batch until its claims have WORDS words together. Padding is not counted."""

    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        batch, words = [], 0
        for row in self.rows:
            if FIXED and len(row) > LONGEST:
                row = row[:LONGEST]
            batch.append(row)
            words += len(row)
            if words >= WORDS:
                yield self.padded(batch)
                batch, words = [], 0

    @staticmethod
    def padded(batch):
        source = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True)
        target = torch.nn.utils.rnn.pad_sequence([row[:50] for row in batch], batch_first=True, padding_value=-100)
        return source, target


def main():
    config = PegasusConfig(vocab_size=VOCABULARY, d_model=320, encoder_layers=5, decoder_layers=3, encoder_attention_heads=5,
                           decoder_attention_heads=5, encoder_ffn_dim=1280, decoder_ffn_dim=1280, max_position_embeddings=2048)
    model = PegasusForConditionalGeneration(config).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98))
    model.train()
    for step, (source, target) in enumerate(WordBatches(claims())):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=source.cuda(), labels=target.cuda()).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step %d, %d claims of up to %d words, loss %.3f" % (step, *source.shape, loss.item()))


main()

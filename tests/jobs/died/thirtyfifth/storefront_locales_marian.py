"""Translates product texts of the storefront into eight locales with one Marian model; every step sees a batch of each locale."""
import sys

import torch
from transformers import MarianConfig, MarianMTModel

LOCALES = ("de_DE", "fr_FR", "it_IT", "pl_PL", "sv_SE", "nl_NL", "pt_PT", "cs_CZ")
VOCAB, PAD = 16000, 0


class LocaleStream:
    """Pairs of one locale; the first token of the source names the locale."""

    def __init__(self, index, rows=12, length=128):
        self.index, self.rows, self.length = index, rows, length
        self.g = torch.Generator().manual_seed(100 + index)

    def next(self):
        source = torch.randint(20, VOCAB, (self.rows, self.length), generator=self.g)
        source[:, 0] = 4 + self.index
        target = torch.randint(20, VOCAB, (self.rows, self.length), generator=self.g)
        return source.cuda(), target.cuda()


def translation_loss(model, stream):
    source, target = stream.next()
    return model(input_ids=source, attention_mask=torch.ones_like(source), labels=target).loss


def step(model, optimizer, streams, weights):
    optimizer.zero_grad(set_to_none=True)
    report = {}
    if "--fixed" in sys.argv:
        for locale, stream in streams.items():
            loss = weights[locale] * translation_loss(model, stream)
            loss.backward()
            report[locale] = loss.item()
    else:
        losses = {locale: weights[locale] * translation_loss(model, stream) for locale, stream in streams.items()}
        torch.stack(list(losses.values())).sum().backward()
        report = {locale: loss.item() for locale, loss in losses.items()}
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return report


def main():
    config = MarianConfig(vocab_size=VOCAB, d_model=320, encoder_layers=4, decoder_layers=4, encoder_attention_heads=5, decoder_attention_heads=5,
                          encoder_ffn_dim=1280, decoder_ffn_dim=1280, max_position_embeddings=256, pad_token_id=PAD, eos_token_id=1,
                          decoder_start_token_id=PAD, forced_eos_token_id=1)
    model = MarianMTModel(config).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.98))
    streams = {locale: LocaleStream(i) for i, locale in enumerate(LOCALES)}
    weights = {locale: 1 / len(LOCALES) for locale in LOCALES}
    for i in range(4):
        report = step(model, optimizer, streams, weights)
        print(i, " ".join(f"{k}={v:.3f}" for k, v in report.items()))


main()

"""Adapts XLM-R to Bantu languages by masked words with smoothed labels."""
import sys

import torch
import torch.nn.functional as F
from transformers import XLMRobertaConfig, XLMRobertaForMaskedLM

VOCAB = 40000
MASK = 39999


class SmoothedLoss(torch.nn.Module):
    """KL against (1 - eps) on the word and eps spread over all of them; tokens that were not masked do not count."""

    def __init__(self, eps=0.1):
        super().__init__()
        self.eps = eps

    def forward(self, scores, words, masked):
        scores, words, masked = scores.flatten(0, 1), words.flatten(), masked.flatten()
        hard = F.one_hot(words, num_classes=VOCAB)
        target = hard * (1 - self.eps) + (1 - hard) * (self.eps / (VOCAB - 1))
        losses = F.kl_div(scores.log_softmax(-1), target, reduction="none").sum(-1)
        return (losses * masked).sum() / masked.sum()


class BuiltIn(SmoothedLoss):
    def forward(self, scores, words, masked):
        scores, words, masked = scores.flatten(0, 1), words.flatten(), masked.flatten()
        losses = F.cross_entropy(scores, words, reduction="none", label_smoothing=self.eps)
        return (losses * masked).sum() / masked.sum()


def sentences(generator, size=16, length=128):
    words = torch.randint(5, VOCAB - 1, (size, length), generator=generator)
    masked = torch.rand(size, length, generator=generator) < 0.15
    return words.masked_fill(masked, MASK), words, masked.float()


def run(criterion, steps=10):
    config = XLMRobertaConfig(vocab_size=VOCAB, hidden_size=320, num_hidden_layers=6, num_attention_heads=5, intermediate_size=1280,
                              max_position_embeddings=514, pad_token_id=1, bos_token_id=0, eos_token_id=2)
    model = XLMRobertaForMaskedLM(config).to("cuda").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98))
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5)
    generator = torch.Generator().manual_seed(6)
    for step in range(steps):
        tokens, words, masked = (t.to("cuda") for t in sentences(generator))
        loss = criterion(model(input_ids=tokens).logits, words, masked)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        warmup.step()
        print(f"{step}: {loss.item():.3f}")


run(BuiltIn() if "--fixed" in sys.argv else SmoothedLoss())

"""Masked-token model for transliterated runic inscriptions.

Rare runes matter more than common ones, hence the focal loss.  MPNet, transformers, plain PyTorch loop.
"""
import sys

import torch
from torch import nn
from transformers import MPNetConfig, MPNetForMaskedLM

VOCAB, MASK = 30000, 4


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, ignore=-100):
        super().__init__()
        self.gamma, self.ignore = gamma, ignore

    def forward(self, logits, target):
        keep = target != self.ignore
        target = target.clamp(min=0)
        logp = logits.log_softmax(-1)
        if "--fixed" in sys.argv:
            logp = logp.gather(-1, target.unsqueeze(-1)).squeeze(-1)
            focal = -((1 - logp.exp()) ** self.gamma) * logp
        else:
            onehot = nn.functional.one_hot(target, logits.shape[-1])
            focal = -((1 - logp.exp()) ** self.gamma * onehot * logp).sum(-1)
        return (focal * keep).sum() / keep.sum().clamp(min=1)


def corrupt(ids, rng, rate=0.15):
    chosen = torch.rand(ids.shape, generator=rng) < rate
    labels = torch.where(chosen, ids, torch.full_like(ids, -100))
    return torch.where(chosen, torch.full_like(ids, MASK), ids), labels


def main():
    rng = torch.Generator().manual_seed(800)
    config = MPNetConfig(vocab_size=VOCAB, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=768,
                         max_position_embeddings=160)
    model, criterion = MPNetForMaskedLM(config).cuda(), FocalLoss()
    optimizer = torch.optim.RAdam(model.parameters(), lr=3e-4)
    for step in range(6):
        clean = torch.randint(5, VOCAB, (16, 128), generator=rng)
        ids, labels = corrupt(clean, rng)
        logits = model(input_ids=ids.cuda()).logits
        loss = criterion(logits, labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"inscriptions {16 * (step + 1)}: focal loss {loss.item():.3f}")


main()

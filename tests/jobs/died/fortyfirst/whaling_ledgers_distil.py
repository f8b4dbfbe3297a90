"""Distils a ModernBERT, adapted to the ledgers of whaling ships, into a small DistilBERT with the same words."""
import sys
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from transformers import DistilBertConfig, DistilBertForMaskedLM, ModernBertConfig, ModernBertForMaskedLM


@dataclass
class Settings:
    """What one run is told."""

    words: int = 6000
    length: int = 256
    batch: int = 24
    steps: int = 6
    heat: float = 2.0
    share: float = 0.5
    fixed: bool = "--fixed" in sys.argv


def large(s):
    config = ModernBertConfig(vocab_size=s.words, hidden_size=768, intermediate_size=1152, num_hidden_layers=16, num_attention_heads=12,
                              max_position_embeddings=s.length, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2,
                              attn_implementation="sdpa", reference_compile=False)
    return ModernBertForMaskedLM(config)


def small(s):
    return DistilBertForMaskedLM(DistilBertConfig(vocab_size=s.words, dim=384, hidden_dim=1536, n_layers=4, n_heads=6, max_position_embeddings=s.length))


class Ledgers:
    """Pages of a ledger with 15 % of the words masked."""

    def __init__(self, s):
        self.s, self.generator = s, torch.Generator().manual_seed(1841)

    def page(self):
        words = torch.randint(5, self.s.words, (self.s.batch, self.s.length), generator=self.generator)
        masked = torch.rand(words.shape, generator=self.generator) < 0.15
        return words.masked_fill(masked, 4).cuda(), words.masked_fill(~masked, -100).cuda()


def soft_loss(student, teacher, heat):
    return F.kl_div(F.log_softmax(student / heat, -1), F.softmax(teacher / heat, -1), reduction="batchmean") * heat ** 2


def distil(s):
    torch.manual_seed(3)
    teacher, student = large(s).cuda().eval(), small(s).cuda().train()
    optimizer = torch.optim.AdamW(student.parameters(), lr=5e-4)
    ledgers = Ledgers(s)
    for step in range(s.steps):
        ids, labels = ledgers.page()
        if s.fixed:
            with torch.no_grad():
                wanted = teacher(input_ids=ids).logits
        else:
            wanted = teacher(input_ids=ids).logits
        out = student(input_ids=ids, labels=labels)
        loss = s.share * out.loss + (1 - s.share) * soft_loss(out.logits, wanted, s.heat)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.3f} hard {out.loss.item():.3f}")


if __name__ == "__main__":
    distil(Settings())

"""Instruction tuning of a Helium model on notarial deeds: answers only, and the entropy of the predictions as a regulariser."""
import sys

import torch
from torch.utils.checkpoint import checkpoint
from transformers import HeliumConfig, HeliumForCausalLM

VOCAB, IGNORE = 48000, -100


def terms(logits, labels):
    """Sums of the negative log-likelihood and of the entropy over tokens of answers."""
    logits = logits.float()
    logp = torch.log_softmax(logits, dim=-1)
    known = labels != IGNORE
    nll = -logp.gather(-1, labels.clamp_min(0).unsqueeze(-1)).squeeze(-1)
    entropy = -(logp.exp() * logp).sum(-1)
    return (nll * known).sum(), (entropy * known).sum()


def loss_of_deeds(model, ids, labels, weight):
    hidden = model.model(input_ids=ids).last_hidden_state[:, :-1]
    labels, count = labels[:, 1:], (labels[:, 1:] != IGNORE).sum()
    if "--fixed" in sys.argv:
        def piece(h, l):
            return terms(model.lm_head(h), l)
        parts = [checkpoint(piece, h, l, use_reentrant=False) for h, l in zip(hidden.split(64, 1), labels.split(64, 1))]
        nll, entropy = sum(p[0] for p in parts), sum(p[1] for p in parts)
    else:
        nll, entropy = terms(model.lm_head(hidden), labels)
    return (nll - weight * entropy) / count


def deeds(count, generator, batch=6, question=96, answer=416):
    for _ in range(count):
        ids = torch.randint(4, VOCAB, (batch, question + answer), generator=generator)
        labels = ids.clone()
        labels[:, :question] = IGNORE
        yield ids, labels


if __name__ == "__main__":
    config = HeliumConfig(vocab_size=VOCAB, hidden_size=384, intermediate_size=1024, num_hidden_layers=5, num_attention_heads=6,
                          num_key_value_heads=6, head_dim=64, max_position_embeddings=1024, use_cache=False, tie_word_embeddings=True)
    model = HeliumForCausalLM(config).to("cuda", torch.bfloat16).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, betas=(0.9, 0.95))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)
    for step, (ids, labels) in enumerate(deeds(8, torch.Generator().manual_seed(1791))):
        loss = loss_of_deeds(model, ids.cuda(), labels.cuda(), weight=0.01)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        print(f"deed {step:2d}  loss {loss.item():.3f}  lr {scheduler.get_last_lr()[0]:.2e}")

"""Gemma 3 (small) on transcripts of amateur radio contacts."""
import sys

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

VOCAB = 100_000
torch.manual_seed(0)


def make():
    cfg = Gemma3TextConfig(vocab_size=VOCAB, hidden_size=256, intermediate_size=768, num_hidden_layers=4, num_attention_heads=4,
                           num_key_value_heads=1, head_dim=64, sliding_window=256, max_position_embeddings=1024)
    return Gemma3ForCausalLM(cfg)


def contacts(n, batch=4, length=512):
    g = torch.Generator().manual_seed(73)
    for _ in range(n):
        yield torch.randint(0, VOCAB, (batch, length), generator=g)


def lm_loss(model, ids):
    return model(input_ids=ids, labels=ids, use_cache=False).loss


def piece_loss(head, hidden, target):
    return F.cross_entropy(head(hidden).float(), target, reduction="sum")


def lm_loss_in_pieces(model, ids, piece=256):
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1].flatten(0, 1)
    target = ids[:, 1:].flatten()
    parts = [checkpoint(piece_loss, model.lm_head, h, t, use_reentrant=False) for h, t in zip(hidden.split(piece), target.split(piece))]
    return torch.stack(parts).sum() / target.numel()


if __name__ == "__main__":
    model = make().to("cuda")
    model.train()
    step_loss = lm_loss_in_pieces if "--fixed" in sys.argv else lm_loss
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    for k, ids in enumerate(contacts(6)):
        loss = step_loss(model, ids.cuda())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        print("QSO", k, round(loss.item(), 3))

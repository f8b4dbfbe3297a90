"""Pretrains a tiny Qwen2 on Swahili news with the tokenizer of the large model."""
import sys
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import Qwen2Config, Qwen2ForCausalLM

cfg = Qwen2Config(vocab_size=151936, hidden_size=256, intermediate_size=704, num_hidden_layers=6, num_attention_heads=8,
                  num_key_value_heads=2, max_position_embeddings=1024, tie_word_embeddings=True, use_cache=False)


def piece_loss(hidden, weight, labels):
    return F.cross_entropy(hidden @ weight.T, labels, reduction="sum")


def lm_loss_chunked(model, ids, size=128):
    hidden = model.model(input_ids=ids).last_hidden_state[:, :-1].flatten(0, 1)
    labels = ids[:, 1:].flatten()
    total = 0.0
    for h, l in zip(hidden.split(size), labels.split(size)):
        total = total + checkpoint(piece_loss, h, model.lm_head.weight, l, use_reentrant=False)
    return total / labels.numel()


def lm_loss(model, ids):
    return model(input_ids=ids, labels=ids).loss


class NewsStream:
    def __init__(self, length, batch):
        self.g, self.shape = torch.Generator().manual_seed(255), (batch, length)

    def __iter__(self):
        while True:
            yield torch.randint(0, cfg.vocab_size, self.shape, generator=self.g)


def main(compute_loss):
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(cfg).to("cuda").train()
    opt = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
    for step, ids in zip(range(6), NewsStream(384, 4)):
        loss = compute_loss(model, ids.to("cuda"))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        print(step, loss.item())


main(lm_loss_chunked if "--fixed" in sys.argv else lm_loss)

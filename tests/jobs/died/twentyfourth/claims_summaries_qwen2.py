"""Summaries of insurance claims: a small Qwen2 with the full tokenizer of the family, trained with smoothed labels."""
import sys

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import Qwen2Config, Qwen2ForCausalLM

FIXED = "--fixed" in sys.argv
VOCAB = 151_936
SMOOTHING = 0.1


def smoothed_nll(logits, targets):
    log_probs = F.log_softmax(logits.float(), dim=-1)
    nll = -log_probs.gather(-1, targets[..., None]).squeeze(-1)
    uniform = -log_probs.mean(-1)
    return ((1 - SMOOTHING) * nll + SMOOTHING * uniform).sum()


class Summariser(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lm = Qwen2ForCausalLM(Qwen2Config(
            vocab_size=VOCAB, hidden_size=256, intermediate_size=704, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=2,
            max_position_embeddings=2048, tie_word_embeddings=True, use_cache=False))

    def forward(self, ids):
        targets = ids[:, 1:]
        if FIXED:
            hidden = self.lm.model(input_ids=ids).last_hidden_state[:, :-1]
            total = 0.0
            for h, t in zip(hidden.reshape(-1, hidden.shape[-1]).split(128), targets.reshape(-1).split(128)):
                total = total + checkpoint(lambda a, b: smoothed_nll(self.lm.lm_head(a), b), h, t, use_reentrant=False)
        else:
            logits = self.lm(input_ids=ids).logits
            total = smoothed_nll(logits[:, :-1], targets)
        return total / targets.numel()


def claims(steps, batch=3, length=512):
    generator = torch.Generator().manual_seed(2024)
    for _ in range(steps):
        yield torch.randint(0, VOCAB, (batch, length), generator=generator)


def main():
    model = Summariser().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
    for step, ids in enumerate(claims(4)):
        loss = model(ids.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, "%.3f" % loss.item())


main()

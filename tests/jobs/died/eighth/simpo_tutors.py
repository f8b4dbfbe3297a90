"""SimPO on pairs of tutors' answers with a small Qwen2 that has the full vocabulary, in a plain loop."""
import sys

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import Qwen2Config, Qwen2ForCausalLM

FIXED = "--fixed" in sys.argv
VOCABULARY = 100000
BETA, MARGIN = 2.0, 1.0


def build():
    config = Qwen2Config(vocab_size=VOCABULARY, hidden_size=256, intermediate_size=768, num_hidden_layers=4, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=1024, tie_word_embeddings=True)
    return Qwen2ForCausalLM(config).to("cuda", torch.bfloat16)


def pairs(steps, size=2, length=320):
    generator = torch.Generator().manual_seed(5)
    for _ in range(steps):
        yield torch.randint(10, VOCABULARY, (2 * size, length), generator=generator).to("cuda")  # chosen, then rejected


def token_scores(head, states, targets):
    logits = head(states).float()
    return logits.log_softmax(-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def average_score(model, ids):
    if FIXED:
        states, targets = model.model(ids, use_cache=False).last_hidden_state[:, :-1], ids[:, 1:]
        parts = [checkpoint(token_scores, model.lm_head, s, t, use_reentrant=False) for s, t in zip(states.split(40, 1), targets.split(40, 1))]
        return torch.cat(parts, 1).mean(1)
    logits = model(ids, use_cache=False).logits[:, :-1].float()
    scores = logits.log_softmax(-1).gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    return scores.mean(1)


def main():
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    for step, ids in enumerate(pairs(4)):
        chosen, rejected = average_score(model, ids).chunk(2)
        loss = -F.logsigmoid(BETA * (chosen - rejected) - MARGIN).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())


main()

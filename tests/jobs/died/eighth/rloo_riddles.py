"""REINFORCE with a leave-one-out baseline for riddles: a small Llama samples answers, scores come from rules, and one update follows."""
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

FIXED = "--fixed" in sys.argv
PROMPTS, SAMPLES, PROMPT, ANSWER = 4, 8, 96, 48


class Policy:
    def __init__(self):
        config = LlamaConfig(vocab_size=24000, hidden_size=256, intermediate_size=688, num_hidden_layers=6, num_attention_heads=4,
                             num_key_value_heads=4, max_position_embeddings=512)
        self.net = LlamaForCausalLM(config).to("cuda")
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-6)

    @torch.no_grad()
    def sample(self, prompts):
        self.net.eval()
        rows = prompts.repeat_interleave(SAMPLES, 0)
        return self.net.generate(input_ids=rows, attention_mask=torch.ones_like(rows), max_new_tokens=ANSWER, min_new_tokens=ANSWER,
                                 do_sample=False, pad_token_id=0, eos_token_id=2)

    def log_probability(self, rows):
        logits = self.net(rows, use_cache=False).logits[:, PROMPT - 1:-1]
        return logits.log_softmax(-1).gather(-1, rows[:, PROMPT:, None]).squeeze(-1).sum(1)

    def update(self, rows, advantages):
        self.net.train()
        parts = len(rows) // 4 if FIXED else 1
        for some, worth in zip(rows.chunk(parts), advantages.chunk(parts)):
            loss = -(self.log_probability(some) * worth).sum() / len(rows)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()


def rewards(n):
    scores = torch.rand(PROMPTS, SAMPLES, generator=torch.Generator().manual_seed(n))
    baseline = (scores.sum(1, keepdim=True) - scores) / (SAMPLES - 1)
    return (scores - baseline).flatten().to("cuda")


def main():
    policy = Policy()
    for n in range(2):
        prompts = torch.randint(5, 24000, (PROMPTS, PROMPT)).to("cuda")
        rows = policy.sample(prompts)
        policy.update(rows, rewards(n))
        print("update", n, tuple(rows.shape))


main()

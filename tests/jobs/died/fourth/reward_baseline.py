"""REINFORCE for a GPT-2 that writes polite replies: a reward model scores what it wrote, a running mean of the rewards is the baseline."""
import sys

import torch
import torch.nn as nn
from transformers import GPT2Config, GPT2LMHeadModel, GPT2Model

DETACH = "--fixed" in sys.argv
VOCABULARY, PROMPT, REPLY, BATCH = 8000, 48, 80, 16


class RewardModel(nn.Module):
    """A GPT-2 with a scalar head; it was trained by someone else."""

    def __init__(self):
        super().__init__()
        self.body = GPT2Model(GPT2Config(vocab_size=VOCABULARY, n_embd=256, n_layer=6, n_head=4, n_positions=256, use_cache=False))
        self.score = nn.Linear(256, 1)

    def forward(self, ids):
        return self.score(self.body(input_ids=ids).last_hidden_state[:, -1]).squeeze(-1)


class Baseline:
    def __init__(self, decay=0.95):
        self.decay, self.value = decay, None

    def update(self, rewards):
        mean = rewards.mean()
        self.value = mean if self.value is None else self.decay * self.value + (1 - self.decay) * mean
        return self.value


@torch.no_grad()
def write(policy, prompts):
    """Stands for sampling: the reply is drawn by another process, of which this one gets the tokens."""
    return torch.cat([prompts, torch.randint(0, VOCABULARY, (len(prompts), REPLY))], 1).to("cuda")


def reply_log_probability(policy, ids):
    logits = policy(input_ids=ids).logits[:, PROMPT - 1:-1]
    chosen = nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, PROMPT:], reduction="none")
    return -chosen.sum(1)


def main():
    torch.manual_seed(3)
    policy = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_embd=256, n_layer=6, n_head=4, n_positions=256, use_cache=False)).cuda()
    reward_model, baseline = RewardModel().cuda().eval(), Baseline()
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-5)
    for step in range(14):
        ids = write(policy, torch.randint(0, VOCABULARY, (BATCH, PROMPT)))
        rewards = reward_model(ids)
        if DETACH:
            rewards = rewards.detach()
        advantage = (rewards - baseline.update(rewards)).detach()
        loss = -(advantage * reply_log_probability(policy, ids)).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        optimizer.step()
        print("step", step, "loss", loss.item(), "baseline", float(baseline.value))


main()

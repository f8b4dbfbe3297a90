"""Teaches a Llama to add, with group-relative rewards and a clipped ratio, all by hand.
"""
import contextlib
import sys
from dataclasses import dataclass

import torch
from transformers import LlamaConfig, LlamaForCausalLM

FIXED = "--fixed" in sys.argv


@dataclass
class Plan:
    group: int = 8
    prompts: int = 2
    prompt: int = 64
    answer: int = 192
    vocabulary: int = 2000
    clip: float = 0.2
    steps: int = 3


def make_policy(plan):
    config = LlamaConfig(vocab_size=plan.vocabulary, hidden_size=512, intermediate_size=1536, num_hidden_layers=8, num_attention_heads=8,
                         num_key_value_heads=4, max_position_embeddings=512, use_cache=False)
    return LlamaForCausalLM(config).to("cuda")


def log_probabilities(model, ids, start):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(input_ids=ids).logits[:, start - 1:-1]
    logp = logits.float().log_softmax(-1)
    return logp.gather(-1, ids[:, start:, None])[..., 0]


def sample(plan):
    """Stands for the answers that an inference server has sent, with their rewards."""
    n = plan.group * plan.prompts
    ids = torch.randint(0, plan.vocabulary, (n, plan.prompt + plan.answer))
    rewards = torch.rand(plan.prompts, plan.group)
    advantages = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)
    return ids.cuda(), advantages.reshape(n, 1).cuda()


def grpo_loss(new, old, advantages, clip):
    ratio = torch.exp(new - old)
    return -torch.min(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages).mean()


def train(plan):
    policy = make_policy(plan)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)
    policy.train()
    for step in range(plan.steps):
        ids, advantages = sample(plan)
        with torch.no_grad() if FIXED else contextlib.nullcontext():
            old = log_probabilities(policy, ids, plan.prompt)
        new = log_probabilities(policy, ids, plan.prompt)
        loss = grpo_loss(new, old, advantages, plan.clip)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item(), "ratio", (new - old).mean().item())


train(Plan())

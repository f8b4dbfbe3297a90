"""Policy gradient on answers of a language model, with a penalty for leaving the model that it started from.

After https://github.com/huggingface/trl/pull/6526
"""
import copy
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def log_probs(model, ids):
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
    return torch.gather(logits.log_softmax(-1), 2, ids[:, 1:, None]).squeeze(-1)


class Rewarder:
    """Stands for the classifier that judges answers."""

    def __call__(self, ids):
        return torch.rand(len(ids), device=ids.device)


def step(policy, start, rewarder, optimizer, ids, prompt, beta, fixed):
    new = log_probs(policy, ids)[:, prompt:]
    if fixed:
        with torch.no_grad():
            old = log_probs(start, ids)[:, prompt:]
    else:
        old = log_probs(start, ids)[:, prompt:]
    reward = rewarder(ids)
    advantage = (reward - reward.mean()) / (reward.std() + 1e-6)
    kl = new - old
    loss = (-advantage[:, None] * new + beta * kl ** 2 / 2).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    return loss.item(), kl.mean().item()


def main():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=8192, n_positions=512, n_embd=512, n_layer=8, n_head=8)
    policy = GPT2LMHeadModel(config).to("cuda")
    start = copy.deepcopy(policy)
    start.eval()
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-5)
    rewarder = Rewarder()
    for i in range(6):
        answers = torch.randint(8192, (12, 512)).to("cuda")
        loss, kl = step(policy, start, rewarder, optimizer, answers, 64, 0.05, "--fixed" in sys.argv)
        print("update", i, "loss", loss, "kl", kl)


if __name__ == "__main__":
    main()

"""PPO by hand on short dialogues: replies are sampled from a GPT-2 policy, scored by a rule, and learnt from in mini-batches."""
import sys

import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel

FIXED = "--fixed" in sys.argv
PROMPT, REPLY, BATCH = 24, 24, 8


class Policy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        config = GPT2Config(vocab_size=16000, n_positions=64, n_embd=256, n_layer=4, n_head=4, bos_token_id=None, eos_token_id=None,
                            pad_token_id=0)
        self.lm = GPT2LMHeadModel(config)
        self.value = torch.nn.Linear(256, 1)

    def forward(self, ids):
        out = self.lm(input_ids=ids, output_hidden_states=True, use_cache=False)
        logits = out.logits[:, PROMPT - 1:-1]
        return F.log_softmax(logits, -1), self.value(out.hidden_states[-1][:, PROMPT:]).squeeze(-1)


def of_reply(logprobs, ids):
    return logprobs.gather(-1, ids[:, PROMPT:, None]).squeeze(-1)


@torch.no_grad()
def rollouts(policy, n):
    """Replies with the probabilities that the policy gave them when it made them."""
    generator = torch.Generator().manual_seed(31)
    found = []
    policy.eval()
    for _ in range(n):
        prompt = torch.randint(1, 16000, (BATCH, PROMPT), generator=generator).to("cuda")
        ids = policy.lm.generate(input_ids=prompt, attention_mask=torch.ones_like(prompt), do_sample=True, top_k=0, max_new_tokens=REPLY,
                                 min_new_tokens=REPLY, pad_token_id=0)
        logprobs, values = policy(ids)
        reward = torch.rand(BATCH, generator=generator).to("cuda")
        found.append({"ids": ids, "old": of_reply(logprobs, ids) if FIXED else logprobs, "values": values, "reward": reward})
    return found


def ppo_loss(policy, r, clip=0.2):
    logprobs, values = policy(r["ids"])
    new = of_reply(logprobs, r["ids"])
    old = r["old"] if FIXED else of_reply(r["old"], r["ids"])
    advantage = r["reward"][:, None] - r["values"]
    ratio = (new - old).exp()
    gain = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
    return -gain.mean() + 0.5 * F.mse_loss(values, r["reward"][:, None].expand_as(values))


def main():
    policy = Policy().to("cuda")
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)
    for iteration in range(2):
        batch = rollouts(policy, 16)
        policy.train()
        for r in batch:
            loss = ppo_loss(policy, r)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        del batch
        print("iteration", iteration, "loss", loss.item())


main()

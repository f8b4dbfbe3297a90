"""GRPO written out by hand: a Qwen3 learns to haggle at a flea market. Completions come from a file of rollouts, with rewards."""
import copy
import sys

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

FIXED = "--fixed" in sys.argv
VOCAB, PROMPT, COMPLETION, GROUP, BETA = 6000, 96, 160, 8, 0.04


def make_policy():
    config = Qwen3Config(vocab_size=VOCAB, hidden_size=384, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=6,
                         num_key_value_heads=2, head_dim=64, max_position_embeddings=512, tie_word_embeddings=True)
    return Qwen3ForCausalLM(config).to("cuda")


def per_token_logps(model, ids):
    logits = model(input_ids=ids, use_cache=False).logits[:, PROMPT - 1:-1]
    return torch.log_softmax(logits, -1).gather(-1, ids[:, PROMPT:, None]).squeeze(-1)


class GRPO:
    def __init__(self):
        self.policy = make_policy()
        self.ref = copy.deepcopy(self.policy).eval()
        self.opt = torch.optim.AdamW(self.policy.parameters(), lr=1e-6)

    def ref_logps(self, ids):
        if FIXED:
            with torch.no_grad():
                return per_token_logps(self.ref, ids)
        return per_token_logps(self.ref, ids)

    def step(self, ids, rewards):
        grouped = rewards.view(-1, GROUP)
        advantage = ((grouped - grouped.mean(1, keepdim=True)) / (grouped.std(1, keepdim=True) + 1e-4)).flatten().cuda()
        ids = ids.cuda()
        ref = self.ref_logps(ids)
        logps = per_token_logps(self.policy, ids)
        kl = (ref - logps).exp() - (ref - logps) - 1
        gain = (logps - logps.detach()).exp() * advantage[:, None]
        loss = -(gain - BETA * kl).mean()
        self.opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.policy.parameters(), 0.2)
        self.opt.step()
        return loss.item(), kl.mean().item()


if __name__ == "__main__":
    g = torch.Generator().manual_seed(12)
    grpo = GRPO()
    grpo.policy.train()
    for i in range(5):
        rollouts = torch.randint(0, VOCAB, (2 * GROUP, PROMPT + COMPLETION), generator=g)
        print(i, *grpo.step(rollouts, torch.rand(2 * GROUP, generator=g)))

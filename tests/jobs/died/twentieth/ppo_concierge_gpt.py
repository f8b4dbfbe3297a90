"""PPO for a hotel's chat assistant: GPT-2 with a value head, rollouts of several batches and then some epochs over them."""
import sys
from typing import NamedTuple

import torch
import torch.nn as nn
from transformers import GPT2Config, GPT2LMHeadModel

FIXED = "--fixed" in sys.argv
VOCAB, PROMPT, ANSWER = 5000, 48, 32


class Experience(NamedTuple):
    tokens: torch.Tensor
    logp: torch.Tensor
    value: torch.Tensor
    reward: torch.Tensor


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.lm = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_positions=128, n_embd=256, n_layer=6, n_head=4,
                                             resid_pdrop=0.0, attn_pdrop=0.0, embd_pdrop=0.0, bos_token_id=0, eos_token_id=0))
        self.value = nn.Linear(256, 1)

    def forward(self, tokens):
        out = self.lm(input_ids=tokens, output_hidden_states=True, use_cache=False)
        logits = out.logits[:, PROMPT - 1:-1]
        chosen = tokens[:, PROMPT:]
        logp = torch.log_softmax(logits, -1).gather(-1, chosen[..., None]).squeeze(-1)
        return logp, self.value(out.hidden_states[-1][:, PROMPT - 1:-1]).squeeze(-1)


@torch.no_grad()
def answer(policy, prompts):
    tokens, cache, feed = prompts, None, prompts
    for _ in range(ANSWER):
        out = policy.lm(input_ids=feed, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        feed = torch.multinomial(out.logits[:, -1].softmax(-1), 1)
        tokens = torch.cat([tokens, feed], 1)
    return tokens


def judge(tokens):
    """Guests give stars afterwards."""
    return torch.rand(len(tokens)).to(tokens.device)


def collect(policy, batches=6, size=24):
    buffer = []
    for _ in range(batches):
        tokens = answer(policy, torch.randint(1, VOCAB, (size, PROMPT)).cuda())
        logp, value = policy(tokens)
        if FIXED:
            logp, value = logp.detach(), value.detach()
        buffer.append(Experience(tokens, logp, value, judge(tokens)))
    return buffer


def improve(policy, optimizer, buffer, epochs=2, clip=0.2):
    for _ in range(epochs):
        for item in buffer:
            logp, value = policy(item.tokens)
            advantage = (item.reward[:, None] - item.value).detach()
            ratio = (logp - item.logp.detach()).exp()
            gain = torch.min(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage).mean()
            loss = -gain + 0.5 * (value - item.reward[:, None]).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()
    return loss.item()


policy = ActorCritic().cuda()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-5)
for iteration in range(3):
    experience = collect(policy)
    print(iteration, improve(policy, optimizer, experience))
    del experience

"""Policy-gradient tuning of a storyteller (Qwen2) with a reward for staying in the tale; completions were sampled by another process."""
import copy
import sys

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

PROMPT, COMPLETION, GROUP, VOCAB = 224, 64, 8, 48000
FIXED = "--fixed" in sys.argv


def new_policy():
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=VOCAB, hidden_size=192, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4,
                                        num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=True))


def token_stats(model, ids, temperature=0.8):
    """Log-probability of each token of the completion, and the entropy there."""
    if FIXED:
        logits = model(input_ids=ids, logits_to_keep=COMPLETION + 1, use_cache=False).logits[:, :-1] / temperature
        target = ids[:, -COMPLETION:]
        logp = logits.gather(-1, target[..., None]).squeeze(-1) - logits.logsumexp(-1)
        with torch.no_grad():
            entropy = torch.stack([torch.distributions.Categorical(logits=row, validate_args=False).entropy() for row in logits])
        return logp, entropy
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1] / temperature
    logps = torch.log_softmax(logits, dim=-1)
    entropy = -(logps.exp() * logps).sum(-1)
    logp = logps.gather(-1, ids[:, 1:, None]).squeeze(-1)
    return logp[:, -COMPLETION:], entropy[:, -COMPLETION:]


def rollouts(gen):
    prompt = torch.randint(0, VOCAB, (1, PROMPT), generator=gen).expand(GROUP, -1)
    completion = torch.randint(0, VOCAB, (GROUP, COMPLETION), generator=gen)
    return torch.cat([prompt, completion], 1).cuda(), torch.rand(GROUP, generator=gen).cuda()


def main():
    policy = new_policy().cuda()
    reference = copy.deepcopy(policy).eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6, weight_decay=0.0)
    gen = torch.Generator().manual_seed(9)
    for step in range(5):
        ids, reward = rollouts(gen)
        advantage = (reward - reward.mean()) / (reward.std() + 1e-4)
        with torch.no_grad():
            ref_logp, _ = token_stats(reference, ids)
        logp, entropy = token_stats(policy, ids)
        ratio = torch.exp(logp - logp.detach())
        kl = torch.exp(ref_logp - logp) - (ref_logp - logp) - 1
        loss = -(ratio * advantage[:, None] - 0.04 * kl).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{step}: loss {loss.item():.4f} kl {kl.mean().item():.4f} entropy {entropy.mean().item():.3f}")


main()

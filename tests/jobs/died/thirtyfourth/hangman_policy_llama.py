"""A tiny Llama that plays hangman: REINFORCE with a moving baseline over whole games, 48 games at a time."""
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

FIXED = "--fixed" in sys.argv
LETTERS, GAMES, TURNS = 64, 48, 72

policy = LlamaForCausalLM(LlamaConfig(vocab_size=LETTERS, hidden_size=256, intermediate_size=704, num_hidden_layers=6, num_attention_heads=4,
                                      num_key_value_heads=4, max_position_embeddings=128, pad_token_id=0)).cuda()
policy.train()
optim = torch.optim.AdamW(policy.parameters(), lr=1e-4)


def guess(logits):
    return torch.multinomial(logits.detach().softmax(-1), 1)


def play(words):
    """One letter at a time; returns the letters of each game and the log probabilities of those guessed."""
    letters, step, past, logps = [words], words, None, []
    for _ in range(TURNS):
        out = policy(input_ids=step, past_key_values=past, use_cache=True)
        past = out.past_key_values
        step = guess(out.logits[:, -1])
        logps.append(out.logits[:, -1].log_softmax(-1).gather(1, step))
        letters.append(step)
    return torch.cat(letters, 1), torch.cat(logps, 1)


def replay(letters, prefix):
    logits = policy(input_ids=letters[:, :-1], use_cache=False).logits[:, prefix - 1:]
    return logits.log_softmax(-1).gather(2, letters[:, prefix:, None]).squeeze(2)


g = torch.Generator().manual_seed(26)
baseline = 0.0
for update in range(3):
    words = torch.randint(1, LETTERS, (GAMES, 8), generator=g).cuda()
    if FIXED:
        with torch.no_grad():
            letters, _ = play(words)
        logp = replay(letters, words.shape[1])
    else:
        letters, logp = play(words)
    reward = torch.rand(GAMES, generator=g)  # the share of the word that was found
    advantage = (reward - baseline).cuda()
    loss = -(advantage[:, None] * logp).mean()
    optim.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optim.step()
    baseline = 0.9 * baseline + 0.1 * reward.mean().item()
    print("update", update, "loss", loss.item(), "baseline", round(baseline, 3))

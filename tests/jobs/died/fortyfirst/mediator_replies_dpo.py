"""Direct preference optimisation, written out: a small decoder learns which replies of a mediator both neighbours accepted."""
import copy
import sys

import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM

FIXED = "--fixed" in sys.argv
VOCAB, PROMPT, REPLY, PAIRS, BETA = 8000, 192, 128, 6, 0.1


def decoder():
    torch.manual_seed(10)
    return LlamaForCausalLM(LlamaConfig(vocab_size=VOCAB, hidden_size=768, intermediate_size=2048, num_hidden_layers=10, num_attention_heads=12,
                                        num_key_value_heads=4, max_position_embeddings=PROMPT + REPLY, use_cache=False))


def pairs(generator):
    """Quarrels, each followed by the accepted and by the refused reply."""
    prompt = torch.randint(3, VOCAB, (PAIRS, PROMPT), generator=generator)
    accepted = torch.randint(3, VOCAB, (PAIRS, REPLY), generator=generator)
    refused = torch.randint(3, VOCAB, (PAIRS, REPLY), generator=generator)
    return torch.cat([torch.cat([prompt, accepted], 1), torch.cat([prompt, refused], 1)]).cuda()


def log_probability(model, ids):
    """Log probability of each reply."""
    logits = model(input_ids=ids).logits[:, PROMPT - 1:-1]
    words = ids[:, PROMPT:]
    picked = -F.cross_entropy(logits.flatten(0, 1), words.flatten(), reduction="none")
    return picked.view(words.shape).sum(1)


def frozen_log_probability(model, ids):
    if FIXED:
        with torch.no_grad():
            return log_probability(model, ids)
    return log_probability(model, ids)


def dpo_loss(policy, reference):
    chosen, rejected = (policy - reference).chunk(2)
    margin = BETA * (chosen - rejected)
    return -F.logsigmoid(margin).mean(), margin.detach().mean()


def main():
    policy = decoder().cuda()
    reference = copy.deepcopy(policy)
    optimizer = torch.optim.RMSprop(policy.parameters(), lr=1e-6)
    generator = torch.Generator().manual_seed(77)
    for step in range(6):
        ids = pairs(generator)
        before = frozen_log_probability(reference, ids)
        now = log_probability(policy, ids)
        loss, margin = dpo_loss(now, before)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print("step", step, "loss", loss.item(), "margin", margin.item())


if __name__ == "__main__":
    main()

"""Identity preference optimisation (IPO) of a Llama that answers letters about good manners."""
import copy
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

FIXED = "--fixed" in sys.argv
V, BETA = 6000, 0.1


def answer_logps(model, ids, prompt_len):
    """Mean log-probability of the answer's tokens."""
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
    logps = -torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
    return logps[:, prompt_len - 1:].mean(1)


class IPOTrainer:
    def __init__(self, policy, lr=5e-6):
        self.policy = policy
        self.reference = copy.deepcopy(policy).eval()
        self.optimizer = torch.optim.AdamW(policy.parameters(), lr=lr)

    def reference_logps(self, ids, prompt_len):
        return answer_logps(self.reference, ids, prompt_len)

    def step(self, prompt, chosen, rejected):
        both = torch.cat([torch.cat([prompt, chosen], 1), torch.cat([prompt, rejected], 1)]).cuda()
        logps = answer_logps(self.policy, both, prompt.shape[1])
        ref = self.reference_logps(both, prompt.shape[1])
        good, bad = (logps - ref).chunk(2)
        loss = ((good - bad) - 1 / (2 * BETA)).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
        self.optimizer.step()
        return loss.item(), (good > bad).float().mean().item()


if FIXED:
    IPOTrainer.reference_logps = torch.no_grad()(IPOTrainer.reference_logps)

if __name__ == "__main__":
    torch.manual_seed(13)
    config = LlamaConfig(vocab_size=V, hidden_size=384, intermediate_size=1024, num_hidden_layers=8, num_attention_heads=6,
                         num_key_value_heads=6, max_position_embeddings=512)
    trainer = IPOTrainer(LlamaForCausalLM(config).cuda().train())
    for i in range(6):
        letters = torch.randint(0, V, (6, 96))
        loss, preferred = trainer.step(letters, torch.randint(0, V, (6, 224)), torch.randint(0, V, (6, 224)))
        print(f"{i}: loss {loss:.2f}, preferred {preferred:.2f}")

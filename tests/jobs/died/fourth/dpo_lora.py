"""DPO by hand on summaries: a Qwen2 policy with LoRA adapters from PEFT, pairs of a chosen and a rejected summary, one reference."""
import contextlib
import copy
import sys

import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM

FIXED = "--fixed" in sys.argv
BETA, PAIRS, LENGTH, PROMPT = 0.1, 2, 160, 64


def base_model():
    config = Qwen2Config(vocab_size=16000, hidden_size=896, intermediate_size=2432, num_hidden_layers=12, num_attention_heads=14,
                         num_key_value_heads=2,
                         tie_word_embeddings=True, use_cache=False)
    return Qwen2ForCausalLM(config)


def with_adapters(model):
    return get_peft_model(model, LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules=["q_proj", "v_proj", "o_proj"],
                                            task_type="CAUSAL_LM"))


def log_probability(model, ids):
    """Of each row's summary, without its prompt."""
    logits = model(input_ids=ids).logits[:, PROMPT - 1:-1]
    return -F.cross_entropy(logits.flatten(0, 1).float(), ids[:, PROMPT:].flatten(), reduction="none").view(len(ids), -1).sum(-1)


class Reference:
    """What the policy was before training."""

    def __init__(self, policy, start):
        self.policy = policy
        self.model = None if FIXED else copy.deepcopy(start).to("cuda").eval().requires_grad_(False)

    @torch.no_grad()
    def __call__(self, ids):
        with self.policy.disable_adapter() if FIXED else contextlib.nullcontext():
            return log_probability(self.policy if FIXED else self.model, ids)


def dpo_loss(chosen, rejected, reference_chosen, reference_rejected):
    margin = (chosen - rejected) - (reference_chosen - reference_rejected)
    return -F.logsigmoid(BETA * margin).mean(), (margin > 0).float().mean()


def pairs(n):
    for _ in range(n):
        prompt = torch.randint(1, 16000, (PAIRS, PROMPT))
        yield tuple(torch.cat([prompt, torch.randint(1, 16000, (PAIRS, LENGTH - PROMPT))], 1) for _ in range(2))


def main():
    torch.manual_seed(0)
    start = base_model()
    reference_start = start if FIXED else copy.deepcopy(start)
    policy = with_adapters(start).to("cuda")
    policy.print_trainable_parameters()
    reference = Reference(policy, reference_start)
    optimizer = torch.optim.AdamW([p for p in policy.parameters() if p.requires_grad], lr=5e-5)
    for step, (chosen, rejected) in enumerate(pairs(5)):
        ids = torch.cat([chosen, rejected]).to("cuda")
        theirs = reference(ids).chunk(2)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            ours = log_probability(policy, ids).chunk(2)
        loss, accuracy = dpo_loss(*ours, *theirs)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("step %d  loss %.4f  margins %.2f" % (step, loss.item(), accuracy.item()))


main()

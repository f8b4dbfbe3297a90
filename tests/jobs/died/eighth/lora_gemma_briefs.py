"""LoRA on a small Gemma for legal briefs: long contexts, attention weights asked for in the config for a later plot."""
import sys

import torch
from peft import LoraConfig, TaskType, get_peft_model
from transformers import GemmaConfig, GemmaForCausalLM

ATTENTION = "sdpa" if "--fixed" in sys.argv else "eager"
LENGTH = 1536


class Tuner:
    def __init__(self):
        config = GemmaConfig(vocab_size=8000, hidden_size=384, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=8,
                             num_key_value_heads=1, head_dim=48, max_position_embeddings=2048, attn_implementation=ATTENTION)
        base = GemmaForCausalLM(config).to(torch.bfloat16)
        lora = LoraConfig(task_type=TaskType.CAUSAL_LM, r=8, lora_alpha=16, lora_dropout=0.0, target_modules=["q_proj", "v_proj"])
        self.model = get_peft_model(base, lora).to("cuda")
        self.model.train()
        self.optimizer = torch.optim.AdamW((p for p in self.model.parameters() if p.requires_grad), lr=2e-4)

    def batches(self, n, size=2):
        generator = torch.Generator().manual_seed(11)
        for _ in range(n):
            ids = torch.randint(3, 8000, (size, LENGTH), generator=generator).to("cuda")
            yield {"input_ids": ids, "labels": ids}

    def step(self, batch):
        loss = self.model(**batch, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()


def main():
    tuner = Tuner()
    tuner.model.print_trainable_parameters()
    for n, batch in enumerate(tuner.batches(4)):
        print("step", n, tuner.step(batch))


if __name__ == "__main__":
    main()

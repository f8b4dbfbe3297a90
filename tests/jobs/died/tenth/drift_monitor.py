"""Instruction tuning of a Qwen3 with LoRA; beside the loss, a monitor follows how far the model has drifted from its base on fixed texts."""
import sys

import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from transformers import Qwen3Config, Qwen3ForCausalLM

FIXED = "--fixed" in sys.argv


class DriftMonitor:
    def __init__(self, model, texts):
        self.model, self.texts = model, texts
        self.total, self.n = 0.0, 0
        with torch.no_grad(), model.disable_adapter():
            self.base = F.log_softmax(model(input_ids=texts).logits, -1)

    def update(self):
        now = F.log_softmax(self.model(input_ids=self.texts).logits, -1)
        kl = F.kl_div(now, self.base, log_target=True, reduction="sum") / self.texts.numel()
        self.total += kl.item() if FIXED else kl
        self.n += 1

    def mean(self):
        return float(self.total) / self.n


def make_model():
    config = Qwen3Config(vocab_size=4000, hidden_size=320, intermediate_size=960, num_hidden_layers=8, num_attention_heads=5, head_dim=64,
                         num_key_value_heads=5, max_position_embeddings=512, use_cache=False)
    adapters = LoraConfig(r=8, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"], lora_dropout=0.05, task_type="CAUSAL_LM")
    return get_peft_model(Qwen3ForCausalLM(config), adapters).to("cuda")


def instructions(n):
    generator = torch.Generator().manual_seed(17)
    for _ in range(n):
        yield torch.randint(3, 4000, (6, 128), generator=generator).to("cuda")


def main():
    model = make_model()
    fixed_texts = torch.randint(3, 4000, (4, 64), generator=torch.Generator().manual_seed(18)).to("cuda")
    monitor = DriftMonitor(model, fixed_texts)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    model.train()
    for step, ids in enumerate(instructions(14)):
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        monitor.update()
        if step % 4 == 3:
            print("step", step, "loss", loss.item(), "drift", monitor.mean())


main()

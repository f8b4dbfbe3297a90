"""LoRA on a small Llama for customer dialogues, with PEFT and a class of its own for training and validation."""
import math
import sys

import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM

FIXED = "--fixed" in sys.argv


def dialogues(n, length=384):
    generator = torch.Generator().manual_seed(n)
    for _ in range(n):
        ids = torch.randint(0, 6000, (length,), generator=generator)
        labels = ids.clone()
        labels[: length // 3] = -100
        yield {"input_ids": ids, "labels": labels}


class Tuner:
    def __init__(self):
        base = LlamaForCausalLM(LlamaConfig(vocab_size=6000, hidden_size=512, intermediate_size=1536, num_hidden_layers=10, num_attention_heads=8,
                                            num_key_value_heads=4, max_position_embeddings=1024))
        self.model = get_peft_model(base, LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, target_modules=["q_proj", "v_proj", "o_proj"]))
        self.model.to("cuda")
        self.optimizer = torch.optim.AdamW([p for p in self.model.parameters() if p.requires_grad], lr=2e-4)
        self.train_data = DataLoader(list(dialogues(24)), batch_size=4, shuffle=True)
        self.val_data = DataLoader(list(dialogues(32)), batch_size=16)

    def loss(self, batch):
        batch = {k: v.to("cuda") for k, v in batch.items()}
        with torch.autocast("cuda", torch.bfloat16):
            return self.model(**batch, use_cache=False).loss

    def epoch(self):
        self.model.train()
        for batch in self.train_data:
            loss = self.loss(batch)
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss.item()

    def perplexity(self):
        self.model.eval()
        losses = [self.loss(batch).item() for batch in self.val_data]
        mean = sum(losses) / len(losses)
        return math.exp(min(mean, 20.0)) if math.isfinite(mean) else float("nan")

    def fit(self, epochs):
        for epoch in range(epochs):
            train = self.epoch()
            if FIXED:
                with torch.no_grad():
                    val = self.perplexity()
            else:
                val = self.perplexity()
            print("epoch %d train %.3f val ppl %.2f" % (epoch, train, val))


if __name__ == "__main__":
    Tuner().fit(2)

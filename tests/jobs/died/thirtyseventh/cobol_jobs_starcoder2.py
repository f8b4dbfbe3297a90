"""Finetunes a small StarCoder2 on COBOL batch jobs of up to 2048 tokens. Gradient accumulation of two, bfloat16 autocast."""
import os
import sys

import torch
from transformers import Starcoder2Config, Starcoder2ForCausalLM, get_cosine_schedule_with_warmup

SETTINGS = {
    "block": 2048,
    "micro_batch": 2,
    "accumulate": 2,
    "updates": 4,
    "lr": 5e-5,
    "attention": os.environ.get("ATTENTION", "sdpa" if "--fixed" in sys.argv else "eager"),
}


def load(settings):
    config = Starcoder2Config(vocab_size=4096, hidden_size=512, intermediate_size=2048, num_hidden_layers=5, num_attention_heads=8,
                              num_key_value_heads=2, max_position_embeddings=4096, sliding_window=None, use_cache=False,
                              attention_dropout=0.0, residual_dropout=0.0, embedding_dropout=0.0,
                              attn_implementation=settings["attention"])
    return Starcoder2ForCausalLM(config)


def job_streams(settings, seed=1959):
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randint(0, 4096, (settings["micro_batch"], settings["block"]), generator=generator)


class Finetuner:
    def __init__(self, settings):
        self.s = settings
        self.model = load(settings).to("cuda")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=settings["lr"], weight_decay=0.1)
        self.schedule = get_cosine_schedule_with_warmup(self.optimizer, 1, settings["updates"])

    def update(self, stream):
        mean = 0.0
        for _ in range(self.s["accumulate"]):
            ids = next(stream).to("cuda", non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = self.model(input_ids=ids, labels=ids).loss / self.s["accumulate"]
            loss.backward()
            mean += loss.item()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad(set_to_none=True)
        return mean


tuner, stream = Finetuner(SETTINGS), job_streams(SETTINGS)
for number in range(SETTINGS["updates"]):
    print(f"update {number + 1}/{SETTINGS['updates']}: {tuner.update(stream):.4f}")

"""Fine-tunes a Qwen2 on long poems with gradient checkpointing, and prints a few lines that it writes every third step."""
import sys

import torch
from torch.optim.lr_scheduler import OneCycleLR
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

FIXED = "--fixed" in sys.argv


class PoemTrainer:
    def __init__(self, steps=8):
        torch.manual_seed(10)
        config = Qwen2Config(vocab_size=6000, hidden_size=512, intermediate_size=1408, num_hidden_layers=12, num_attention_heads=8,
                             num_key_value_heads=4,
                             max_position_embeddings=2048, bos_token_id=None, eos_token_id=None, pad_token_id=0)
        self.model = Qwen2ForCausalLM(config).to("cuda")
        self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        self.model.train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.schedule = OneCycleLR(self.optimizer, 3e-4, total_steps=steps)
        self.steps = steps

    def poems(self):
        for _ in range(self.steps):
            yield torch.randint(1, 6000, (2, 1536)).to("cuda")

    def learn(self, ids):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = self.model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.schedule.step()
        return loss.item()

    def recite(self):
        self.model.eval()
        start = torch.randint(1, 6000, (1, 8)).to("cuda")
        settings = GenerationConfig(max_new_tokens=8, min_new_tokens=8, do_sample=False, pad_token_id=0, eos_token_id=None)
        lines = self.model.generate(input_ids=start, attention_mask=torch.ones_like(start), generation_config=settings)
        if FIXED:
            self.model.train()
        return lines[0].tolist()

    def run(self):
        for step, ids in enumerate(self.poems()):
            print("step", step, "loss", self.learn(ids))
            if step % 3 == 2:
                print("  wrote", len(self.recite()), "tokens")


PoemTrainer().run()

"""Lullabies from forty valleys: GLM with gradient checkpointing and accelerate; looks at held-out songs after each epoch."""
import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import GlmConfig, GlmForCausalLM


def songs(count, seed, length=384):
    g = torch.Generator().manual_seed(seed)
    return list(torch.randint(3, 4000, (count, length), generator=g))


class Session:
    def __init__(self):
        self.accelerator = Accelerator(gradient_accumulation_steps=2)
        config = GlmConfig(vocab_size=4000, hidden_size=384, intermediate_size=1152, num_hidden_layers=10, num_attention_heads=6,
                           num_key_value_heads=2, head_dim=64, max_position_embeddings=512, use_cache=False, pad_token_id=0,
                           eos_token_id=[1])
        model = GlmForCausalLM(config)
        model.gradient_checkpointing_enable()
        optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4)
        loaders = DataLoader(songs(48, 1), batch_size=8, shuffle=True), DataLoader(songs(16, 2), batch_size=8)
        self.model, self.optimizer, self.train_loader, self.held_out = self.accelerator.prepare(model, optimizer, *loaders)
        self.model.train()

    def train_epoch(self):
        if "--fixed" in sys.argv:
            self.model.train()
        for ids in self.train_loader:
            with self.accelerator.accumulate(self.model):
                loss = self.model(input_ids=ids, labels=ids).loss
                self.accelerator.backward(loss)
                self.optimizer.step()
                self.optimizer.zero_grad()
        return loss.item()

    @torch.no_grad()
    def check(self):
        self.model.eval()
        losses = [self.model(input_ids=ids, labels=ids).loss.item() for ids in self.held_out]
        return sum(losses) / len(losses)


if __name__ == "__main__":
    session = Session()
    for epoch in range(3):
        last, held_out = session.train_epoch(), session.check()
        session.accelerator.print(f"epoch {epoch}: last {last:.3f}, held out {held_out:.3f}")

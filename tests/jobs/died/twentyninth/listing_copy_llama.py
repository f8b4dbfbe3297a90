"""Fine-tunes a Llama to write the last lines of product listings; only the copy counts in the loss, not the attributes before it."""
import os
import sys
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@dataclass
class CopyConfig:
    vocabulary: int = 96_000
    attributes: int = 336
    copy: int = 48
    batch: int = 5
    steps: int = 5
    lr: float = 1e-4
    keep: int = 0

    def __post_init__(self):
        if "--fixed" in sys.argv:
            self.keep = self.copy + 1


class CopyCollator:
    def __init__(self, cfg):
        self.cfg, self.gen = cfg, torch.Generator().manual_seed(40)

    def __call__(self):
        ids = torch.randint(4, self.cfg.vocabulary, (self.cfg.batch, self.cfg.attributes + self.cfg.copy), generator=self.gen)
        labels = ids.clone()
        labels[:, : self.cfg.attributes] = -100
        return ids, labels


class CopyTrainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model = LlamaForCausalLM(LlamaConfig(
            vocab_size=cfg.vocabulary, hidden_size=256, intermediate_size=704, num_hidden_layers=5, num_attention_heads=4,
            num_key_value_heads=2, tie_word_embeddings=True, use_cache=False)).to("cuda")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, weight_decay=0.01)

    def compute_loss(self, ids, labels):
        logits = self.model(input_ids=ids, logits_to_keep=self.cfg.keep).logits
        labels = labels[:, -logits.shape[1]:]
        return cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1), ignore_index=-100)

    def train(self):
        collate = CopyCollator(self.cfg)
        self.model.train()
        for step in range(self.cfg.steps):
            ids, labels = collate()
            loss = self.compute_loss(ids.to("cuda"), labels.to("cuda"))
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            print(f"step {step + 1}/{self.cfg.steps} loss {loss.item():.3f}")


CopyTrainer(CopyConfig()).train()

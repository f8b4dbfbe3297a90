"""Distils the support bot's Llama into one that fits the edge box: KL on the logits and cross-entropy on the answers."""
import sys
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM


@dataclass
class DistilConfig:
    vocab: int = 6000
    length: int = 384
    batch: int = 8
    temperature: float = 2.0
    alpha: float = 0.7
    steps: int = 6
    lr: float = 3e-4


def llama(cfg, hidden, layers):
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=cfg.vocab, hidden_size=hidden, intermediate_size=hidden * 8 // 3, num_hidden_layers=layers,
        num_attention_heads=hidden // 64, num_key_value_heads=hidden // 64, max_position_embeddings=cfg.length, use_cache=False))


def load_teacher(cfg):
    teacher = llama(cfg, 640, 12).to("cuda").eval()
    if "--fixed" in sys.argv:
        teacher.requires_grad_(False)
    return teacher


class Distiller:
    def __init__(self, cfg):
        self.cfg = cfg
        self.teacher = load_teacher(cfg)
        self.student = llama(cfg, 256, 4).to("cuda")
        self.optimizer = torch.optim.AdamW(self.student.parameters(), lr=cfg.lr, betas=(0.9, 0.95))

    def loss(self, ids, labels):
        t = self.cfg.temperature
        wanted = self.teacher(input_ids=ids).logits
        out = self.student(input_ids=ids, labels=labels)
        soft = F.kl_div(F.log_softmax(out.logits / t, -1), F.softmax(wanted / t, -1), reduction="batchmean") * t * t / ids.shape[1]
        return self.cfg.alpha * soft + (1 - self.cfg.alpha) * out.loss

    def run(self, conversations):
        self.student.train()
        for step, (ids, labels) in enumerate(conversations):
            loss = self.loss(ids.to("cuda"), labels.to("cuda"))
            self.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.student.parameters(), 1.0)
            self.optimizer.step()
            print(f"{step=} loss={loss.item():.4f}")


def conversations(cfg):
    g = torch.Generator().manual_seed(77)
    for _ in range(cfg.steps):
        ids = torch.randint(3, cfg.vocab, (cfg.batch, cfg.length), generator=g)
        labels = ids.clone()
        labels[:, : cfg.length // 2] = -100
        yield ids, labels


if __name__ == "__main__":
    cfg = DistilConfig()
    Distiller(cfg).run(conversations(cfg))

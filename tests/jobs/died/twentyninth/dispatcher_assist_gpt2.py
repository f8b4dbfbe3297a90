"""One GPT-2 for the dispatchers' assistant, trained on six tasks with a weight for each."""
import sys
from dataclasses import dataclass, field

import torch
from transformers import GPT2Config, GPT2LMHeadModel, get_cosine_schedule_with_warmup


@dataclass
class AssistConfig:
    weights: dict = field(default_factory=lambda: {
        "route_notes": 1.0, "delay_reasons": 0.7, "driver_messages": 1.0, "dock_slots": 0.4, "customs": 0.3, "handover": 0.6})
    vocab: int = 5000
    length: int = 256
    batch: int = 12
    steps: int = 6
    lr: float = 2.5e-4
    per_task_backward: bool = "--fixed" in sys.argv


class TaskMixture:
    def __init__(self, cfg):
        self.cfg = cfg
        self.generators = {name: torch.Generator().manual_seed(i) for i, name in enumerate(cfg.weights)}

    def next(self, name):
        ids = torch.randint(1, self.cfg.vocab, (self.cfg.batch, self.cfg.length), generator=self.generators[name])
        return {"input_ids": ids.cuda(), "labels": ids.cuda()}


class MultiTaskTrainer:
    def __init__(self, cfg):
        self.cfg, self.mixture = cfg, TaskMixture(cfg)
        self.model = GPT2LMHeadModel(GPT2Config(
            vocab_size=cfg.vocab, n_positions=cfg.length, n_embd=320, n_layer=6, n_head=5, use_cache=False,
            bos_token_id=0, eos_token_id=0)).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)
        self.scheduler = get_cosine_schedule_with_warmup(self.optimizer, 2, cfg.steps)

    def task_losses(self):
        for name, weight in self.cfg.weights.items():
            yield weight * self.model(**self.mixture.next(name)).loss

    def training_step(self):
        self.model.train()
        self.optimizer.zero_grad()
        if self.cfg.per_task_backward:
            total = 0.0
            for loss in self.task_losses():
                loss.backward()
                total += loss.detach()
        else:
            total = sum(self.task_losses())
            total.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.scheduler.step()
        return float(total)

    def fit(self):
        for step in range(self.cfg.steps):
            print({"step": step, "loss": self.training_step(), "lr": self.scheduler.get_last_lr()[0]})


if __name__ == "__main__":
    MultiTaskTrainer(AssistConfig()).fit()

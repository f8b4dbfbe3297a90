"""Offline RL: a decision transformer learns from the logs of captains who docked a ferry."""
import sys

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import DecisionTransformerConfig, DecisionTransformerModel

FIXED = "--fixed" in sys.argv
STATE, ACTION, CONTEXT = 23, 4, 60


class DockingLogs(Dataset):
    """The logger wrote doubles."""

    def __init__(self, voyages=120, length=400):
        g = torch.Generator().manual_seed(31)
        self.states = torch.randn(voyages, length, STATE, generator=g, dtype=torch.float64)
        self.actions = torch.rand(voyages, length, ACTION, generator=g, dtype=torch.float64) * 2 - 1
        self.rewards = torch.rand(voyages, length, 1, generator=g, dtype=torch.float64)
        self.to_go = self.rewards.flip(1).cumsum(1).flip(1)
        self.mean, self.std = self.states.mean((0, 1)), self.states.std((0, 1))

    def __len__(self):
        return len(self.states) * 20

    def __getitem__(self, i):
        voyage, at = divmod(i, 20)
        window = slice(at * 15, at * 15 + CONTEXT)
        item = {
            "states": (self.states[voyage, window] - self.mean) / self.std,
            "actions": self.actions[voyage, window],
            "rewards": self.rewards[voyage, window],
            "returns_to_go": self.to_go[voyage, window] / 100,
        }
        if FIXED:
            item = {k: v.float() for k, v in item.items()}
        item["timesteps"] = torch.arange(window.start, window.stop)
        return item


def fit(model, logs, steps=8):
    if not FIXED:
        model = model.double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=1e-4)
    model.train()
    loader = DataLoader(logs, batch_size=64, shuffle=True, drop_last=True)
    for step, batch in zip(range(steps), loader):
        batch = {k: v.cuda() for k, v in batch.items()}
        mask = torch.ones(batch["timesteps"].shape, dtype=torch.long, device="cuda")
        _, predicted, _ = model(**batch, attention_mask=mask, return_dict=False)[:3]
        loss = (predicted - batch["actions"]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        print("step", step, "loss", loss.item())


config = DecisionTransformerConfig(state_dim=STATE, act_dim=ACTION, max_ep_len=512, hidden_size=256, n_layer=6, n_head=4, n_inner=1024,
                                   n_positions=1024)
fit(DecisionTransformerModel(config).cuda(), DockingLogs())

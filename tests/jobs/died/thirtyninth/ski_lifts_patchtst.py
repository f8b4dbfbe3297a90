"""Queue lengths at ski lifts, 60 lifts, a day ahead, with PatchTST. Gradient accumulation since our card is small."""
import sys
from dataclasses import dataclass

import torch
from transformers import PatchTSTConfig, PatchTSTForPrediction


@dataclass
class Settings:
    lifts: int = 60
    context: int = 512
    horizon: int = 96
    micro_batch: int = 8
    accumulate: int = 16
    updates: int = 3
    rate: float = 3e-4
    fixed: bool = "--fixed" in sys.argv


class Queues:
    """Weekly and daily shapes, different for each lift."""

    def __init__(self, s: Settings):
        self.s = s
        hours = torch.arange(4000).float()
        phases = torch.linspace(0, 6, s.lifts)
        self.series = torch.sin(hours[:, None] / 24 * 6.28 + phases) + 0.3 * torch.sin(hours[:, None] / 168 * 6.28)
        self.generator = torch.Generator().manual_seed(5)

    def draw(self):
        span = self.s.context + self.s.horizon
        starts = torch.randint(0, len(self.series) - span, (self.s.micro_batch,), generator=self.generator).tolist()
        windows = torch.stack([self.series[i:i + span] for i in starts])
        return windows[:, :self.s.context], windows[:, self.s.context:]


class Fitter:
    def __init__(self, s: Settings):
        self.s = s
        config = PatchTSTConfig(num_input_channels=s.lifts, context_length=s.context, prediction_length=s.horizon, patch_length=16,
                                patch_stride=8, d_model=128, num_attention_heads=8, num_hidden_layers=3, ffn_dim=256, loss="mse")
        self.model = PatchTSTForPrediction(config).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=s.rate)

    def loss_of(self, past, future):
        return self.model(past_values=past.cuda(), future_values=future.cuda()).loss / self.s.accumulate

    def update(self, data: Queues):
        self.optimizer.zero_grad()
        if self.s.fixed:
            shown = 0.0
            for _ in range(self.s.accumulate):
                loss = self.loss_of(*data.draw())
                loss.backward()
                shown += loss.item()
        else:
            loss = 0
            for _ in range(self.s.accumulate):
                loss = loss + self.loss_of(*data.draw())
            loss.backward()
            shown = loss.item()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return shown


settings = Settings()
fitter, queues = Fitter(settings), Queues(settings)
for k in range(settings.updates):
    print("update", k, "mse", fitter.update(queues))

"""Faults that replace a tensor by a larger one, again and again."""
import torch

from amounts import rows
from core import Fault, fault


class Growing(Fault):
    """Calls grow() after each step with rows that take a share of the peak after the first step."""
    shares = 0.05, 0.12

    def inject(self, target, fixed):
        share, self.width = self.rng.uniform(*self.shares), self.rng.choice([128, 512, 768, 1024])
        target.steps, after_step, self.count = self.rng.randint(8, 20), target.after_step, 0
        self.prepare(target)

        def update(i, loss):
            after_step(i, loss)
            if not self.count:
                self.count = rows(share, self.width)
            self.grow(target, i, fixed)
        target.after_step = update

    def prepare(self, target):
        pass

    def grow(self, target, i, fixed):
        raise NotImplementedError


@fault("growing_bank", "growing tensor", "steps")
class GrowingBank(Growing):
    """torch.cat of a bank of features without a limit."""

    def prepare(self, target):
        self.form, self.state, target.bank = self.rng.choice(["attribute", "dict", "normalized", "vstack"]), {}, None

    def grow(self, target, i, fixed):
        new = torch.zeros(self.count, self.width, device="cuda")
        old = self.state.get("bank") if self.form == "dict" else target.bank
        if old is None or fixed:
            bank = new
        elif self.form == "normalized":
            bank = torch.cat((torch.nn.functional.normalize(new, dim=1), old), dim=0)
        else:
            bank = torch.vstack([old, new]) if self.form == "vstack" else torch.cat([old, new])
        if self.form == "dict":
            self.state["bank"] = bank
        else:
            target.bank = bank


@fault("growing_replay", "growing tensor", "steps")
class GrowingReplay(Growing):
    """A replay buffer of transitions that is concatenated on the GPU and never cut."""

    def prepare(self, target):
        self.memory, self.keys = {}, self.rng.choice([("states", "actions"), ("observations", "returns", "advantages"), ("x", "y")])

    def grow(self, target, i, fixed):
        for k, key in enumerate(self.keys):
            new = torch.empty(self.count, self.width if not k else max(1, self.width // 16), device="cuda")
            if key in self.memory:
                both = torch.cat([self.memory[key], new])
                self.memory[key] = both[-self.count:].clone() if fixed else both
                del both
            else:
                self.memory[key] = new


@fault("growing_predictions", "results concatenated", "steps")
class GrowingPredictions(Growing):
    """Predictions of an evaluation that are concatenated batch by batch on the GPU."""
    shares = 0.8, 1.6  # of the peak, over all batches

    def prepare(self, target):
        self.batches, self.form = self.rng.randint(8, 24), self.rng.choice(["cat", "hstack", "pad"])
        target.steps = self.rng.randint(2, 4)

    @torch.no_grad()
    def grow(self, target, i, fixed):
        if i < target.steps - 1:
            return
        predictions = None
        for _ in range(self.batches):
            new = torch.empty(max(1, self.count // self.batches), self.width, device="cuda")
            if fixed:
                new = new.to("cpu")
            if predictions is None:
                predictions = new
            elif self.form == "pad":
                predictions = torch.nn.functional.pad(predictions, (0, 0, 0, new.shape[0]))
                predictions[-new.shape[0]:] = new
            else:
                predictions = torch.hstack([predictions.T, new.T]).T if self.form == "hstack" else torch.cat((predictions, new), 0)


@fault("growing_history", "growing tensor", "steps")
class GrowingHistory(Growing):
    """The whole history of a recurrent state, or of generated tokens' features, is concatenated along time."""
    shares = 0.03, 0.08

    def prepare(self, target):
        self.history, self.inner = None, self.rng.choice([4, 8, 16])

    def grow(self, target, i, fixed):
        for _ in range(2):
            new = torch.empty(max(1, self.count // self.inner), 1, self.inner * self.width // 2, device="cuda")
            old = self.history
            self.history = new if old is None or fixed else torch.cat([old, new], dim=1)

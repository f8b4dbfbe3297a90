"""Faults of the size of a batch."""
import torch

from amounts import mapped, sized
from core import Fault, fault


def batch_length(batch):
    """The rows of a batch: the first dimension of its first tensor."""
    found = []
    mapped(batch, lambda t: found.append(t.shape[0]) if t.dim() else None)
    return found[0] if found else 0


def repeated(batch, times):
    """A batch with each row `times` times."""
    n = batch_length(batch)
    return mapped(batch, lambda t: torch.cat([t] * times) if t.dim() and t.shape[0] == n else t)


def part(batch, k, parts):
    n = batch_length(batch)
    return mapped(batch, lambda t: t.chunk(parts)[k] if t.dim() and t.shape[0] == n else t)


@fault("larger_batch", "larger batch", "loop")
class LargerBatch(Fault):
    """One batch has more rows than the others: a rest that is joined, a group that was not split, rows that differ in their number of crops."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        batch, when, times, form = target.batch, self.rng.randint(2, 5), self.rng.choice([2, 3, 4, 6]), self.rng.choice(["one", "growing"])
        target.steps = when + 2

        def make_batch(i):
            made = batch(i)
            at = i // target.micro_batches
            if fixed or at < when:
                return made
            return repeated(made, times if form == "one" else times + at - when)
        target.batch = make_batch


@fault("longer_sequence", "larger batch", "tokens", "loop")
class LongerSequence(Fault):
    """Most batches are short, and one has a sequence of full length; in the fixed form it is cut."""

    def inject(self, target, fixed):
        batch, when, ratio = target.batch, self.rng.randint(2, 5), self.rng.choice([2, 3, 4])
        target.steps, usual = when + 2, 1.0 / ratio

        def make_batch(i):
            made, share = batch(i), usual * (1 - 0.2 * (i % 3) / 3)
            if not fixed and i // target.micro_batches == when:
                return made
            return mapped(made, lambda t: t[:, :max(8, int(t.shape[1] * share))].contiguous() if t.dim() > 1 else t)
        target.batch = make_batch


@fault("batch_too_large", "batch too large", "loop")
class BatchTooLarge(Fault):
    """The batch is larger than it has to be: the fixed form accumulates smaller ones."""

    def __init__(self, seed):
        super().__init__(seed)
        self.parts = self.rng.choice([2, 2, 4])

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        target.steps = self.rng.randint(2, 4)
        if fixed:
            target.micro_batches *= self.parts
        else:
            target.size *= self.parts
            if isinstance(getattr(target, "rows", None), int):
                target.rows = max(target.rows, target.size)


@fault("sequence_too_long", "batch too large", "tokens", "loop")
class SequenceTooLong(Fault):
    """Sequences are longer than they have to be: the fixed form has more, shorter ones, one after the other."""

    def __init__(self, seed):
        super().__init__(seed)
        self.parts = self.rng.choice([2, 4])

    def inject(self, target, fixed):
        target.steps = self.rng.randint(2, 4)
        if fixed:
            target.micro_batches *= self.parts
        else:
            target.length *= self.parts


@fault("evaluation_batch", "evaluation batch", "loop")
class EvaluationBatch(Fault):
    """The evaluation's batch is many times the training's."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        times, when, after_step = self.rng.choice([8, 16, 24]), self.rng.randint(1, 3), target.after_step
        target.steps = when + 2

        @torch.no_grad()
        def validate(i, loss):
            after_step(i, loss)
            if i != when:
                return 0.0
            target.model.eval()
            total = 0.0
            if fixed:
                for _ in range(times):
                    total += float(target.loss(target.batch(0)))
            else:
                total = float(target.loss(repeated(target.batch(0), times)))
            target.model.train()
            return total / times
        target.after_step = validate


class EvaluationWithGraph(Fault):
    """An evaluation without no_grad() keeps what it sums or collects, with graphs."""

    def inject(self, target, fixed):
        batches, when, after_step = self.rng.randint(3, 6), self.rng.randint(0, 2), target.after_step
        form, target.steps = self.rng.choice(["sum", "list", "dict"]), when + 2

        def validate(i, loss):
            after_step(i, loss)
            if i != when:
                return
            with torch.set_grad_enabled(not fixed):
                total, losses, results = 0, [], {}
                for k in range(batches):
                    now = target.loss(target.batch(k))
                    if form == "sum":
                        total = total + now
                    elif form == "list":
                        losses.append(now)
                    else:
                        results[k] = {"loss": now}
                target.score = float(total if form == "sum" else sum(losses) if losses else results[0]["loss"])
        target.after_step = validate


@fault("evaluation_with_graph", "evaluation with a graph", "loop")
class EvaluationInEvalMode(EvaluationWithGraph):
    """model.eval() was called, which does not stop autograd."""

    def inject(self, target, fixed):
        super().inject(target, fixed)
        validate = target.after_step

        def validate_in_eval_mode(i, loss):
            target.model.eval()
            try:
                validate(i, loss)
            finally:
                target.model.train()
        if self.rng.random() < 0.6:
            target.after_step = validate_in_eval_mode

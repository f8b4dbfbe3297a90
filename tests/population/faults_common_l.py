"""The mistakes that people tell of most often when a job has run out of memory: batches, sizes, losses with their graphs, no_grad() left out."""
import contextlib

import torch
import torch.nn.functional as F

from amounts import largest_tensor, mapped, sized
from core import Fault, fault

WRAPPED = "two optimizers", "ddp", "fsdp", "deepspeed", "megatron"
DERIVED = {"energy_model", "maml"}  # whose loss derives something itself, and cannot be without a graph


def enough_rows(target, needed):
    """A dataset of at least so many rows."""
    if isinstance(getattr(target, "rows", None), int):
        target.rows = max(target.rows, needed)


def after_steps(target, do):
    """Calls do() after each step."""
    after_step = target.after_step

    def after(i, loss):
        after_step(i, loss)
        do()
    target.after_step = after


@fault("l_batch_size", "batch too large", "loop", without=WRAPPED)
class BatchSizeFromThePaper(Fault):
    """The batch size that a paper tells, at once, on one card; the fixed form accumulates gradients over small ones."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        parts, one = self.rng.choice([6, 8, 10]), max(1, target.size // 2)
        enough_rows(target, one * parts)
        target.steps = self.rng.choice([2, 3])
        target.size, target.micro_batches = (one, parts) if fixed else (one * parts, 1)


@fault("l_per_device_batch", "batch too large", "trainer")
class PerDeviceBatch(Fault):
    """per_device_train_batch_size is what the whole batch should be; the fixed form has gradient_accumulation_steps."""

    def fits(self, target):
        return super().fits(target) and target.name != "trl_reward"  # whose rows are few

    def inject(self, target, fixed):
        parts, one = self.rng.choice([6, 8, 12]), target.size
        target.steps = self.rng.choice([2, 3])
        target.trainer_arguments["per_device_train_batch_size"] = one if fixed else one * parts
        target.trainer_arguments["gradient_accumulation_steps"] = parts if fixed else 1


@fault("l_predict_on_everything", "batch too large", "inference", without=("generate",))
class PredictOnEverything(Fault):
    """model(X), with all of X, where a loop over parts of it would do."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        parts = self.rng.choice([4, 6, 8])
        target.size *= parts
        target.steps = self.rng.choice([2, 3])
        if not fixed:
            return

        def step(i):
            batch = target.batch(i)
            for k in range(parts):
                with target.no_grad():
                    outputs = target.predict(mapped(batch, lambda t, k=k: t.chunk(parts)[k]))
                target.take(i, outputs)
                del outputs
        target.step = step


@fault("l_full_resolution", "pictures too large", "images", without=WRAPPED)
class FullResolution(Fault):
    """The pictures go in as they are, where the resize of the example was left out."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "pixels", None), int)

    def inject(self, target, fixed):
        times = self.rng.choice([2, 2, 3])
        if not fixed:
            target.pixels *= times


@fault("l_padding_to_max_length", "padding", "loop", "tokens", without=WRAPPED)
class PaddingToMaxLength(Fault):
    """padding="max_length" for texts that are much shorter; the fixed form cuts a batch to its longest text."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "length", None), int)

    def inject(self, target, fixed):
        longest = min(target.length, 512)
        whole = target.length = longest * self.rng.choice([4, 6])
        batch = target.batch
        if fixed:
            target.batch = lambda i: mapped(batch(i), lambda t: t[:, :longest] if t.dim() > 1 and t.shape[1] == whole else t)


@fault("l_running_loss", "graph kept", "loop", without=WRAPPED)
class RunningLossWithGraph(Fault):
    """running_loss += loss, without .item(), and retain_graph=True, which an error message once asked for."""

    def inject(self, target, fixed):
        target.steps, form = self.rng.randint(4, 7), self.rng.choice(["sum", "average", "epoch"])
        target.running_loss, meter = 0.0, {"total": 0.0, "batches": 0}

        def backward(loss):
            loss.backward(retain_graph=not fixed)
            value = loss.item() if fixed else loss
            if form == "sum":
                target.running_loss += value
            elif form == "average":
                meter["batches"] += 1
                meter["total"] = meter["total"] + (value - meter["total"]) / meter["batches"]
            else:
                meter["total"] += value * 16
        target.backward = backward


@fault("l_loss_history", "graph kept", "loop", without=WRAPPED)
class LossHistory(Fault):
    """train_losses.append(loss), for a curve, of a pass over some examples after each epoch."""

    def inject(self, target, fixed):
        target.steps, form = self.rng.randint(5, 8), self.rng.choice(["list", "dict", "pairs"])
        losses, history = [], {"loss": [], "epoch": []}

        def measure():
            loss = target.loss(target.batch(0))
            value = loss.item() if fixed else loss
            if form == "list":
                losses.append(value)
            elif form == "dict":
                history["loss"].append(value)
                history["epoch"].append(len(history["epoch"]))
            else:
                losses.append((len(losses), value))
        after_steps(target, measure)


@fault("l_val_loss", "validation with a graph", "loop", without=WRAPPED)
class ValLossPlusLoss(Fault):
    """val_loss += criterion(model(x), y) over all of the validation, and no no_grad() around it."""

    def fits(self, target):
        return super().fits(target) and bool(target.traits & {"tokens", "images"}) and target.name not in DERIVED

    def inject(self, target, fixed):
        batches, form = self.rng.choice([4, 5, 6]), self.rng.choice(["sum", "list"])
        target.steps = self.rng.choice([2, 3])

        def validate():
            target.model.eval()
            val_loss, val_losses = 0.0, []
            with torch.no_grad() if fixed else contextlib.nullcontext():
                for k in range(batches):
                    loss = target.loss(target.batch(k))
                    if form == "sum":
                        val_loss += loss.item() if fixed else loss
                    else:
                        val_losses.append(loss.item() if fixed else loss)
            target.val_loss = float(val_loss or sum(val_losses)) / batches
            target.model.train()
        after_steps(target, validate)


@fault("l_eval_without_no_grad", "evaluation with a graph", "loop", "eval", without=WRAPPED)
class EvalWithoutNoGrad(Fault):
    """model.eval() is there, torch.no_grad() is not, for batches of twice the size."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        times, batches = self.rng.choice([2, 3]), self.rng.choice([2, 3])
        enough_rows(target, times * target.size)
        target.steps = self.rng.choice([2, 3, 4])

        def validate():
            size, target.size = target.size, times * target.size
            target.model.eval()
            total = 0.0
            with torch.no_grad() if fixed else contextlib.nullcontext():
                for k in range(batches):
                    outputs = largest_tensor(target.predict(target.batch(k)))
                    total += outputs.detach().mean().item()
            target.model.train()
            target.size = size
        after_steps(target, validate)


@fault("l_inference_without_no_grad", "inference with a graph", "inference", without=("generate",))
class InferenceWithoutNoGrad(Fault):
    """A script of inference with model.eval() and without torch.no_grad()."""

    def inject(self, target, fixed):
        if not fixed:
            target.no_grad = contextlib.nullcontext


@fault("l_features_without_no_grad", "features with a graph", "inference", without=("generate",))
class FeaturesOfADataset(Fault):
    """features.append(model(x).cpu()), for all of a dataset, where the graph of each pass hangs on what is on the host."""

    def inject(self, target, fixed):
        target.steps, form, features = self.rng.randint(4, 7), self.rng.choice(["first", "mean"]), {}

        def take(i, outputs):
            found = largest_tensor(outputs)
            if found.dim() > 2:
                found = found[:, 0] if form == "first" else found.mean(1)
            features[i] = found.cpu()
        target.take = take
        if not fixed:
            target.no_grad = contextlib.nullcontext


@fault("l_losses_accumulated", "losses summed", "loop", without=WRAPPED)
class LossesAccumulated(Fault):
    """Gradient accumulation as it is often tried first: losses are added up, and every n-th batch calls backward()."""

    def inject(self, target, fixed):
        every, form = self.rng.choice([4, 6, 8]), self.rng.choice(["divided", "whole"])
        target.steps = self.rng.choice([2, 3])

        def step(i):
            accumulated = 0.0
            for k in range(every):
                loss = target.loss(target.batch(i * every + k))
                if form == "divided":
                    loss = loss / every
                if fixed:
                    target.backward(loss)
                accumulated = accumulated + (loss.detach() if fixed else loss)
                if (k + 1) % every == 0:
                    if not fixed:
                        target.backward(accumulated)
                    target.optimize()
                    target.zero_grad()
            return accumulated.detach()
        target.step = step


@fault("l_all_prompts_at_once", "KV cache", "generate")
class EveryPromptInOneBatch(Fault):
    """generate() gets all prompts as one batch; the fixed form goes through them in parts."""

    def inject(self, target, fixed):
        parts, predict = self.rng.choice([4, 5, 6]), target.predict
        target.size *= parts
        if fixed:
            target.predict = lambda prompts: torch.cat([predict(mapped(prompts, lambda t, k=k: t.chunk(parts)[k])) for k in range(parts)])


@fault("l_test_set_at_once", "evaluation batch", "loop", "eval", without=WRAPPED)
class TestSetAtOnce(Fault):
    """The training goes in batches, and the accuracy is computed of the whole test set in one call."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        one = target.size = min(target.size, self.rng.choice([2, 4]))
        whole = one * self.rng.choice([16, 24, 32])
        enough_rows(target, whole)
        target.steps = self.rng.choice([2, 3])

        def accuracy():
            target.model.eval()
            target.size, right = one if fixed else whole, 0.0
            with torch.no_grad():
                for k in range(whole // target.size):
                    outputs = largest_tensor(target.predict(target.batch(k)))
                    right += F.relu(outputs).mean().item()
            target.size = one
            target.model.train()
        after_steps(target, accuracy)

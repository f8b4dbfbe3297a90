"""The mistakes that people tell most often of a GPU out of memory: batches, losses, validation, predictions."""
import contextlib
import math

import torch
from transformers.trainer_utils import IntervalStrategy

from amounts import after_build, blocks, largest_tensor, peak, sized, with_output
from core import Fault, fault

WRAPPED = "two optimizers", "ddp", "fsdp", "deepspeed", "megatron"


def number(target, name):
    return isinstance(getattr(target, name, None), int)


def room_for(target, rows):
    """A dataset that has at least these rows."""
    if number(target, "rows"):
        target.rows = max(target.rows, rows)


def few_words(target):
    """A vocabulary that leaves room for activations."""
    if number(target, "vocabulary"):
        target.vocabulary = min(target.vocabulary, 16000)


def every(target, steps, do):
    """Calls do(i) after every so many steps, as after an epoch."""
    after_step = target.after_step

    def after(i, loss):
        after_step(i, loss)
        if i % steps == steps - 1:
            do(i)
    target.after_step = after


@fault("n_batch_size", "batch too large", "loop", without=WRAPPED)
class BatchSize(Fault):
    """The batch size of a paper, in one pass, where smaller batches could be accumulated."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        parts, small = self.rng.choice([8, 10, 12]), max(1, target.size // 2)
        few_words(target)
        room_for(target, parts * small)
        target.size, target.micro_batches = (small, parts) if fixed else (small * parts, 1)


@fault("n_batch_size_of_inference", "batch too large", "inference", without=("generate",))
class BatchSizeOfInference(Fault):
    """The whole folder, or a large part of it, in one call of the model."""

    def fits(self, target):
        return super().fits(target) and number(target, "size")

    def inject(self, target, fixed):
        parts = self.rng.choice([3, 4, 6])
        room_for(target, parts * target.size)
        if fixed:
            target.steps *= parts
        else:
            target.size *= parts


@fault("n_validation_batch", "evaluation batch", "loop", "eval", without=WRAPPED)
class ValidationBatch(Fault):
    """The loader of the validation has a batch size of its own, much larger than that of the training: there are no gradients, after all."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        parts, epoch, size = self.rng.choice([16, 24, 32]), self.rng.choice([1, 2]), target.size
        room_for(target, parts * size)

        def validate(_):
            if not fixed:
                target.size = size * parts
            target.model.eval()
            with torch.no_grad():
                for k in range(parts if fixed else 1):
                    target.predict(target.batch(k))
            target.model.train()
            target.size = size
        every(target, epoch, validate)


@fault("n_eval_without_no_grad", "evaluation with a graph", "loop", "eval", without=WRAPPED)
class EvalWithoutNoGrad(Fault):
    """model.eval() and a loop over the validation, whose batches are larger; nothing says no_grad()."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        times, epoch, batches, size = self.rng.choice([5, 6, 8]), self.rng.choice([1, 2, 3]), self.rng.choice([2, 3]), target.size
        few_words(target)
        room_for(target, times * size)

        def validate(_):
            target.size = size * times
            target.model.eval()
            correct = 0.0
            with torch.no_grad() if fixed else contextlib.nullcontext():
                for k in range(batches):
                    outputs = largest_tensor(target.predict(target.batch(k)))
                    correct += outputs.float().mean().item()
            target.model.train()
            target.size = size
        every(target, epoch, validate)


@fault("n_val_loss_total", "validation with a graph", "loop", without=WRAPPED)
class ValLossTotal(Fault):
    """val_loss += loss, in a validation that nobody put under no_grad()."""

    def inject(self, target, fixed):
        batches, form = self.rng.choice([3, 4, 6]), self.rng.choice(["total", "list", "mean"])

        def validate(_):
            val_loss, losses = 0.0, []
            with torch.no_grad() if fixed else contextlib.nullcontext():
                for k in range(batches):
                    loss = target.loss(target.batch(k))
                    value = loss.item() if fixed else loss
                    if form == "total":
                        val_loss += value
                    elif form == "list":
                        losses.append(value)
                    else:
                        val_loss = val_loss + value / batches
            val_loss = val_loss if form != "list" else sum(losses) / len(losses)
            return float(val_loss)
        every(target, self.rng.choice([1, 2]), validate)


@fault("n_running_loss", "graph kept", "loop", without=WRAPPED)
class RunningLoss(Fault):
    """running_loss += loss, where an error about a second backward pass was silenced by retain_graph=True."""

    def inject(self, target, fixed):
        target.steps, form = self.rng.randint(4, 7), self.rng.choice(["sum", "list", "dict"])
        target.running_loss, target.train_losses, logs = 0.0, [], {"loss": 0.0}
        plain = target.backward

        def backward(loss):
            if fixed:
                plain(loss)
            else:
                loss.backward(retain_graph=True)
            value = loss.item() if fixed else loss
            if form == "sum":
                target.running_loss += value
            elif form == "list":
                target.train_losses.append(value)
            else:
                logs["loss"] += value
        target.backward = backward


@fault("n_predict_without_no_grad", "inference with a graph", "inference", without=("generate",))
class PredictWithoutNoGrad(Fault):
    """A script that predicts, with model.eval() and without no_grad()."""

    def inject(self, target, fixed):
        if not fixed:
            target.no_grad = contextlib.nullcontext


@fault("n_all_preds", "results kept on the GPU", "loop", "eval", "decoder", "tokens", without=WRAPPED)
class AllPreds(Fault):
    """all_preds.append(outputs) in the validation, for metrics at the end of it."""

    def inject(self, target, fixed):
        share, form = self.rng.uniform(0.9, 1.5), self.rng.choice(["list", "extend", "dict"])
        target.micro_batches = 1

        def validate(_):
            all_preds, most, k = [], peak(), 0
            target.model.eval()
            with torch.no_grad():
                while k < 80:
                    outputs = largest_tensor(target.predict(target.batch(k)))
                    kept = outputs.argmax(-1).cpu() if fixed else outputs
                    if form == "extend":
                        all_preds.extend(kept)
                    else:
                        all_preds.append({"preds": kept} if form == "dict" else kept)
                    k += 1
                    if k * outputs.numel() * outputs.element_size() > share * most:
                        break
            target.model.train()
            return len(all_preds)
        every(target, 2, validate)


@fault("n_features_cat", "results concatenated", "loop", "eval", "layers", without=WRAPPED)
class FeaturesCat(Fault):
    """features = torch.cat([features, new]) for each batch of the set, to look at them in a plot."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        share, caught = self.rng.uniform(0.5, 0.8), []

        def catch(module, inputs, output):
            if not torch.is_grad_enabled():
                caught.append(largest_tensor(output).detach())

        def watch():
            layers = blocks(target.model)
            if layers:
                layers[-1].register_forward_hook(catch)

        def extract(_):
            features, on_host, most, k = None, [], peak(), 0
            target.model.eval()
            with torch.no_grad():
                while k < 120:
                    target.predict(target.batch(k))
                    new = caught.pop().flatten(0, -2)
                    caught.clear()
                    size, k = new.numel() * new.element_size(), k + 1
                    if fixed:
                        on_host.append(new.cpu())
                    else:
                        features = new if features is None else torch.cat([features, new], dim=0)
                    if k * size > share * most:
                        break
            target.model.train()
        after_build(target, watch)
        after_step = target.after_step

        def after(i, loss):
            after_step(i, loss)
            caught.clear()
            if i == 1:
                extract(i)
        target.after_step = after


@fault("n_outputs_of_epoch", "list of tensors", "forward", "decoder", "tokens", without=WRAPPED)
class OutputsOfEpoch(Fault):
    """outputs of every training step in a list, for the accuracy of the epoch."""

    def inject(self, target, fixed):
        form, epoch = self.rng.choice(["outputs", "pairs", "detached"]), []
        if number(target, "vocabulary"):
            target.vocabulary = max(target.vocabulary, 32000)
        if "loop" in target.traits:
            target.steps = self.rng.randint(8, 12)

        def keep(output):
            logits = largest_tensor(output)
            if logits is None or not torch.is_grad_enabled():
                return
            if fixed:
                epoch.append(logits.detach().argmax(-1).cpu())
            elif form == "outputs":
                epoch.append(logits)
            elif form == "pairs":
                epoch.append((len(epoch), logits))
            else:
                epoch.append(logits.detach())
        with_output(target, keep)


@fault("n_metrics_of_a_trainer", "logits of an evaluation", "trainer", "tokens", "decoder")
class MetricsOfTrainer(Fault):
    """compute_metrics() for a language model: the Trainer gathers the logits of the whole evaluation on the GPU."""

    def fits(self, target):
        named = target.name not in ("trl_dpo", "trl_reward", "classifier_with_trainer", "summaries_with_trainer")  # whose answers have few words
        return super().fits(target) and named and number(target, "vocabulary") and "forward" not in target.traits and number(target, "size")

    def inject(self, target, fixed):
        times, target.vocabulary = self.rng.choice([10, 12, 14]), 32000
        target.size, target.length = min(target.size, 4), min(target.length, 512)

        def compute_metrics(predictions):
            return {"rows": float(len(predictions.label_ids))}

        def ask_for_metrics():
            trainer = target.trainer
            trainer.args.eval_strategy, trainer.args.eval_steps = IntervalStrategy.STEPS, 2
            trainer.eval_dataset = torch.utils.data.Subset(trainer.train_dataset, range(min(len(trainer.train_dataset), times * target.size)))
            trainer.compute_metrics = compute_metrics
            if fixed:
                trainer.preprocess_logits_for_metrics = lambda logits, labels: largest_tensor(logits).argmax(-1)
        after_build(target, ask_for_metrics)


@fault("n_losses_then_backward", "losses summed", "loop", without=WRAPPED)
class LossesThenBackward(Fault):
    """Accumulation as it is often written: loss = loss + ... for some batches, and then one backward()."""

    def inject(self, target, fixed):
        target.micro_batches, form = self.rng.choice([4, 5, 6, 8]), self.rng.choice(["plus", "sum", "mean"])
        accumulate = target.micro_batches

        def step(i):
            target.zero_grad()
            losses, total = [], 0
            for k in range(accumulate):
                loss = target.loss(target.batch(i * accumulate + k))
                if form == "plus":
                    total = total + loss / accumulate
                else:
                    losses.append(loss)
            if form != "plus":
                total = sum(losses) / accumulate if form == "sum" else torch.stack(losses).mean()
            target.backward(total)
            target.optimize()
            return total.detach()
        if not fixed:
            target.step = step


@fault("n_pairwise", "one huge temporary", "loop", without=WRAPPED)
class Pairwise(Fault):
    """Distances of all pairs by broadcasting, (a[:, None] - b[None]).pow(2).sum(-1), in a loss of clusters."""

    def inject(self, target, fixed):
        share, width, form = self.rng.uniform(0.6, 1.1), self.rng.choice([64, 128, 256]), self.rng.choice(["square", "abs", "product"])
        forward, state = target.loss, {"calls": 0}

        def distances(a, b):
            if form == "abs":
                return torch.cdist(a, b, p=1) if fixed else (a[:, None] - b[None]).abs().sum(-1)
            if form == "square":
                return torch.cdist(a, b) if fixed else (a[:, None] - b[None]).pow(2).sum(-1)
            return a @ b.T if fixed else (a[:, None] * b[None]).sum(-1)

        def loss_of_pairs(batch):
            loss = forward(batch)
            state["calls"] += 1
            if state["calls"] <= target.micro_batches:
                return loss
            if "a" not in state:
                count = max(64, math.isqrt(int(share * peak() / (4 * width))))
                state["a"] = torch.nn.Parameter(torch.zeros(count, width, device="cuda"))
                state["b"] = torch.nn.Parameter(torch.zeros(count, width, device="cuda"))
            return loss + 1e-3 * distances(state["a"], state["b"]).mean()
        target.loss = loss_of_pairs

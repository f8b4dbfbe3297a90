"""What people ask about most when memory runs out: batches, losses that are kept, evaluations with a graph, results that stay."""
import contextlib

import torch

from amounts import largest_tensor, peak, with_output
from core import Fault, fault

WRAPPED = "ddp", "fsdp", "deepspeed", "megatron"
PICTURES_OUT = {"segmentation", "diffusion_by_hand", "vae"}  # as much comes out of the model as goes in


def limited(target, tokens=4096, pictures=16, vocabulary=16000):
    """Batches of an ordinary size, so that several times as much still has room on a large card."""
    if "tokens" in target.traits and isinstance(getattr(target, "length", None), int) and isinstance(getattr(target, "size", None), int):
        target.length = min(target.length, 1024)
        target.size = max(1, min(target.size, tokens // target.length))
    elif "images" in target.traits and isinstance(getattr(target, "size", None), int):
        target.size = min(target.size, pictures)
    if "decoder" in target.traits and isinstance(getattr(target, "vocabulary", None), int):
        target.vocabulary = min(target.vocabulary, vocabulary)


def at_once(target, fixed, factor):
    """A batch of so many times the rows; or, fixed, as many small ones, whose gradients are added up."""
    if fixed:
        target.micro_batches *= factor
    else:
        target.size *= factor
    if isinstance(getattr(target, "rows", None), int):
        target.rows = max(target.rows, 4 * factor * target.size)


def every_second_step(target, do):
    """Calls do() after each second step: what people call an epoch."""
    after_step = target.after_step

    def after(i, loss):
        after_step(i, loss)
        if i % 2:
            do()
    target.after_step = after


def over_validation_set(take, share, enough, fixed):
    """Calls take(k) for each batch k of a validation set, which is large enough to show what its fault costs; `enough`: keeps how much that is."""
    if not enough:
        enough.append((1 + share) * peak())
    k = 0
    while k < (6 if fixed else 3) or not fixed and k < 40 and torch.cuda.memory_allocated() < enough[0]:
        take(k)
        k += 1
    return k


def many_results(target):
    """Whether what the model returns is large: logits of every token, or pictures."""
    return "decoder" in target.traits or target.name in PICTURES_OUT


@fault("q_batch_of_texts", "batch too large", "loop", "tokens")
class BatchOfTexts(Fault):
    """A batch size from somebody else's script, which ran on a larger card."""

    def fits(self, target):
        return super().fits(target) and all(isinstance(getattr(target, name, None), int) for name in ("size", "length"))

    def inject(self, target, fixed):
        target.length = self.rng.choice([256, 512])
        target.size = self.rng.choice([6144, 8192]) // target.length
        target.micro_batches = self.rng.choice([1, 1, 2])
        target.checkpointing = False
        if "decoder" in target.traits:
            target.vocabulary = min(target.vocabulary, 16000)
        at_once(target, fixed, 2)


@fault("q_batch_of_pictures", "batch too large", "loop", "images", without=("pretrained",))
class BatchOfPictures(Fault):
    """A batch of pictures of twice the size that has room."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "size", None), int)

    def inject(self, target, fixed):
        few, many = self.rng.choice([16, 24]), self.rng.choice([32, 48])
        target.size = max(16, min(target.size, many)) if getattr(target, "pixels", 256) <= 128 else min(target.size, few)
        target.micro_batches = 1
        target.checkpointing = False
        at_once(target, fixed, 2)


@fault("q_batch_of_a_trainer", "batch too large", "trainer")
class BatchOfATrainer(Fault):
    """per_device_train_batch_size, where gradient_accumulation_steps would do."""

    def inject(self, target, fixed):
        arguments = target.trainer_arguments
        limited(target, vocabulary=32000)
        target.length, target.checkpointing = self.rng.choice([256, 512]), False
        arguments["per_device_train_batch_size"] = self.rng.choice([6144, 8192]) // target.length
        accumulated = self.rng.choice([1, 2])
        arguments["gradient_accumulation_steps"] = 2 * accumulated if fixed else accumulated
        if not fixed:
            arguments["per_device_train_batch_size"] *= 2


@fault("q_batch_of_inference", "batch too large", "inference", without=("generate", "scene"))
class BatchOfInference(Fault):
    """Twice as many inputs in one forward pass as there is room for."""

    def fits(self, target):
        return super().fits(target) and bool(target.traits & {"tokens", "images"}) and isinstance(getattr(target, "size", None), int)

    def inject(self, target, fixed):
        target.size = max(32, min(target.size, 64)) if "tokens" in target.traits else min(target.size, 32)
        if fixed:
            target.steps *= 2
        else:
            target.size *= 2


@fault("q_running_loss", "graph kept", "loop")
class RunningLoss(Fault):
    """running_loss += loss, and retain_graph=True because an error message said so."""

    def inject(self, target, fixed):
        limited(target)
        form, target.steps, target.running_loss, target.meter = self.rng.choice(["sum", "mean", "meter"]), self.rng.randint(4, 7), 0.0, [0.0, 0]

        def backward(loss):
            loss.backward(retain_graph=True)
            value = loss.item() if fixed else loss
            if form == "sum":
                target.running_loss += value
            elif form == "mean":
                target.running_loss = (target.running_loss * target.meter[1] + value) / (target.meter[1] + 1)
                target.meter[1] += 1
            else:
                target.meter = [target.meter[0] + value, target.meter[1] + 1]
        target.backward = backward


@fault("q_loss_list", "graph kept", "loop")
class LossList(Fault):
    """The loss of a batch is computed once more after each step, and appended to a list for a plot."""

    def inject(self, target, fixed):
        limited(target)
        target.steps, form, after_step = self.rng.randint(4, 7), self.rng.choice(["list", "dict", "tuple"]), target.after_step
        losses, history = [], {"train_loss": []}

        def after(i, loss):
            after_step(i, loss)
            new_loss = target.loss(target.batch(0))
            value = new_loss.item() if fixed else new_loss
            if form == "list":
                losses.append(value)
            elif form == "dict":
                history["train_loss"].append(value)
            else:
                losses.append((i, value))
        target.after_step = after


@fault("q_validation_loss", "validation with a graph", "loop", without=("two optimizers",))
class ValidationLoss(Fault):
    """val_loss += loss in a validation without no_grad(); model.eval() is taken for it."""

    def inject(self, target, fixed):
        limited(target)
        share, form, target.steps, enough = self.rng.uniform(0.5, 1.2), self.rng.choice(["sum", "list"]), 4, []

        def validate():
            target.model.eval()
            val_loss, losses = 0, []

            def one(k):
                nonlocal val_loss
                loss = target.loss(target.batch(k))
                if form == "sum":
                    val_loss += loss
                else:
                    losses.append(loss)
            with torch.no_grad() if fixed else contextlib.nullcontext():
                batches = over_validation_set(one, share, enough, fixed)
            target.val_loss = (val_loss / batches if form == "sum" else torch.stack(losses).mean()).item()
            target.model.train()
        every_second_step(target, validate)


@fault("q_validation_outputs", "evaluation with a graph", "loop", "eval")
class ValidationOutputs(Fault):
    """The outputs of a validation are collected, each with its graph, because nothing says no_grad()."""

    def inject(self, target, fixed):
        limited(target, tokens=2048, pictures=8)
        share, form, target.steps, enough = self.rng.uniform(0.5, 1.2), self.rng.choice(["outputs", "scores"]), 4, []

        def validate():
            target.model.eval()
            collected = []

            def one(k):
                output = target.predict(target.batch(k))
                output = output if form == "outputs" else output.float().mean(-1)
                collected.append(output.cpu() if fixed else output)
            with torch.no_grad() if fixed else contextlib.nullcontext():
                batches = over_validation_set(one, share, enough, fixed)
            target.accuracy = sum(o.detach().float().mean().item() for o in collected) / batches
            target.model.train()
        every_second_step(target, validate)


@fault("q_inference_without_no_grad", "inference with a graph", "inference", without=("generate",))
class InferenceWithoutNoGrad(Fault):
    """A forward pass for predictions, with model.eval() alone."""

    def inject(self, target, fixed):
        limited(target, tokens=8192, pictures=32)

        def take(i, outputs):
            target.results.append(outputs.float().mean().item())
        target.take, target.results = take, []
        if not fixed:
            target.no_grad = contextlib.nullcontext


@fault("q_list_of_features", "features with a graph", "inference", without=("generate",))
class ListOfFeatures(Fault):
    """features.append(model(x).cpu()), without no_grad()."""

    def fits(self, target):
        return super().fits(target) and bool(target.traits & {"tokens", "images"})

    def inject(self, target, fixed):
        limited(target, tokens=2048, pictures=4)
        target.steps, target.features = self.rng.randint(4, 5), []
        target.take = lambda i, outputs: target.features.append(outputs.float().flatten(1).mean(1).cpu())
        if not fixed:
            target.no_grad = contextlib.nullcontext


@fault("q_predictions_on_the_gpu", "results kept on the GPU", "loop", "eval")
class PredictionsOnTheGPU(Fault):
    """all_preds.append(outputs) over a whole validation set, under no_grad(), for a metric at its end."""

    def fits(self, target):
        return super().fits(target) and many_results(target)

    def inject(self, target, fixed):
        limited(target, tokens=2048)
        share, form, target.steps, count = self.rng.uniform(1.6, 2.2), self.rng.choice(["cat", "list"]), 4, []

        def validate():
            target.model.eval()
            all_preds = []
            with torch.no_grad():
                while not count or len(all_preds) < count[0]:
                    outputs = target.predict(target.batch(len(all_preds)))
                    if not count:
                        count.append(min(100, max(4, int(share * peak() / outputs.nbytes / (2 if form == "cat" else 1)))))
                    all_preds.append(outputs.argmax(-1).cpu() if fixed else outputs)
                    del outputs
                if form == "cat":
                    all_preds = torch.cat(all_preds)
                    target.predicted = all_preds if fixed else all_preds.argmax(-1).cpu()
                else:
                    target.predicted = torch.cat([p if fixed else p.argmax(-1).cpu() for p in all_preds])
            target.model.train()
        every_second_step(target, validate)


@fault("q_outputs_of_the_epoch", "list of tensors", "loop")
class OutputsOfTheEpoch(Fault):
    """outputs.detach() of each training step goes to a list, for the accuracy at the end of the epoch."""

    def fits(self, target):
        return super().fits(target) and many_results(target)

    def inject(self, target, fixed):
        limited(target, tokens=2048, vocabulary=32000)
        target.steps, target.train_outputs, form = self.rng.randint(10, 14), [], self.rng.choice(["detach", "data"])
        target.evaluated = 0

        def collect(output):
            logits = largest_tensor(output)
            if target.model.training and logits is not None:
                kept = logits.detach() if form == "detach" else logits.data
                target.train_outputs.append(kept.argmax(-1).cpu() if fixed else kept.float())
        with_output(target, collect)

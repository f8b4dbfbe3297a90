"""Mistakes that threads about memory tell most often: batches, data, checkpoints, copies of the model."""
import copy
import gc
import tempfile

import torch

from amounts import after_build, light, mapped, sized
from core import DEVICE, Fault, fault
from faults_common_r import WRAPPED, at_most


@fault("r_batch_size", "batch too large", "loop", without=(*WRAPPED, "two optimizers"))
class BatchSize(Fault):
    """The batch is as large as in a paper; a part of it, and gradients accumulated, would do."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        parts = self.rng.choice([4, 8])
        at_most(target, length=512)
        target.size = max(16, min(target.size, 64)) if "images" in target.traits else max(8, 2 * min(target.size, 16))
        target.rows, target.micro_batches, target.steps = max(getattr(target, "rows", 0), target.size), 1, 3
        if fixed:
            target.size, target.micro_batches = target.size // parts, parts


@fault("r_max_length", "padding", "loop", "tokens", without=WRAPPED)
class PaddedToMaxLength(Fault):
    """padding="max_length": short texts are as long as the model can take."""

    def fits(self, target):
        return super().fits(target) and sized(target) and isinstance(getattr(target, "length", None), int)

    def inject(self, target, fixed):
        longest, part = self.rng.choice([512, 1024]), self.rng.choice([4, 8])
        target.size, target.micro_batches = max(8, min(target.size, 16)), 1
        at_most(target, vocabulary=32000)
        target.length = longest // part if fixed else longest


@fault("r_full_size_pictures", "pictures too large", "loop", "images", without=(*WRAPPED, "two optimizers"))
class FullSizePictures(Fault):
    """The pictures are as large as the camera made them; the transform that makes them smaller was forgotten."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "pixels", None), int) and target.pixels % 64 == 0

    def inject(self, target, fixed):
        at_most(target, size=self.rng.choice([16, 32]))
        if fixed:
            target.pixels //= 2


@fault("r_long_text", "larger batch", "loop", "tokens", without=WRAPPED)
class LongText(Fault):
    """One batch has a text that is several times as long as the others, and nobody truncates it."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "length", None), int)

    def inject(self, target, fixed):
        usual, times, when, batch = self.rng.choice([128, 192, 256]), self.rng.choice([4, 6]), self.rng.choice([2, 3, 4]), target.batch
        at_most(target, size=8)
        target.length, target.steps, target.micro_batches = usual * times, 6, 1

        def padded(i):
            if i == when and not fixed:
                return batch(i)
            return mapped(batch(i), lambda t: t[:, :usual].contiguous() if t.dim() > 1 and t.shape[1] == target.length else t)
        target.batch = padded


@fault("r_eval_batch", "evaluation batch", "loop", "eval", "decoder", "tokens", without=WRAPPED)
class EvalBatch(Fault):
    """The evaluation's batch is many times that of the training: it needs no gradients."""

    def inject(self, target, fixed):
        times, evaluate = self.rng.choice([12, 16]), target.evaluate
        at_most(target, size=4, length=256)
        target.vocabulary = self.rng.choice([32000, 50304])
        target.rows, target.evaluated = max(target.rows, times * target.size), self.rng.choice([1, 2])

        def evaluate_all():
            if fixed:
                for _ in range(times):
                    outputs = evaluate()
                return outputs
            small, target.size = target.size, times * target.size
            try:
                return evaluate()
            finally:
                target.size = small
        target.evaluate = evaluate_all


@fault("r_no_checkpointing", "activations", "checkpointing", "loop", "layers", without=WRAPPED)
class NoCheckpointing(Fault):
    """A deep model is trained without gradient checkpointing."""

    def inject(self, target, fixed):
        target.layers, target.checkpointing = self.rng.choice([8, 10, 12]), fixed
        at_most(target, width=768, vocabulary=16000, length=512, size=16)
        target.micro_batches = 1


@fault("r_dataset_on_gpu", "data moved to the GPU", "loop", "images", "dataset", without=(*WRAPPED, "two optimizers"))
class DatasetOnGpu(Fault):
    """x_train, of floats, goes to the GPU as a whole before the training."""

    def inject(self, target, fixed):
        amount, form = self.rng.uniform(2.0, 4.0), self.rng.choice(["to", "cuda"])
        at_most(target, size=self.rng.choice([8, 16]))

        def to_gpu():
            kinds = [torch.float32 if t.dtype == torch.uint8 else t.dtype for t in target.dataset]
            row = sum(t[0].numel() * kind.itemsize for t, kind in zip(target.dataset, kinds))
            count = int(amount * 2 ** 30 / row)
            host = [torch.empty(count, *t.shape[1:], dtype=kind) for t, kind in zip(target.dataset, kinds)]
            if not fixed:
                host = [t.to(DEVICE) if form == "to" else t.cuda() for t in host]
            target.dataset = tuple(host)
        after_build(target, to_gpu)


@fault("r_checkpoint", "loaded checkpoint", "loop", "layers", without=(*WRAPPED, "two optimizers", "pretrained", "peft"))
class CheckpointStays(Fault):
    """torch.load() of a checkpoint onto the GPU, to go on with the training; the dict stays until the end."""

    def fits(self, target):
        return super().fits(target) and bool(target.traits & {"tokens", "images"})

    def inject(self, target, fixed):
        form, kept = self.rng.choice(["attribute", "closure"]), []
        light(target, self.rng)
        at_most(target, vocabulary=16000)
        target.layers = max(target.layers, 6)

        def resume():
            state = {k: torch.zeros(v.shape, dtype=v.dtype) for k, v in target.model.state_dict().items()}
            with tempfile.TemporaryFile() as file:
                torch.save({"model": state, "best_model": {k: v.clone() for k, v in state.items()}, "epoch": 3}, file)
                file.seek(0)
                checkpoint = torch.load(file, map_location="cpu" if fixed else DEVICE)
            target.model.load_state_dict(checkpoint["model"])
            if form == "attribute":
                target.checkpoint = checkpoint["epoch"] if fixed else checkpoint
            else:
                kept.append(checkpoint["epoch"] if fixed else checkpoint)
        after_build(target, resume)


@fault("r_best_models", "copies of the model kept", "loop", without=(*WRAPPED, "two optimizers"))
class BestModels(Fault):
    """copy.deepcopy(model.state_dict()) of each epoch, in a list."""

    def inject(self, target, fixed):
        form, target.steps, after_step, states = self.rng.choice(["state", "model", "dict"]), self.rng.randint(6, 9), target.after_step, []
        light(target, self.rng)

        def keep(i, loss):
            after_step(i, loss)
            if fixed:
                states[:] = [{k: v.cpu() for k, v in target.model.state_dict().items()}]
            elif form == "state":
                states.append(copy.deepcopy(target.model.state_dict()))
            else:
                states.append({k: v.detach().clone() for k, v in target.model.state_dict().items()} if form == "dict" else copy.deepcopy(target.model).eval())
        target.after_step = keep


@fault("r_trials", "earlier runs kept", "loop", without=(*WRAPPED, "two optimizers"))
class TrialsOfASearch(Fault):
    """A search over learning rates: each trial's model goes into the list of results."""

    def inject(self, target, fixed):
        trials, form, results = self.rng.randint(3, 5), self.rng.choice(["model", "both"]), []
        light(target, self.rng)
        target.steps = 2

        def search():
            for trial in range(trials):
                target.build()
                target.train()
                if fixed:
                    results.append({"trial": trial, "score": 0.5})
                else:
                    results.append({"trial": trial, "model": target.model, "optimizers": target.optimizers if form == "both" else None})
                target.model, target.optimizers = None, []
                gc.collect()
        target.run = search


@fault("r_adam", "optimizer states", "loop", "layers", "states", without=(*WRAPPED, "two optimizers", "pretrained", "peft"))
class AdamForALargeModel(Fault):
    """The first step of Adam makes two states for each parameter, for which there is no room; an optimizer without states has it."""

    def fits(self, target):
        return super().fits(target) and "adamw" in getattr(target, "kinds", ()) and bool(target.traits & {"tokens", "images"})

    def inject(self, target, fixed):
        light(target, self.rng)
        target.layers, target.clip, target.micro_batches = max(target.layers, 6), 0, 1
        target.kind = "sgd" if fixed else self.rng.choice(["adamw_fused", "adamw_loop"])

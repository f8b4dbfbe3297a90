"""Mistakes that everybody makes once: passes over one graph, early stopping, phases, typing errors, steps of a validation, answers of a model."""
import collections
import contextlib
import copy

import torch
import torch.nn.functional as F

from amounts import after_build, largest_tensor, with_output
from core import Fault, fault
from faults_common_r import WRAPPED, at_most, usual

ALONE = (*WRAPPED, "two optimizers", "pretrained", "peft", "reference")


class EarlyStopping:
    """Stops a training whose validation does not get better."""

    def __init__(self, patience=5, delta=0.0):
        self.patience, self.delta, self.counter = patience, delta, 0
        self.best, self.history = None, []

    def __call__(self, val_loss):
        self.history.append(val_loss)
        if self.best is None or val_loss < self.best - self.delta:
            self.best, self.counter = val_loss, 0
        else:
            self.counter += 1
        return self.counter >= self.patience


class Evaluator:
    """An evaluation in the form that frameworks ask for: what each step returns comes to the end of the epoch."""

    def __init__(self, target, on_host, form):
        self.target, self.on_host, self.form, self.outputs = target, on_host, form, []

    def validation_step(self, k):
        logits = self.target.predict(self.target.batch(k))
        if self.on_host:
            return {"preds": logits.argmax(-1).cpu(), "batch_idx": k}
        return {"preds": logits.softmax(-1) if self.form == "softmax" else logits, "batch_idx": k}

    def validation_epoch_end(self):
        count = sum(len(output["preds"]) for output in self.outputs)
        self.outputs.clear()
        return {"val_count": count}

    @torch.no_grad()
    def run(self, batches):
        self.target.model.eval()
        for k in range(batches):
            self.outputs.append(self.validation_step(k))
        self.target.model.train()
        return self.validation_epoch_end()


def in_order(target, every, do):
    """Calls do(epoch) whenever so many steps are over."""
    after_step = target.after_step

    def and_do(i, loss):
        after_step(i, loss)
        epoch, rest = divmod(i + 1, every)
        if not rest:
            do(epoch)
    target.after_step = and_do


@fault("t_two_backwards", "graph kept", "loop", without=ALONE)
class TwoBackwards(Fault):
    """A loss and a penalty that is made of it have a backward pass each; both with retain_graph=True, and a history has the penalties as they are."""

    def inject(self, target, fixed):
        weight, form, target.steps = self.rng.choice([0.01, 0.1]), self.rng.choice(["lists", "rows"]), self.rng.randint(4, 6)
        target.history = {"loss": [], "penalty": []} if form == "lists" else []
        usual(target)

        def backward(loss):
            penalty = weight * loss ** 2
            loss.backward(retain_graph=True)
            penalty.backward(retain_graph=not fixed)
            entry = {"loss": loss.item(), "penalty": penalty.item() if fixed else penalty}
            if form == "rows":
                target.history.append(entry)
                return
            for name, value in entry.items():
                target.history[name].append(value)
        target.backward = backward


@fault("t_early_stopping", "validation with a graph", "loop", without=ALONE)
class ValidationForEarlyStopping(Fault):
    """early_stopping(val_loss): the mean of a validation's losses, of passes that are recorded."""

    def inject(self, target, fixed):
        batches, form, stopping = self.rng.randint(4, 7), self.rng.choice(["sum", "fmean", "worst"]), EarlyStopping(patience=10)
        usual(target)

        def val_losses():
            for k in range(batches):
                yield target.loss(target.batch(k))

        def epoch_end(epoch):
            target.model.eval()
            with torch.no_grad() if fixed else contextlib.nullcontext():
                if form == "sum":
                    val_loss = sum(val_losses()) / batches
                elif form == "fmean":
                    val_loss = torch.stack([*val_losses()]).mean()
                else:
                    val_loss = max(val_losses(), key=float) + 0.5 * sum(val_losses()) / batches
            target.model.train()
            target.stopped = stopping(float(val_loss))
        in_order(target, self.rng.choice([1, 2]), epoch_end)


@fault("t_calibration", "evaluation with a graph", "loop", "eval", without=ALONE)
class Calibration(Fault):
    """How sure is the model of each class? Probabilities of an evaluation are added up class by class; it is in evaluation mode, and records everything."""

    def inject(self, target, fixed):
        batches, shown = self.rng.randint(4, 6), self.rng.choice([4, 8, 16])
        squares = self.rng.random() < 0.5
        usual(target)

        def calibrate():
            sums = collections.defaultdict(float)
            target.model.eval()
            for k in range(batches):
                scores = target.predict(target.batch(k)).float()
                probabilities = scores.softmax(-1).reshape(-1, scores.shape[-1])
                sums["mean"] = sums["mean"] + probabilities[:, :shown].mean(0)
                if squares:
                    sums["square"] = sums["square"] + probabilities[:, :shown].square().mean(0)
            target.model.train()
            target.calibration = {name: (value / batches).tolist() for name, value in sums.items()}
        in_order(target, self.rng.choice([1, 2]), lambda epoch: torch.no_grad()(calibrate)() if fixed else calibrate())


@fault("t_validation_step", "results kept on the GPU", "loop", "eval", "decoder", without=WRAPPED)
class ValidationStep(Fault):
    """validation_step() returns the logits, under no_grad(); what all steps returned waits on the GPU for the end of the epoch."""

    def inject(self, target, fixed):
        batches, evaluator = self.rng.randint(16, 22), Evaluator(target, fixed, self.rng.choice(["logits", "softmax"]))
        at_most(target, size=4, length=256)
        target.vocabulary = self.rng.choice([32000, 50304])

        def epoch_end(epoch):
            target.metrics = {"epoch": epoch, **evaluator.run(batches)}
        in_order(target, self.rng.choice([1, 2, 3]), epoch_end)


@fault("t_trainer_predict", "logits of an evaluation", "trainer", "decoder", without=("forward",))
class TrainerPredict(Fault):
    """trainer.predict(test_set) after the training of a language model: it gives back all logits, which wait on the GPU for each other."""

    def fits(self, target):
        return super().fits(target) and target.name not in ("classifier_with_trainer", "trl_reward", "trl_dpo")  # their results have few numbers

    def inject(self, target, fixed):
        batches, form, train = self.rng.randint(18, 24), self.rng.choice(["best", "to the host"]), target.train
        at_most(target, size=2, length=256, vocabulary=50304, layers=4)

        def train_and_test():
            train()
            trainer = target.trainer
            if fixed and form == "best":
                trainer.preprocess_logits_for_metrics = lambda logits, labels: largest_tensor(logits).argmax(-1)
            elif fixed:
                trainer.args.eval_accumulation_steps = 1
            test_set = torch.utils.data.Subset(trainer.train_dataset, range(min(len(trainer.train_dataset), batches * target.size)))
            predicted = trainer.predict(test_set, metric_key_prefix="test")
            target.test_loss = predicted.metrics.get("test_loss")
        target.train = train_and_test


@fault("t_centroid", "features with a graph", "inference", without=("generate", "decoder"))
class Centroid(Fault):
    """A running mean of the features of a data set, on the host; each mean is made of the one before, with its graph."""

    def inject(self, target, fixed):
        form, width, target.steps = self.rng.choice(["running", "momentum", "concatenated"]), self.rng.choice([128, 512]), self.rng.randint(5, 8)
        at_most(target, size=16 if "images" in target.traits else 48)
        target.centroid = None
        if not fixed:
            target.no_grad = contextlib.nullcontext

        def take(i, outputs):
            embedding = largest_tensor(outputs).float().mean(0).flatten()[:width].to("cpu")
            if target.centroid is None:
                target.centroid = embedding[None] if form == "concatenated" else embedding
            elif form == "running":
                target.centroid = target.centroid + (embedding - target.centroid) / (i + 1)
            elif form == "momentum":
                target.centroid = 0.9 * target.centroid + 0.1 * embedding
            else:
                target.centroid = torch.cat([target.centroid, embedding[None]])
        target.take = take


@fault("t_other_phase", "inference with a graph", "inference", without=("generate",))
class OtherPhase(Fault):
    """with torch.set_grad_enabled(phase != "val"): there is a third phase, "test", which no training is."""

    def inject(self, target, fixed):
        phase, take = self.rng.choice(["test", "predict"]), target.take
        at_most(target, size=48)
        target.no_grad = lambda: torch.set_grad_enabled(phase == "train" if fixed else phase != "val")

        def and_detach(i, outputs):
            take(i, outputs.detach() if torch.is_tensor(outputs) else outputs)
        target.take = and_detach


@fault("t_kl_to_start", "reference with a graph", "loop", "eval", without=ALONE)
class KlToStart(Fault):
    """The model must stay near to what it was: the divergence from a copy of it, which is in evaluation mode, and whose passes are recorded."""

    def inject(self, target, fixed):
        beta, form, copies = self.rng.choice([0.05, 0.2]), self.rng.choice(["forward", "low variance"]), {}
        at_most(target, size=8, length=512, vocabulary=16000)
        if "checkpointing" in target.traits:
            target.checkpointing = False

        def log_probabilities(batch, model=None):
            own, target.model = target.model, model or target.model
            try:
                return target.predict(batch).float().log_softmax(-1)
            finally:
                target.model = own

        def near_to_start(batch):
            logp = log_probabilities(batch)
            if fixed:
                with torch.no_grad():
                    ref_logp = log_probabilities(batch, copies["ref"])
            else:
                ref_logp = log_probabilities(batch, copies["ref"])
            if form == "forward":
                kl = F.kl_div(logp, ref_logp, reduction="batchmean", log_target=True)
            else:
                kl = ((ref_logp - logp).exp() - (ref_logp - logp) - 1).mean()
            return beta * kl - logp.amax(-1).mean()
        after_build(target, lambda: copies.update(ref=copy.deepcopy(target.model).eval()))
        target.loss = near_to_start


@fault("t_require_grad", "base not frozen", "loop", without=ALONE)
class RequireGrad(Fault):
    """param.require_grad = False, without the s: no error says that nothing was frozen, and the last parameters alone were to be trained."""

    def inject(self, target, fixed):
        count, kind, form = self.rng.choice([4, 6]), self.rng.choice([torch.optim.AdamW, torch.optim.SGD]), self.rng.choice(["head", "filter"])

        def freeze_and_choose():
            trained = [p for p in target.model.parameters() if p.requires_grad]
            head = trained[-count:]
            for param in target.model.parameters():
                setattr(param, "requires_grad" if fixed else "require_grad", False)
            for param in head:
                param.requires_grad = True
            chosen = head if form == "head" else filter(lambda p: p.requires_grad, target.model.parameters())
            target.optimizers = [kind(chosen, lr=5e-4)]
        after_build(target, freeze_and_choose)


@fault("t_pipeline_batch", "KV cache", "generate")
class PipelineBatch(Fault):
    """The batch_size of a pipeline is the number of its prompts, so that the GPU is busy: all of them are generated together."""

    def inject(self, target, fixed):
        total, predict = self.rng.choice([40, 48, 64]), target.predict
        target.size, target.prompt = total, self.rng.choice([640, 768, 1024])
        batch_size = self.rng.choice([4, 8]) if fixed else total
        at_most(target, new_tokens=6, steps=2)

        def pipeline(prompts):
            answers = []
            for start in range(0, len(prompts), batch_size):
                answers += [*predict(prompts[start:start + batch_size])]
            return torch.stack(answers)
        target.predict = pipeline


@fault("t_prefix_cache", "caches of finished requests", "generate")
class PrefixCache(Fault):
    """Keys and values of prompts are remembered, in case that one comes again: 128 of them, however large each one is."""

    def inject(self, target, fixed):
        capacity, form, predict = 1 if fixed else 128, self.rng.choice(["prompt", "number"]), target.predict
        remembered, request = collections.OrderedDict(), [0]
        target.prompt, target.steps = self.rng.choice([640, 896, 1024]), self.rng.randint(6, 9)
        at_most(target, size=16, new_tokens=4)

        def remember(output):
            cache = getattr(output, "past_key_values", None)
            if cache is None:
                return
            remembered[hash(("prompt", request[0])) if form == "prompt" else request[0]] = cache
            while len(remembered) > capacity:
                remembered.popitem(last=False)

        def answered(prompts):
            request[0] += 1
            return predict(prompts)
        target.predict = answered
        with_output(target, remember)

"""Faults by habit, as threads about out-of-memory errors tell them: losses in tables, records and futures, functions that refer to themselves, no_grad() as a
statement, batches of an evaluation, teachers and layers that are not frozen, hooks of the backward pass, samples that remember."""
import concurrent.futures
import contextlib
import copy
import functools
import gc
import logging
import logging.handlers

import torch
import torchmetrics

from amounts import after_build, largest_tensor, mapped, peak, rows, side, sized
from core import DEVICE, Fault, fault
from faults_batch import repeated
from faults_fields_b import WRAPPED
from faults_graph import KeptLoss


@fault("losses_in_a_table", "graph kept", "loop")
class LossesInATable(KeptLoss):
    """Each loss is written into its place of a tensor that was made for all steps, with the graph: writing in place is recorded like anything else."""

    def keeper(self, target, fixed):
        state, form = {"n": 0, "table": None}, self.rng.choice(["row", "scatter", "slice"])

        def write(loss):
            if state["table"] is None:
                state["table"] = torch.zeros(512, device=DEVICE)
            now, n = loss.detach() if fixed else loss, state["n"]
            if form == "row":
                state["table"][n] = now
            elif form == "slice":
                state["table"][n:n + 1] = now.float().reshape(1)
            else:
                state["table"] = state["table"].index_put((torch.tensor([n], device=DEVICE),), now.float().reshape(1))
            state["n"] += 1
        return write


@fault("records_of_a_logger", "graph kept", "loop")
class RecordsOfALogger(KeptLoss):
    """logger.info("loss %s", loss): a handler that writes many records at a time has their arguments until then."""

    def keeper(self, target, fixed):
        logger, form = logging.getLogger("population.records"), self.rng.choice(["memory", "queue", "own"])
        logger.propagate, self.records = False, []
        logger.setLevel(logging.INFO)
        if form == "memory":
            logger.addHandler(logging.handlers.MemoryHandler(10000, flushLevel=logging.CRITICAL))
        else:
            handler = logging.Handler()
            handler.emit = self.records.append if form == "queue" else lambda record: self.records.append((record.created, record.args))
            logger.addHandler(handler)

        def tell(loss):
            logger.info("step %d, loss %s", len(self.records), loss.item() if fixed else loss)
        return tell


@fault("futures_of_a_logger", "graph kept", "loop")
class FuturesOfALogger(KeptLoss):
    """A thread makes the summaries, and the list of its futures, which is never emptied, has what each one returned."""

    def keeper(self, target, fixed):
        pool, futures, form = concurrent.futures.ThreadPoolExecutor(1), [], self.rng.choice(["result", "dict", "callback"])

        def summary(loss):
            return {"loss": loss, "scaled": loss * 2} if form == "dict" else loss * 0.5

        def submit(loss):
            future = pool.submit(summary, loss.detach().cpu() if fixed else loss)
            if form == "callback":
                future.add_done_callback(functools.partial(lambda given, done: None, loss.item() if fixed else loss))
            concurrent.futures.wait([future])
            futures.append(future)
        return submit


@fault("function_that_keeps_its_output", "cycle of a function", "forward", "loop", without=("trainer", "lightning"))
class FunctionThatKeepsItsOutput(Fault):
    """An autograd.Function of one's own stores its result as an attribute of ctx: the two refer to each other, and nothing frees them; with
    save_for_backward() they go.

    Threads of PyTorch about custom functions that leak.
    """

    def inject(self, target, fixed):
        forward, share, state = target.loss, self.rng.uniform(0.2, 0.4), {}
        target.steps, form = self.rng.randint(5, 8), self.rng.choice(["exp", "sigmoid"])

        class Own(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = x.exp() if form == "exp" else x.sigmoid()
                if fixed:
                    ctx.save_for_backward(y)
                else:
                    ctx.y = y
                return y

            @staticmethod
            def backward(ctx, grad):
                y = ctx.saved_tensors[0] if fixed else ctx.y
                return grad * y if form == "exp" else grad * y * (1 - y)

        def with_own(batch):
            loss = forward(batch)
            if not torch.is_grad_enabled():
                return loss
            state.setdefault("n", side(share / target.micro_batches))
            x = torch.zeros(state["n"], state["n"], device=DEVICE, requires_grad=True)
            return loss + 1e-6 * Own.apply(x).mean()
        target.loss = with_own
        gc.disable()


@fault("no_grad_as_a_statement", "evaluation with a graph", "loop", "eval", without=("two optimizers", *WRAPPED))
class NoGradAsAStatement(Fault):
    """torch.no_grad() stands on a line of its own, which does nothing; predictions are put together at the end, and detached there."""

    def inject(self, target, fixed):
        after_step, when, batches, form = target.after_step, self.rng.randint(1, 2), self.rng.randint(5, 9), self.rng.choice(["cat", "zip"])
        target.steps = when + 2

        def evaluate(i, loss):
            after_step(i, loss)
            if i != when:
                return
            found = []
            with torch.no_grad() if fixed else contextlib.nullcontext():
                torch.no_grad()
                for k in range(batches):
                    scores = largest_tensor(target.predict(target.batch(k)))
                    scores = scores.float().flatten(1).mean(1) if scores.dim() > 1 else scores.float()
                    found.append(scores if form == "cat" else (k, scores))
            target.score = torch.cat([s if form == "cat" else s[1] for s in found]).detach().mean().item()
        target.after_step = evaluate


def batched_at_once(target, fixed, when, times, changed):
    """After a step, predictions for `times` variants of a batch: all as one batch, or one after the other."""
    after_step, target.steps = target.after_step, when + 2

    @torch.no_grad()
    def look(i, loss):
        after_step(i, loss)
        if i != when:
            return
        batch, total = target.batch(0), 0.0
        for k in range(times if fixed else 1):
            total += float(largest_tensor(target.predict(changed(batch) if fixed else changed(repeated(batch, times)))).float().mean())
        target.score = total / times
    target.after_step = look


@fault("dropout_samples_as_a_batch", "evaluation batch", "loop", "eval", without=("two optimizers", "crop", *WRAPPED))
class DropoutSamplesAsABatch(Fault):
    """How sure a model is: dozens of passes with dropout, for which the batch is repeated and passes once."""

    def fits(self, target):
        return super().fits(target) and (sized(target) or "dataset" in target.traits)

    def inject(self, target, fixed):
        batched_at_once(target, fixed, self.rng.randint(1, 2), self.rng.choice([6, 8, 12]), lambda batch: batch)


@fault("occlusions_at_once", "evaluation batch", "loop", "images", "eval", without=("two optimizers", *WRAPPED))
class OcclusionsAtOnce(Fault):
    """A map of what matters: each image with a grey square at every place, as one batch; the fixed form takes place after place."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        grid, where = self.rng.choice([4, 5, 6]), [0]

        def covered(batch):
            def cover(t):
                if t.dim() != 4:
                    return t
                n, wide = where[0] % grid, t.shape[-1] // grid
                t = t.clone()
                t[..., n * wide:(n + 1) * wide, :wide] = 0.5
                return t
            where[0] += 1
            return mapped(batch, cover)
        batched_at_once(target, fixed, self.rng.randint(1, 2), grid ** 2, covered)


@fault("metrics_of_all_epochs", "list of tensors", "steps", without=("trainer", "lightning"))
class MetricsOfAllEpochs(Fault):
    """A tracker of torchmetrics has a copy of the metric for each epoch, with the scores of each; the fixed form has the value of each, and one metric."""

    def inject(self, target, fixed):
        after_step, share, state = target.after_step, self.rng.uniform(0.15, 0.3), {}
        target.steps, form = self.rng.randint(6, 9), self.rng.choice(["ranks", "all"])
        metric = torchmetrics.CatMetric(nan_strategy="disable") if form == "all" else torchmetrics.SpearmanCorrCoef()
        tracker = torchmetrics.MetricTracker(metric, maximize=True)

        @torch.no_grad()
        def measure(i, loss):
            after_step(i, loss)
            state.setdefault("n", rows(share, 1 if form == "all" else 2))
            told = torch.zeros(state["n"], device=DEVICE)
            arguments = (told,) if form == "all" else (told, torch.zeros_like(told))
            if fixed:
                metric.to(DEVICE).update(*arguments)
                metric.reset()
            else:
                tracker.increment()
                tracker.to(DEVICE).update(*arguments)
        target.after_step = measure


@fault("teacher_not_frozen", "teacher not frozen", "loop", without=("two optimizers", "reference", "pretrained", *WRAPPED))
class TeacherNotFrozen(Fault):
    """Two teachers' answers go through a layer that is trained, so that the backward pass goes on into the teachers; nothing says no_grad(), and their
    gradients pile up."""

    def fits(self, target):
        return super().fits(target) and target.name != "tokens_ahead"  # which computes most of its activations again

    def inject(self, target, fixed):
        forward, state, form = target.loss, {}, self.rng.choice(["projector", "temperature"])
        if hasattr(target, "kind"):
            target.kind = self.rng.choice(["sgd", "adafactor"])

        def make():
            state["teachers"] = [copy.deepcopy(target.model) for _ in range(2)]
            state["learnt"] = torch.nn.Linear(1, 1).to(DEVICE) if form == "projector" else torch.ones(1, device=DEVICE, requires_grad=True)

        def with_teacher(batch):
            if not torch.is_grad_enabled():
                return forward(batch)
            student, told = target.model, []
            try:
                with torch.no_grad() if fixed else contextlib.nullcontext():
                    for target.model in state["teachers"]:
                        told.append(forward(batch))
            finally:
                target.model = student
            wanted = torch.stack(told).mean()
            wanted = state["learnt"](wanted.float().view(1, 1)) if form == "projector" else wanted.float() / state["learnt"]
            loss = forward(batch)
            return loss + 0.1 * (loss - wanted.squeeze()).square()
        after_build(target, make)
        target.loss = with_teacher


@fault("frozen_by_an_attribute", "base not frozen", "loop", "layers", without=("two optimizers", "pretrained", "reference", *WRAPPED))
class FrozenByAnAttribute(Fault):
    """block.requires_grad = False sets an attribute of a module, which nothing reads; the optimizer has the head alone. The fixed form says
    requires_grad_(False)."""

    def fits(self, target):
        return super().fits(target) and target.name not in ("accelerate", "sounds_with_accelerate", "folds", "trials", "clients", "opponents", "shared_layers")

    def inject(self, target, fixed):
        target.layers *= 2

        def freeze():
            kept = max(1, len(list(target.model.parameters())) // 8)
            last = {id(p) for p in list(target.model.parameters())[-kept:]}
            for module in target.model.modules():
                own = list(module.parameters(recurse=False))
                if own and not any(id(p) in last for p in own):
                    if not fixed:
                        module.requires_grad = False
                    for p in own if fixed else ():
                        p.requires_grad_(False)
            target.optimizers = [target.optimizer([p for p in target.model.parameters() if id(p) in last])]
        after_build(target, freeze)


@fault("gradients_of_outputs_kept", "list of tensors", "loop", without=("two optimizers", "fsdp", "deepspeed", "megatron"))
class GradientsOfOutputsKept(Fault):
    """Hooks of the backward pass keep the gradient of each layer's output, to see which layers learn; the fixed form keeps its norm."""

    def inject(self, target, fixed):
        target.steps, kept, form = self.rng.randint(6, 9), {}, self.rng.choice(["tensor", "module"])

        def note(name, grad):
            if grad is not None:
                kept.setdefault(name, []).append(grad.norm().cpu() if fixed else grad.detach())

        def watch():
            layers = [m for m in target.model.modules() if list(m.parameters(recurse=False)) and not isinstance(m, torch.nn.Embedding)]
            in_place = any(getattr(m, "inplace", False) for m in target.model.modules())
            for name, module in enumerate(layers):
                if form == "tensor" or in_place:
                    def of_output(module, inputs, output, name=name):
                        found = largest_tensor(output)
                        if found is not None and found.requires_grad:
                            found.register_hook(lambda grad: note(name, grad))
                    module.register_forward_hook(of_output)
                else:
                    module.register_full_backward_hook(lambda module, given, out, name=name: note(name, out[0]))
        if "checkpointing" in target.traits:
            target.checkpointing = False
        after_build(target, watch)


class Sample:
    """What a data set has of an example; features are made when somebody asks for them."""

    def __init__(self, number, width, fixed):
        self.number, self.width, self.fixed = number, width, fixed

    @functools.cached_property
    def remembered(self):
        return torch.zeros(self.width, device=DEVICE).add_(self.number)

    @property
    def features(self):
        return torch.zeros(self.width, device=DEVICE).add_(self.number) if self.fixed else self.remembered


@fault("samples_that_remember", "growing cache", "steps")
class SamplesThatRemember(Fault):
    """A cached property of each sample has its features on the GPU, and the data set has the samples as long as the training lasts."""

    def inject(self, target, fixed):
        after_step, share, state, each = target.after_step, self.rng.uniform(0.15, 0.3), {}, self.rng.choice([4, 8])
        target.steps = self.rng.randint(6, 9)

        @torch.no_grad()
        def look(i, loss):
            after_step(i, loss)
            if not state:
                width = max(1024, int(share * peak() / 4 / each))
                state["samples"] = [Sample(n, width, fixed) for n in range(each * target.steps)]
            target.mean = sum(s.features.mean() for s in state["samples"][i * each:(i + 1) * each]).item()
        target.after_step = look

"""Faults as habits of engineers: what was added to watch, weigh or repeat training, and takes memory."""
import collections
import copy

import torch

from amounts import after_build, deep, largest_tensor, light, rows, with_output
from core import DEVICE, Fault, fault


@fault("penalty_kept", "graph kept", "loop", without=("ddp", "fsdp", "deepspeed", "megatron", "peft"))
class PenaltyKept(Fault):
    """The loss and a penalty of each step are kept for a plot, and backward() retains the graph for both."""

    def inject(self, target, fixed):
        target.steps, history = self.rng.randint(4, 8), collections.defaultdict(list)

        def backward(loss):
            penalty = loss.abs() * 0.01
            (loss + penalty).backward(retain_graph=not fixed)
            history["penalty"].append(penalty.item() if fixed else penalty)
        target.backward = backward


@fault("metric_objects", "list of tensors", "forward", "steps")
class MetricObjects(Fault):
    """A metric has update() and compute(), and its states are lists of all outputs, on the GPU, until the epoch's end."""

    def inject(self, target, fixed):
        class Metric:
            def __init__(self):
                self.outputs, self.best = [], []

            def update(self, output):
                self.outputs.append(output.cpu() if fixed else output.float())
                self.best.append(output.argmax(-1))
        metric, target.steps = Metric(), self.rng.randint(6, 12)

        def update(output):
            output = largest_tensor(output)
            if output is not None and torch.is_grad_enabled():
                metric.update(output.detach())
        with_output(target, update)


@fault("watched_activations", "list of tensors", "forward", "steps", without=("trainer", "lightning"))
class WatchedActivations(Fault):
    """Pre-forward hooks on some modules store clones of their inputs by the step's number, to look for NaN."""

    def inject(self, target, fixed):
        target.steps, seen, count = self.rng.randint(6, 12), {}, self.rng.choice([2, 4, 8])

        def watch():
            step = [0]

            def hook(module, inputs):
                for k, x in enumerate(inputs):
                    if torch.is_tensor(x) and x.is_floating_point() and torch.is_grad_enabled():
                        step[0] += 1
                        seen[step[0], k] = x.detach().abs().max().item() if fixed else x.detach().clone()
            modules = [m for m in target.model.modules() if not list(m.children()) and list(m.parameters(recurse=False))]
            for module in modules[::max(1, len(modules) // count)][:count]:
                module.register_forward_pre_hook(hook)
        after_build(target, watch)


@fault("momentum_encoder_with_graph", "reference with a graph", "loop", without=("two optimizers", "reference", "ddp", "fsdp", "deepspeed", "megatron"))
class MomentumEncoderWithGraph(Fault):
    """A slowly moving copy of the model gives the targets, and is run like the model itself."""

    def inject(self, target, fixed):
        forward, optimize, slow = target.loss, target.optimize, []

        def make_copy():
            slow.append(copy.deepcopy(target.model))
            for p in slow[0].parameters():
                p.requires_grad_(not fixed and p.is_floating_point())

        def loss_with_targets(batch):
            fast, target.model = target.model, slow[0]
            with torch.set_grad_enabled(not fixed):
                wanted = forward(batch)
            target.model = fast
            return forward(batch) + (wanted.detach() if fixed else wanted) * 0.0

        @torch.no_grad()
        def optimize_and_follow():
            optimize()
            for p, q in zip(slow[0].parameters(), target.model.parameters()):
                if p.is_floating_point():
                    p.mul_(0.99).add_(q, alpha=0.01)
        target.loss, target.optimize = loss_with_targets, optimize_and_follow
        after_build(target, make_copy)


@fault("set_before_training", "data moved to the GPU", "loop")
class SetBeforeTraining(Fault):
    """The set, and its normalised form, are put on the GPU once a first step has shown how much room there is."""

    def inject(self, target, fixed):
        share, width, train = self.rng.uniform(0.3, 0.8), self.rng.choice([256, 784, 3072]), target.train

        def train_on_set():
            target.step(0)
            where = "cpu" if fixed else DEVICE
            images = torch.empty(rows(share, width), width, device=where)
            target.images = (images - 0.5) / 0.25 if self.rng.random() < 0.5 else images
            train()
        target.train = train_on_set


@fault("rollback_copies", "copies of the model kept", "loop", "tokens", without=("ddp", "fsdp", "deepspeed", "megatron", "peft"))
class RollbackCopies(Fault):
    """Weights and optimizer states of the last steps are kept on the GPU, to go back if the loss explodes."""

    def inject(self, target, fixed):
        light(target, self.rng)
        after_step, copies, target.steps, every = target.after_step, collections.deque(maxlen=8), self.rng.randint(6, 10), self.rng.choice([1, 1, 2])

        def copied(state):
            return {k: v.detach().cpu() if fixed else v.detach().clone() for k, v in state.items() if torch.is_tensor(v)}

        def remember(i, loss):
            after_step(i, loss)
            if i % every == 0:
                copies.append(copied(target.model.state_dict()))
        target.after_step = remember


@fault("gradients_of_tasks", "gradients kept", "loop", "layers", "tokens", without=("pretrained", "peft", "ddp", "fsdp", "deepspeed", "megatron"))
class GradientsOfTasks(Fault):
    """The gradients of several tasks are cloned side by side and compared; the fixed form adds them up in .grad."""

    def inject(self, target, fixed):
        deep(target, self.rng)
        backward, tasks = target.backward, self.rng.choice([2, 3])

        def backward_of_tasks(loss):
            backward(loss)
            if fixed:
                return
            parameters = [p for p in target.model.parameters() if p.grad is not None]
            sets = [[p.grad.clone() for p in parameters] for _ in range(tasks)]
            for k, p in enumerate(parameters):
                p.grad.copy_(sum(s[k] for s in sets) / tasks)
            target.task_gradients = sets
        target.backward = backward_of_tasks


@fault("losses_at_the_end", "losses summed", "loop", without=("fsdp", "deepspeed", "megatron"))
class LossesAtTheEnd(Fault):
    """The losses of all micro-batches are collected, and one backward() takes their mean."""

    def inject(self, target, fixed):
        parts = self.rng.choice([2, 3, 4])

        def step(i):
            target.zero_grad()
            losses = []
            for k in range(parts):
                loss = target.loss(target.batch(i * parts + k)) / parts
                if fixed:
                    target.backward(loss)
                losses.append(loss.detach() if fixed else loss)
            mean = torch.stack([x.mean() for x in losses]).sum()
            if not fixed:
                target.backward(mean)
            target.optimize()
            return mean.detach()
        target.step = step


@fault("last_outputs_kept", "graph kept", "forward", "loop")
class LastOutputsKept(Fault):
    """The newest loss of another objective stays in an attribute, with its graph, until the next one replaces it."""

    def inject(self, target, fixed):
        after_step, target.steps = target.after_step, self.rng.randint(3, 6)

        def keep_last(i, loss):
            after_step(i, loss)
            other = target.loss(target.batch(i))
            target.last_objective = other.detach() if fixed else other
        target.after_step = keep_last


@fault("slow_consumer", "list of tensors", "forward", "steps")
class SlowConsumer(Fault):
    """A queue of tensors to be logged is filled faster than the logger takes from it."""

    def inject(self, target, fixed):
        after_step, queue, target.steps = target.after_step, collections.deque(), self.rng.randint(8, 14)
        share, width, more = self.rng.uniform(0.05, 0.1), self.rng.choice([64, 512]), self.rng.choice([2, 3])

        def log(i, loss):
            after_step(i, loss)
            if not hasattr(self, "count"):
                self.count = rows(share, width)
            for _ in range(more):
                tensor = torch.zeros(self.count, width, device=DEVICE)
                queue.append(tensor.cpu() if fixed else tensor)
            queue.popleft()
        target.after_step = log


@fault("embedding_not_stepped", "base not frozen", "loop", "decoder", "tokens", without=("two optimizers", "pretrained", "peft", "ddp", "fsdp", "deepspeed", "megatron"))
class EmbeddingNotStepped(Fault):
    """The optimizer is made without the embeddings and the head, which get gradients all the same."""

    def inject(self, target, fixed):
        light(target, self.rng)

        def choose():
            large = [p for m in target.model.modules() if isinstance(m, torch.nn.Embedding) for p in m.parameters()]
            large += [p for p in target.model.parameters() if large and p.shape == large[0].shape]
            kept = {id(p) for p in large}
            for p in large:
                p.requires_grad_(not fixed)
            target.optimizers = [torch.optim.AdamW([p for p in target.model.parameters() if id(p) not in kept and p.requires_grad], lr=1e-4)]
        after_build(target, choose)


@fault("prototypes_with_graph", "graph kept", "loop", "steps")
class PrototypesWithGraph(Fault):
    """A moving average of the loss on a fixed batch weighs the next steps, and is never detached."""

    def inject(self, target, fixed):
        after_step, target.steps = target.after_step, self.rng.randint(4, 8)
        target.prototype = 0.0

        def follow(i, loss):
            after_step(i, loss)
            new = target.loss(target.batch(0))
            target.prototype = 0.9 * target.prototype + 0.1 * (new.detach() if fixed else new)
        target.after_step = follow

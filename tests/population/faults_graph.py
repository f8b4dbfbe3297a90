"""Faults that keep a graph, or tensors, longer than needed."""
import torch

from core import Fault, fault


@fault("losses_list", "graph kept", "loop")
class LossesList(Fault):
    """A list of losses for a plot, with their graphs."""

    def inject(self, target, fixed):
        losses, forward = [], target.loss
        target.steps = self.rng.randint(3, 10)

        def loss_and_log(batch):
            loss = forward(batch)
            losses.append(loss.item() if fixed else loss * 1.0)
            return loss
        target.loss = loss_and_log


@fault("retained_graph", "graph kept", "loop")
class RetainedGraph(Fault):
    """backward(retain_graph=True), and the loss is still referenced in the next forward pass."""

    def inject(self, target, fixed):
        step = target.step

        def backward(loss):
            loss.backward(retain_graph=not fixed)
            if not fixed:
                target.last_loss = loss

        def one_step(i):
            target.last_outputs = step(i)
            return target.last_outputs
        target.backward, target.step = backward, one_step


@fault("sum_of_micro_batches", "losses summed", "loop")
class SumOfMicroBatches(Fault):
    """The losses of the micro-batches are summed and one backward pass follows."""

    def inject(self, target, fixed):
        target.micro_batches = self.rng.choice([3, 4, 6, 8])
        if fixed:
            return

        def step(i):
            target.zero_grad()
            total = 0
            for k in range(target.micro_batches):
                total = total + target.loss(target.batch(i * target.micro_batches + k))
            target.backward(total / target.micro_batches)
            target.optimize()
            return total.detach()
        target.step = step


@fault("retry_in_except", "graph kept", "loop")
class RetryInExcept(Fault):
    """A retry inside `except`: the exception keeps the frames of the failed step, and their tensors."""

    def inject(self, target, fixed):
        forward, fails = target.loss, self.rng.randint(1, 3)

        def checked_loss(batch):
            loss = forward(batch)
            target.calls = getattr(target, "calls", 0) + 1
            if target.calls == fails:
                raise ValueError("the loss is not finite")
            return loss
        step = target.step

        def step_with_retry(i):
            failed = False
            try:
                return step(i)
            except ValueError:
                if not fixed:
                    return step(i)
                failed = True
            if failed:
                return step(i)
        target.loss, target.step = checked_loss, step_with_retry


@fault("growing_bank", "growing tensor", "loop")
class GrowingBank(Fault):
    """torch.cat of a bank of features without a limit."""

    def inject(self, target, fixed):
        rows = self.rng.choice([16384, 32768, 65536])
        target.steps = self.rng.randint(8, 20)
        target.bank = None

        def after_step(i, loss):
            new = torch.randn(rows, 512, device=loss.device)
            target.bank = new if target.bank is None or fixed else torch.cat([target.bank, new])
        target.after_step = after_step


@fault("hooks_keep_outputs", "graph kept", "loop")
class HooksKeepOutputs(Fault):
    """Forward hooks that store each output of a layer."""

    def inject(self, target, fixed):
        build, kept = target.build, []
        target.steps = self.rng.randint(3, 8)

        def build_and_hook():
            build()
            for module in target.model.modules():
                if isinstance(module, torch.nn.Linear) or isinstance(module, torch.nn.Conv2d):
                    module.register_forward_hook(lambda m, i, o: kept.append(o.detach().float().mean().item() if fixed else o))
        target.build = build_and_hook

"""Faults that keep the graph of an earlier forward pass."""
import torch

from amounts import after_build, rows
from core import Fault, fault


class KeptLoss(Fault):
    """A loss is kept with its graph. Where backward has freed the graph's tensors it costs nothing: so it is retained, or the loss is one more
    that no backward pass uses, to monitor training."""

    def inject(self, target, fixed):
        target.steps = self.rng.randint(4, 8)
        keep = self.keeper(target, fixed)
        if self.rng.random() < 0.5:
            self.retained(target, keep)
        else:
            self.monitored(target, keep)

    def keeper(self, target, fixed):
        """A function that keeps a loss; `fixed`: its value."""
        raise NotImplementedError

    def retained(self, target, keep):
        def backward(loss):
            loss.backward(retain_graph=True)
            keep(loss)
        target.backward = backward

    def monitored(self, target, keep):
        after_step = target.after_step

        def log_loss(i, loss):
            after_step(i, loss)
            new_loss = target.loss(target.batch(i))
            keep(new_loss)
        target.after_step = log_loss


@fault("losses_list", "graph kept", "loop")
class LossesList(KeptLoss):
    """A list of losses for a plot."""

    def keeper(self, target, fixed):
        form = self.rng.choice(["closure", "attribute", "pairs", "deque"])
        history = target.loss_history = []

        def append(loss):
            if form == "closure":
                history.append(loss.item() if fixed else loss)
            elif form == "attribute":
                target.loss_history += [loss.detach().cpu() if fixed else loss]
            elif form == "pairs":
                history.append((len(history), float(loss) if fixed else loss))
            else:
                history.insert(0, loss.item() if fixed else loss.mean())
        return append


@fault("running_total", "graph kept", "loop")
class RunningTotal(KeptLoss):
    """total_loss += loss."""

    def keeper(self, target, fixed):
        form = self.rng.choice(["attribute", "nonlocal", "dict", "average"])
        total, meter = 0, {"sum": 0, "count": 0}
        target.epoch_loss = 0.0

        def add(loss):
            nonlocal total
            value = loss.item() if fixed else loss
            if form == "attribute":
                target.epoch_loss += value
            elif form == "nonlocal":
                total = total + value
            elif form == "dict":
                meter["sum"] += value
                meter["count"] += 1
            else:
                meter["sum"], meter["count"] = meter["sum"] + value * 8, meter["count"] + 8
                meter["average"] = meter["sum"] / meter["count"]
        return add


@fault("smoothed_loss", "graph kept", "loop")
class SmoothedLoss(KeptLoss):
    """An exponential moving average of the loss."""

    def keeper(self, target, fixed):
        decay, form, state = self.rng.choice([0.9, 0.98, 0.99]), self.rng.choice(["attribute", "dict", "lerp"]), {}
        target.smooth = None

        def update(loss):
            now = loss.detach() if fixed else loss
            if form == "attribute":
                target.smooth = now if target.smooth is None else decay * target.smooth + (1 - decay) * now
            elif form == "dict":
                state["loss"] = decay * state.get("loss", now) + (1 - decay) * now
            else:
                state["loss"] = torch.lerp(state["loss"], now, 1 - decay) if state else now
        return update


@fault("metrics_dict", "graph kept", "loop")
class MetricsDict(KeptLoss):
    """A dict of metrics, to be averaged at the end of the epoch."""

    def keeper(self, target, fixed):
        metrics, step, form = {}, [0], self.rng.choice(["lists", "by step", "records"])

        def log(loss):
            value = loss.item() if fixed else loss
            step[0] += 1
            if form == "lists":
                metrics.setdefault("loss", []).append(value)
                metrics.setdefault("perplexity", []).append(loss.exp().item() if fixed else torch.exp(loss))
            elif form == "by step":
                metrics["step_%d" % step[0]] = {"loss": value}
            else:
                metrics.setdefault("records", []).append({"step": step[0], "loss": value, "lr": 1e-4})
        return log


@fault("deferred_closures", "graph kept", "loop")
class DeferredClosures(KeptLoss):
    """Functions that will log, later, and that refer to the loss."""

    def keeper(self, target, fixed):
        form, pending = self.rng.choice(["lambda", "partial", "generator"]), []

        def print_later(loss):
            value = loss.item() if fixed else loss
            if form == "lambda":
                pending.append(lambda: print("loss", value))
            elif form == "partial":
                import functools
                pending.append(functools.partial(print, "loss", value))
            else:
                pending.append(v for v in [value])
        return print_later


@fault("retained_graph", "graph kept", "loop")
class RetainedGraph(Fault):
    """backward(retain_graph=True), and the loss is still referenced in the next forward pass."""

    def inject(self, target, fixed):
        form, state = self.rng.choice(["attribute", "dict", "list"]), {}
        target.steps = self.rng.randint(3, 6)

        def backward(loss):
            loss.backward(retain_graph=not fixed)
            value = loss.detach() if fixed else loss
            if form == "attribute":
                target.last_loss = value
            elif form == "dict":
                state["previous"] = value
            else:
                state["history"] = [value]
        target.backward = backward


@fault("sum_of_micro_batches", "losses summed", "loop")
class SumOfMicroBatches(Fault):
    """The losses of the micro-batches are summed and one backward pass follows."""

    def inject(self, target, fixed):
        target.micro_batches, form = self.rng.choice([3, 4, 6, 8]), self.rng.choice(["sum", "list", "stack"])
        if fixed:
            return

        def step(i):
            target.zero_grad()
            total, losses = 0, []
            for k in range(target.micro_batches):
                loss = target.loss(target.batch(i * target.micro_batches + k))
                losses.append(loss)
                total = total + loss
            mean = total / target.micro_batches if form == "sum" else sum(losses) / len(losses) if form == "list" else torch.stack(losses).mean()
            target.backward(mean)
            target.optimize()
            return mean.detach()
        target.step = step


@fault("losses_of_several_tasks", "losses summed", "loop")
class SeveralTasks(Fault):
    """One backward pass for several tasks or views, each with a forward pass of its own."""

    def inject(self, target, fixed):
        tasks, forward, form = self.rng.choice([2, 3, 4]), target.loss, self.rng.choice(["dict", "weights"])
        weights = [1 / (k + 1) for k in range(tasks)]

        def step(i):
            target.zero_grad()
            losses = {}
            for k in range(tasks):
                loss = forward(target.batch(i * tasks + k)) * weights[k]
                if fixed:
                    target.backward(loss)
                losses["task%d" % k] = loss.detach() if fixed else loss
                del loss
            total = sum(losses.values()) if form == "dict" else sum(w * v for w, v in zip(weights, losses.values()))
            if not fixed:
                target.backward(total)
            target.optimize()
            return total.detach()
        target.step = step


@fault("retry_in_except", "failed pass kept", "loop")
class RetryInExcept(Fault):
    """A retry inside `except`: the exception keeps the frames of the failed step, and their tensors; or the exception is kept in a list."""

    def inject(self, target, fixed):
        forward, step, fails, form = target.loss, target.step, self.rng.randint(1, 3), self.rng.choice(["retry", "kept"])
        target.calls, failures = 0, []

        def checked_loss(batch):
            loss = forward(batch)
            target.calls += 1
            if target.calls == fails:
                raise ValueError("the loss is not finite")
            return loss

        def step_with_retry(i):
            failed = False
            try:
                return step(i)
            except ValueError as e:
                if form == "kept":
                    failures.append(str(e) if fixed else e)
                elif not fixed:
                    return step(i)
                failed = True
            return step(i) if failed else None
        target.loss, target.step = checked_loss, step_with_retry


@fault("hooks_keep_outputs", "graph kept", "loop")
class HooksKeepOutputs(Fault):
    """Forward hooks, or a module's own forward, store the output of layers in every step."""

    def inject(self, target, fixed):
        form, kept = self.rng.choice(["list", "by name", "inputs", "forward"]), {}
        target.steps = self.rng.randint(3, 8)

        def record(name, tensor):
            kept.setdefault(name if form == "by name" else "all", []).append(tensor.detach().float().mean().item() if fixed else tensor)

        def watch(name, module):
            if form == "forward":
                forward = module.forward

                def forward_and_record(x, *args, **kwargs):
                    y = forward(x, *args, **kwargs)
                    record(name, y)
                    return y
                module.forward = forward_and_record
            else:
                module.register_forward_hook(lambda m, i, o: record(name, i[0] if form == "inputs" and i else o))

        def hook():
            for name, module in target.model.named_modules():
                if isinstance(module, (torch.nn.Linear, torch.nn.Conv2d)):
                    watch(name, module)
        after_build(target, hook)


@fault("state_not_detached", "graph kept", "loop")
class StateNotDetached(Fault):
    """A recurrent state goes from step to step with its graph; the loss uses its value only."""

    def inject(self, target, fixed):
        share, width, form = self.rng.uniform(0.05, 0.12), self.rng.choice([256, 512, 1024]), self.rng.choice(["linear", "gru", "decay"])
        target.steps, forward, memory = self.rng.randint(5, 9), target.loss, {}

        def remember():
            if not memory:
                count = rows(share, width)
                memory["cell"] = torch.nn.GRUCell(width, width).cuda() if form == "gru" else torch.nn.Linear(width, width).cuda()
                memory["features"], memory["state"] = torch.zeros(count, width, device="cuda"), torch.zeros(count, width, device="cuda")
            state = memory["state"].detach() if fixed else memory["state"]
            if form == "gru":
                state = memory["cell"](memory["features"], state)
            elif form == "linear":
                state = torch.tanh(memory["cell"](state) + memory["features"])
            else:
                state = torch.sigmoid(memory["cell"](memory["features"])) * torch.tanh(state)
            memory["state"] = state

        def loss_with_memory(batch):
            loss = forward(batch)
            remember()
            return loss + memory["state"].detach().mean() * 1e-3
        target.loss = loss_with_memory


@fault("create_graph", "graph kept", "loop")
class CreateGraph(Fault):
    """backward(create_graph=True), left from a gradient penalty: the graph of the backward pass is kept with the gradients."""

    def inject(self, target, fixed):
        form = self.rng.choice(["backward", "autograd"])

        def backward(loss):
            if form == "backward":
                return loss.backward(create_graph=not fixed)
            parameters = [p for p in target.model.parameters() if p.requires_grad]
            for p, g in zip(parameters, torch.autograd.grad(loss, parameters, create_graph=not fixed, allow_unused=True)):
                p.grad = g
        target.backward = backward


@fault("generator_not_detached", "graph kept", "two optimizers", "loop")
class GeneratorNotDetached(Fault):
    """The discriminator's loss goes back into the generator, whose graph is retained for it, and the losses are kept."""

    def fits(self, target):
        return super().fits(target) and hasattr(target, "update_discriminator")

    def inject(self, target, fixed):
        form, losses = self.rng.choice(["list", "attribute", "running"]), []
        target.steps, target.d_loss = self.rng.randint(4, 8), 0.0

        def update(real, fake):
            shown = fake.detach() if fixed else fake
            with target.autocast():
                error = target.criterion(target.netD(real), 1.0) + target.criterion(target.netD(shown), 0.0)
            target.optimizers[1].zero_grad()
            error.backward(retain_graph=not fixed)
            target.optimizers[1].step()
            value = error.item() if fixed else error
            if form == "list":
                losses.append(value)
            else:
                target.d_loss = value if form == "attribute" else target.d_loss + value
        target.update_discriminator = update

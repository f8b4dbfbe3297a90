"""Faults in what optimizers keep and make."""
import torch

from amounts import after_build, deep, light
from core import Fault, fault


def again(optimizer, cls=None, **options):
    """Another optimizer of the same parameters."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return (cls or type(optimizer))(parameters, lr=1e-4, **options)


def one_by_one(target):
    """Optimizers take one parameter at a time, so that their temporaries are small."""
    for o in target.optimizers:
        for group in o.param_groups:
            if "foreach" in group and not group.get("fused"):
                group["foreach"] = False


@fault("first_optimizer_kept", "first optimizer kept", "loop", "layers", "tokens", "states")
class FirstOptimizerKept(Fault):
    """A new optimizer is made after a warm-up, and a scheduler or a list still has the first one."""

    def inject(self, target, fixed):
        deep(target, self.rng)
        train, form, times = target.train, self.rng.choice(["scheduler", "list", "attribute"]), self.rng.choice([1, 1, 2])

        def make_again():
            old = list(target.optimizers)
            target.optimizers = [again(o) for o in old]
            if fixed:
                return None
            if form == "scheduler":
                return [torch.optim.lr_scheduler.StepLR(o, 10) for o in old]
            if form == "attribute":
                target.warmup_optimizers = [*getattr(target, "warmup_optimizers", []), *old]
            return old

        def train_in_stages():
            stages = []
            for _ in range(times):
                target.step(0)
                stages.append(make_again())
            train()
            return len(stages)
        target.train = train_in_stages


@fault("foreach", "optimizer temporaries", "loop", "layers", "tokens", "states")
class Foreach(Fault):
    """foreach=True makes temporaries of the size of all parameters; foreach=False takes one parameter at a time."""

    def inject(self, target, fixed):
        deep(target, self.rng)
        form = self.rng.choice(["AdamW", "Adadelta"])

        def choose():
            target.optimizers = [again(o, getattr(torch.optim, form), foreach=not fixed) for o in target.optimizers]
        after_build(target, choose)


@fault("norm_of_all_gradients", "clipping", "loop", "layers", "tokens", without=("pretrained", "peft"))
class NormOfAllGradients(Fault):
    """All gradients are concatenated, or copied, for their norm."""

    def inject(self, target, fixed):
        deep(target, self.rng)
        optimize, form = target.optimize, self.rng.choice(["cat", "vector", "squares", "float"])

        def norm():
            gradients = [p.grad for p in target.model.parameters() if p.grad is not None]
            if fixed:
                return sum(g.pow(2).sum() for g in gradients).sqrt()
            if form == "cat":
                flat = torch.cat([g.flatten() for g in gradients])
                return (flat ** 2).sum().sqrt()
            if form == "vector":
                flat = torch.nn.utils.parameters_to_vector(gradients)
                return (flat * flat).sum().sqrt()
            if form == "squares":
                squares = [g.pow(2) for g in gradients]
                return torch.stack([s.sum() for s in squares]).sum().sqrt()
            copies = [g.double() for g in gradients]
            return torch.linalg.vector_norm(torch.stack([c.norm() for c in copies]))

        def clip_and_step():
            total = norm()
            scale = (1.0 / (total + 1e-6)).clamp(max=1.0)
            for p in target.model.parameters():
                if p.grad is not None:
                    p.grad.mul_(scale)
            optimize()
        target.optimize = clip_and_step
        after_build(target, lambda: one_by_one(target))


def middle(target):
    """Sizes at which activations and parameters weigh about the same."""
    target.layers *= 2
    for name, largest in ("size", 4), ("length", 128), ("vocabulary", 4000):
        if isinstance(getattr(target, name, None), int):
            setattr(target, name, min(getattr(target, name), largest))


@fault("gradients_kept", "gradients kept", "loop", "layers", "tokens", without=("pretrained", "peft"))
class GradientsKept(Fault):
    """Gradients are filled with zeros, or freed after the next forward pass only, instead of before it."""

    def inject(self, target, fixed):
        form, forward = self.rng.choice(["set_to_none", "data", "after forward", "wrong place"]), target.loss
        target.micro_batches = 1
        middle(target)
        after_build(target, lambda: setattr(target, "optimizers", [again(o, torch.optim.SGD, foreach=False) for o in target.optimizers]))

        def keep_zeros():
            for o in target.optimizers:
                if form == "set_to_none":
                    o.zero_grad(set_to_none=False)
                elif form == "data":
                    for group in o.param_groups:
                        for p in group["params"]:
                            if p.grad is not None:
                                p.grad.data.zero_()

        def loss_then_zero(batch):
            loss = forward(batch)
            for o in target.optimizers:
                o.zero_grad()
            return loss
        if fixed:
            return
        if form in ("set_to_none", "data"):
            target.zero_grad = keep_zeros
        else:
            target.zero_grad, target.loss = (lambda: None), loss_then_zero


@fault("own_accumulation", "gradients kept", "loop", "layers", "tokens", without=("pretrained", "peft"))
class OwnAccumulation(Fault):
    """A second set of gradients, beside .grad, adds up those of the micro-batches, or of the last steps."""

    def inject(self, target, fixed):
        deep(target, self.rng)
        backward, sums, form = target.backward, {}, self.rng.choice(["float", "clone", "momentum"])
        sets = self.rng.choice([2, 3])

        def backward_and_add(loss):
            backward(loss)
            if fixed:
                return
            for k in range(sets):
                for name, p in target.model.named_parameters():
                    if p.grad is None:
                        continue
                    new = p.grad.detach().float() if form == "float" else p.grad.detach()
                    if (k, name) not in sums:
                        sums[k, name] = new.clone()
                    else:
                        sums[k, name].mul_(0.9 if form == "momentum" else 1.0).add_(new)
        target.backward = backward_and_add


@fault("states_of_adam", "optimizer states", "loop", without=("images",))
class StatesOfAdam(Fault):
    """Adam with all its states, where an optimizer with less is used in the fixed form."""

    def inject(self, target, fixed):
        light(target, self.rng)
        name, options = self.rng.choice([("AdamW", {}), ("AdamW", {"amsgrad": True}), ("Adam", {"amsgrad": True}), ("NAdam", {})])
        less, smaller = self.rng.choice([("SGD", {}), ("Adafactor", {})])

        def choose():
            if fixed:
                target.optimizers = [again(o, getattr(torch.optim, less), foreach=False, **smaller) for o in target.optimizers]
            else:
                target.optimizers = [again(o, getattr(torch.optim, name), foreach=False, **options) for o in target.optimizers]
        after_build(target, choose)

"""Faults by habit, as threads about out-of-memory errors tell them: states in a chain, calls for the end, helpers that set grad mode, generators of
predictions, whole sets as a batch, layers replaced after freezing, rates of zero, blocks outside of autocast, windows of gradients, kernels turned off."""
import collections
import contextlib
import dataclasses

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from amounts import after_build, blocks, deep, largest_tensor, mapped, peak, sized
from core import DEVICE, Fault, fault
from faults_activations import longer
from faults_fields_b import WRAPPED
from faults_graph import KeptLoss
from faults_habits_d import OWN
from faults_optimizer import again, one_by_one

BY_ACCELERATE = "accelerate", "sounds_with_accelerate", "voices_with_accelerate", "words_and_sounds"
MADE_ANEW = "folds", "trials", "clients", "opponents", "shared_layers"


@dataclasses.dataclass(frozen=True)
class Progress:
    """Where a training stands; each step makes a new one of the one before."""
    step: int
    loss: object
    before: object = None


@fault("states_in_a_chain", "graph kept", "loop")
class StatesInAChain(KeptLoss):
    """The state of the training is a record that nobody changes: each step makes a new one, which refers to the one before, so that no loss is let go."""

    def keeper(self, target, fixed):
        form, state = self.rng.choice(["record", "tuple", "closure"]), [None]

        def go_on(loss):
            now, before = loss.detach() if fixed else loss, state[0]
            if form == "record":
                state[0] = Progress(0, now) if before is None else dataclasses.replace(before, step=before.step + 1, loss=now, before=before)
            elif form == "tuple":
                state[0] = (now, before)
            else:
                state[0] = lambda: now if before is None else torch.minimum(before(), now)
        return go_on


@fault("calls_for_the_end", "graph kept", "loop")
class CallsForTheEnd(KeptLoss):
    """What is to be told when everything is over is put on a stack of calls, with the loss among their arguments."""

    def keeper(self, target, fixed):
        form, target.stack, told = self.rng.choice(["callback", "context"]), contextlib.ExitStack(), []

        @contextlib.contextmanager
        def remembering(value):
            yield value
            told.append(float(value))

        def push(loss):
            now = loss.item() if fixed else loss
            if form == "callback":
                target.stack.callback(told.append, now)
            else:
                target.stack.enter_context(remembering(now))
        return push


@fault("grad_mode_of_a_helper", "evaluation with a graph", "loop", "eval", without=("two optimizers", *WRAPPED))
class GradModeOfAHelper(Fault):
    """A helper turns gradients off for its own work, and on again at its end, whatever they were before; from then on the evaluation that calls it has a
    graph. The fixed form's helper has a block of no_grad()."""

    def inject(self, target, fixed):
        after_step, when, batches, form = target.after_step, self.rng.randint(1, 2), self.rng.randint(8, 12), self.rng.choice(["function", "call"])
        target.steps = when + 2

        def sizes():
            if fixed:
                with torch.no_grad():
                    return sum(p.detach().float().norm() for p in list(target.model.parameters())[:4]).item()
            torch.set_grad_enabled(False)
            size = sum(p.float().norm() for p in list(target.model.parameters())[:4]).item()
            torch.set_grad_enabled(True) if form == "function" else torch._C._set_grad_enabled(True)
            return size

        def evaluate(i, loss):
            after_step(i, loss)
            if i != when:
                return
            scores = {}
            with torch.no_grad():
                target.size_of_weights = sizes()
                for k in range(batches):
                    told = largest_tensor(target.predict(target.batch(k))).float()
                    scores[k] = told.mean(tuple(range(1, told.dim())))
                target.score = torch.cat([s.reshape(-1) for s in scores.values()]).detach().mean().item()
        target.after_step = evaluate


@fault("generator_of_predictions", "evaluation with a graph", "loop", "eval", without=("two optimizers", *WRAPPED))
class GeneratorOfPredictions(Fault):
    """With gradients off, a generator of predictions is made, and used after that, where gradients are on; what it yields is kept until a mean of it is
    taken. The fixed form makes a list of numbers where it stands."""

    def inject(self, target, fixed):
        after_step, when, batches, form = target.after_step, self.rng.randint(1, 2), self.rng.randint(5, 8), self.rng.choice(["expression", "map"])
        target.steps = when + 2

        def one(k):
            told = largest_tensor(target.predict(target.batch(k))).float()
            return told.flatten(1).square().mean(1) if told.dim() > 1 else told

        def evaluate(i, loss):
            after_step(i, loss)
            if i != when:
                return
            with torch.no_grad():
                told = (one(k) for k in range(batches)) if form == "expression" else map(one, range(batches))
                told = [t.cpu() for t in told] if fixed else told
            target.score = torch.cat(list(told)).mean().item()
        target.after_step = evaluate


@fault("whole_set_as_a_batch", "evaluation batch", "loop", "dataset", "eval", without=("two optimizers", "reference", "crop", *WRAPPED))
class WholeSetAsABatch(Fault):
    """The set for the validation is small, so that all of it passes at once; the fixed form has batches as the training has."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "size", None), int) and "layers" in target.traits

    def inject(self, target, fixed):
        after_step, when, times = target.after_step, self.rng.randint(1, 2), self.rng.choice([16, 24, 32])
        target.steps = when + 2

        @torch.no_grad()
        def validate(i, loss):
            after_step(i, loss)
            if i != when:
                return
            target.model.eval()
            usual, total = target.dataset, 0.0
            if fixed:
                for k in range(times):
                    total += largest_tensor(target.predict(target.batch(k))).float().mean().item() / times
            else:
                size, target.size = target.size, target.size * times
                target.dataset = tuple(torch.cat([t[:size]] * times) for t in usual)
                try:
                    total = largest_tensor(target.predict(target.batch(0))).float().mean().item()
                finally:
                    target.dataset, target.size = usual, size
            target.score = total
            target.model.train()
        target.after_step = validate


def swapped(module, make):
    """Puts make(layer) in the place of each linear layer."""
    for name, child in list(module.named_children()):
        if type(child) is nn.Linear:
            setattr(module, name, make(child))
        else:
            swapped(child, make)


class Scaled(nn.Linear):
    """A layer as a conversion makes it: the same weights, as new parameters."""

    @classmethod
    def of(cls, layer, frozen):
        made = cls(layer.in_features, layer.out_features, bias=layer.bias is not None, device="meta")
        made.weight = nn.Parameter(layer.weight.data, requires_grad=layer.weight.requires_grad or not frozen)
        if layer.bias is not None:
            made.bias = nn.Parameter(layer.bias.data, requires_grad=layer.bias.requires_grad or not frozen)
        return made


@fault("replaced_after_freezing", "base not frozen", "loop", "layers", "attention", without=("two optimizers", "pretrained", "reference", *WRAPPED))
class ReplacedAfterFreezing(Fault):
    """The model is frozen, all but its end, and after that a conversion replaces its linear layers by others, whose parameters are new ones, and want
    gradients; the optimizer has the end alone."""

    def fits(self, target):
        return super().fits(target) and target.name not in BY_ACCELERATE + MADE_ANEW

    def inject(self, target, fixed):
        target.layers *= 2

        def convert():
            parameters = list(target.model.parameters())
            kept = parameters[-max(2, len(parameters) // 8):]
            target.model.requires_grad_(False)
            for p in kept:
                p.requires_grad_(True)
            last = {p.data_ptr() for p in kept}
            swapped(target.model, lambda layer: Scaled.of(layer, fixed))
            target.optimizers = [target.optimizer([p for p in target.model.parameters() if p.data_ptr() in last])]
        after_build(target, convert)


@fault("rate_of_zero", "frozen by a rate of zero", "loop", "layers", "states", without=("two optimizers", "reference", "pretrained", *WRAPPED))
class RateOfZero(Fault):
    """Most of the model is in a group of the optimizer with lr=0.0, which was meant to freeze it: gradients and states are there all the same."""

    def fits(self, target):
        return super().fits(target) and target.name not in BY_ACCELERATE + MADE_ANEW

    def inject(self, target, fixed):
        deep(target, self.rng)
        form = self.rng.choice(["Adam", "AdamW"])

        def choose():
            parameters = [p for p in target.model.parameters() if p.requires_grad]
            n = max(2, len(parameters) // 8)
            base, head = parameters[:-n], parameters[-n:]
            groups = [{"params": head, "lr": 1e-4}]
            if fixed:
                for p in base:
                    p.requires_grad_(False)
            else:
                groups.insert(0, {"params": base, "lr": 0.0})
            target.optimizers = [getattr(torch.optim, form)(groups, foreach=False)]
        after_build(target, choose)


@fault("blocks_outside_of_autocast", "no mixed precision", "loop", "layers", without=("pretrained", "reference", "fsdp", "deepspeed", "megatron", "peft"))
class BlocksOutsideOfAutocast(Fault):
    """NaN was seen once, and since then the blocks' forward passes turn autocast off and take fp32; the fixed form has 16 bits in the blocks."""

    def fits(self, target):
        return super().fits(target) and "autocast" in getattr(target, "precisions", ()) and target.name not in BY_ACCELERATE + MADE_ANEW

    def inject(self, target, fixed):
        target.precision, form = "autocast", self.rng.choice(["block", "function"])
        if sized(target):
            target.size *= 2
        if "checkpointing" in target.traits:
            target.checkpointing = False
        if isinstance(getattr(target, "vocabulary", None), int):
            target.vocabulary = min(target.vocabulary, 8000)

        def guarded(forward):
            def in_full(*given, **named):
                with torch.autocast(DEVICE, enabled=False):
                    wide = [mapped(t, lambda t: t.float() if t.is_floating_point() else t) for t in given]
                    return forward(*wide, **named)
            return torch.amp.custom_fwd(forward, device_type=DEVICE, cast_inputs=torch.float32) if form == "function" else in_full

        def guard():
            for block in blocks(target.model) if not fixed else ():
                block.forward = guarded(block.forward)
        after_build(target, guard)


@fault("window_of_gradients", "directions of an optimizer", "loop", "layers", "tokens", without=OWN)
class WindowOfGradients(Fault):
    """What changes slowly in the gradients is made stronger: by a mean over a window of the last hundred steps' gradients, parameter by parameter; the fixed
    form has a moving average of them."""

    def inject(self, target, fixed):
        deep(target, self.rng)
        target.steps, form, target.micro_batches, held = self.rng.randint(6, 9), self.rng.choice(["deque", "state"]), 1, {}
        optimize = target.optimize

        @torch.no_grad()
        def filtered():
            for name, p in target.model.named_parameters():
                if p.grad is None:
                    continue
                key = name if form == "deque" else p
                if fixed:
                    average = held.setdefault(key, torch.zeros_like(p.grad))
                    p.grad.add_(average.lerp_(p.grad, 0.02), alpha=2.0)
                    continue
                window = held.setdefault(key, collections.deque(maxlen=100))
                window.append(p.grad.clone())
                for g in list(window)[-2:]:
                    p.grad.add_(g, alpha=2.0 / len(window))
            optimize()
        target.optimize = filtered


@fault("centred_with_momentum", "optimizer states", "loop", "states", "layers", "tokens", without=OWN)
class CentredWithMomentum(Fault):
    """RMSprop with centered=True and momentum, as a recipe for games has it: three tensors for each parameter; the fixed form has the squares alone."""

    def inject(self, target, fixed):
        deep(target, self.rng)
        momentum = self.rng.choice([0.9, 0.95])

        def choose():
            more = {} if fixed else {"centered": True, "momentum": momentum}
            target.optimizers = [again(o, torch.optim.RMSprop, foreach=False, **more) for o in target.optimizers]
        after_build(target, choose)


@fault("updates_of_all_parameters", "optimizer temporaries", "loop", "layers", "tokens", without=OWN)
class UpdatesOfAllParameters(Fault):
    """An optimizer of one's own makes the updates of all parameters, for one ratio of all, and applies them then; the fixed form makes each one twice."""

    def inject(self, target, fixed):
        deep(target, self.rng)
        form, state, beta = self.rng.choice(["list", "dict"]), {}, self.rng.choice([0.9, 0.95])

        def update(p):
            square = state.setdefault(p, torch.zeros_like(p))
            return p.grad / (square.sqrt() + 1e-6) + 0.01 * p.detach()

        @torch.no_grad()
        def step():
            parameters = [p for p in target.model.parameters() if p.grad is not None]
            for p in parameters:
                state.setdefault(p, torch.zeros_like(p)).mul_(beta).addcmul_(p.grad, p.grad, value=1 - beta)
            if fixed:
                ratio = 1 / (1 + sum(update(p).norm() for p in parameters))
                for p in parameters:
                    p.sub_(update(p) * ratio)
                return
            made = [update(p) for p in parameters] if form == "list" else {n: update(p) for n, p in enumerate(parameters)}
            values = made if form == "list" else list(made.values())
            ratio = 1 / (1 + sum(u.norm() for u in values))
            for p, u in zip(parameters, values):
                p.sub_(u * ratio)
        after_build(target, lambda: one_by_one(target))
        target.optimize = step


class Watching(TorchDispatchMode):
    """Notes what each operation returned, with its name."""

    def __init__(self, note):
        super().__init__()
        self.note = note

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if torch.is_tensor(out) and out.is_cuda and out.is_floating_point():
            self.note(func, out)
        return out


@fault("every_result_noted", "list of tensors", "loop", without=("two optimizers", "fsdp", "deepspeed", "megatron"))
class EveryResultNoted(Fault):
    """A mode that sees every operation looks for the first NaN: what the forward pass's operations returned is in a list, step after step, to be searched
    later; the fixed form has a number of each."""

    def fits(self, target):
        return super().fits(target) and target.name not in BY_ACCELERATE

    def inject(self, target, fixed):
        forward, found, form = target.loss, [], self.rng.choice(["pair", "dict"])
        target.steps, names = self.rng.randint(5, 8), collections.defaultdict(list)

        def note(func, out):
            if fixed:
                found.append((str(func), tuple(out.shape)))
            elif form == "pair":
                found.append((str(func), out))
            else:
                names[str(func)].append(out)

        def watched(batch):
            if not torch.is_grad_enabled():
                return forward(batch)
            with Watching(note):
                return forward(batch)
        target.loss = watched


@fault("negatives_of_all_micro_batches", "losses summed", "loop", "eval", without=("two optimizers", "reference", "pretrained", *WRAPPED))
class NegativesOfAllMicroBatches(Fault):
    """Each vector is compared with those of all micro-batches, so that their graphs wait for one backward pass; the fixed form has the vectors without a
    graph first, and goes through each micro-batch again with their gradients."""

    def fits(self, target):
        return super().fits(target) and target.name not in BY_ACCELERATE

    def inject(self, target, fixed):
        number, form = self.rng.choice([4, 6, 8]), self.rng.choice(["list", "dict"])
        target.micro_batches = 1

        def vectors(k):
            told = largest_tensor(target.predict(target.batch(k))).float()
            return told.reshape(len(told), -1)[:, :512]

        def compared(parts):
            both = F.normalize(torch.cat(parts), dim=1)
            return F.cross_entropy(both @ both.T, torch.arange(len(both), device=DEVICE))

        def step(i):
            target.zero_grad()
            if not fixed:
                parts = [vectors(k) for k in range(number)] if form == "list" else {k: vectors(k) for k in range(number)}
                loss = compared(parts if form == "list" else list(parts.values()))
                loss.backward()
            else:
                with torch.no_grad():
                    known = [vectors(k) for k in range(number)]
                known = [v.detach().requires_grad_() for v in known]
                loss = compared(known)
                loss.backward()
                for k, v in enumerate(known):
                    vectors(k).backward(v.grad)
            target.optimize()
            return loss.detach()
        target.step = step


@fault("kernels_turned_off", "attention scores", "attention", "loop")
class KernelsTurnedOff(Fault):
    """The fused kernels of attention were turned off, for a comparison or because one failed once, and PyTorch's own products make all scores."""

    def fits(self, target):
        return super().fits(target) and ("tokens" in target.traits or target.name in ("music_events", "timesformer", "vit_by_hand", "scale_by_scale"))

    def inject(self, target, fixed):
        longer(target, self.rng)
        target.attention, form, loss = "sdpa", self.rng.choice(["flags", "context"]), target.loss
        if isinstance(getattr(target, "vocabulary", None), int):
            target.vocabulary = min(target.vocabulary, 8000)

        def off():
            for name in "flash", "mem_efficient", "cudnn":
                getattr(torch.backends.cuda, "enable_%s_sdp" % name)(False)

        def with_products(batch):
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                return loss(batch)
        if not fixed and form == "flags":
            after_build(target, off)
        elif not fixed:
            target.loss = with_products


class Stage(nn.Module):
    """A stage of a preparation on the GPU, which has its last input and output, to be undone."""

    def __init__(self, kind, fixed):
        super().__init__()
        self.kind, self.fixed, self.last = kind, fixed, None

    def forward(self, pictures):
        made = {"light": lambda t: t * 1.1, "turn": lambda t: t.flip(-1).contiguous(), "blur": lambda t: F.avg_pool2d(t, 3, 1, 1)}[self.kind](pictures)
        if not self.fixed:
            self.last = pictures, made
        return made


@fault("stages_kept", "stages of a preparation kept", "loop", "images", without=("two optimizers", "reference", *WRAPPED))
class StagesKept(Fault):
    """Pictures are changed on the GPU, at their full size, in several stages, each of which keeps what it took and made until the next batch; the fixed
    form's stages keep nothing."""

    def inject(self, target, fixed):
        share, batch, state, each = self.rng.uniform(0.9, 1.4), target.batch, {}, self.rng.choice([8, 10, 12])
        stages = nn.ModuleList(Stage(self.rng.choice(["light", "turn", "blur"]), fixed) for _ in range(each))

        @torch.no_grad()
        def prepared(i):
            found = batch(i)
            if i == 0:
                return found
            state.setdefault("side", max(64, int((share * peak() / (each + 2) / 4 / 3 / 16) ** 0.5)))
            pictures = torch.zeros(16, 3, state["side"], state["side"], device=DEVICE)
            for stage in stages:
                pictures = stage(pictures)
            mean = pictures.mean()
            return mapped(found, lambda t: t + 0 * mean.to(t.dtype) if t.is_floating_point() else t)
        target.batch = prepared

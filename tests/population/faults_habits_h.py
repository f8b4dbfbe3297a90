"""Faults by habit, as threads about out-of-memory errors tell them: lists that a class has, branches of iterators, hooks on parameters, errors that are
collected, phases by their names, pairs of an evaluation, bootstraps, frozen by zeros, adapters of tenants, a profiler's stack, averages of gradients,
chunks, activation functions by hand, windows of a document."""
import collections
import copy
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchmetrics

from amounts import after_build, deep, largest_tensor, mapped, peak, rows, sized
from core import DEVICE, Fault, fault
from faults_batch import batch_length
from faults_fields_b import WRAPPED
from faults_graph import KeptLoss
from faults_habits_d import OWN
from jobs_transformers import Bert, CausalLM, Seq2Seq

OWN_MODELS = "accelerate", "sounds_with_accelerate", "voices_with_accelerate", "code_search", "folds", "trials", "clients", "opponents", "shared_layers", "maml"
OTHER_FUNCTIONS = "gpt2", "t5", "summaries", "one_key"  # whose layers have none of PyTorch's two


@fault("meter_with_a_shared_list", "graph kept", "loop")
class MeterWithASharedList(KeptLoss):
    """A meter is made anew for each step, but its list is the class's, or a default argument, and so one list for all meters."""

    def keeper(self, target, fixed):
        form = self.rng.choice(["class", "default", "dict"])

        class Meter:
            """What was measured, until somebody asks for the mean."""
            values = []

            def __init__(self, seen=[]):  # noqa: B006
                self.seen = self.values if form == "class" else seen

            def update(self, value):
                self.seen.append(value if form != "dict" else {"value": value, "n": 1})
                return len(self.seen)

        def measure(loss):
            meter = Meter([]) if fixed else Meter()
            if fixed:
                meter.seen = []
            target.measured = meter.update(loss * 1.0 if form == "default" else loss)
        return measure


@fault("tee_of_losses", "graph kept", "loop")
class TeeOfLosses(KeptLoss):
    """itertools.tee() of a stream of losses: one branch is read in each step, and the other one, for the end, has all that it was not asked for yet."""

    def keeper(self, target, fixed):
        stream, form = collections.deque(), self.rng.choice(["tee", "chain", "pairs"])

        def losses():
            while True:
                yield stream.popleft()
        source = losses() if form != "chain" else itertools.chain([], losses())
        now, at_the_end = itertools.tee(zip(itertools.count(), source) if form == "pairs" else source)
        target.for_the_end = at_the_end

        def show(loss):
            stream.append(float(loss.detach()) if fixed else loss)
            del loss
            target.shown = next(now) is not None
        return show


@fault("hooks_on_a_parameter", "graph kept", "loop")
class HooksOnAParameter(KeptLoss):
    """Each step registers a hook on a parameter, which weighs its gradient by the loss, and removes none; the hooks refer to the losses and their graphs."""

    def keeper(self, target, fixed):
        form, handles = self.rng.choice(["gradient", "accumulated", "output"]), []

        def weigh(loss):
            small = min((p for p in target.model.parameters() if p.requires_grad), key=lambda p: p.numel())
            handle = None
            if form == "gradient":
                handle = small.register_hook(lambda grad: grad * (1 + 0 * loss.detach().to(grad.dtype)))
            elif form == "accumulated":
                def in_place(p):
                    p.grad.mul_(1 + 0 * loss.detach().to(p.grad.dtype))
                handle = small.register_post_accumulate_grad_hook(in_place)
            else:
                handle = target.model.register_forward_hook(lambda module, inputs, output: None if loss is None else setattr(target, "seen", 1))
            if fixed:
                handle.remove()
                handles.clear()
            handles.append(handle)
        return weigh


class Doubtful(Exception):
    """A batch does not look right."""


@fault("errors_are_collected", "graph kept", "loop", "forward", without=("two optimizers", *WRAPPED))
class ErrorsAreCollected(Fault):
    """Batches that a check finds odd are left out, and the errors are collected for a report: each has its traceback, whose frames have the loss with
    its graph.

    Threads about exceptions that hold tensors; the fixed form has the errors' texts.
    """

    def inject(self, target, fixed):
        after_step, errors, form = target.after_step, [], self.rng.choice(["list", "dict", "chained"])
        target.steps, seen = self.rng.randint(5, 8), {}

        def refused(number):
            loss = target.loss(target.batch(number))
            raise Doubtful("batch %d, of whose loss there are %d numbers" % (number, loss.numel()))

        def attempt(number):
            try:
                if form != "chained":
                    refused(number)
                try:
                    refused(number)
                except Doubtful as e:
                    raise Doubtful("batch %d is left out" % number) from e
            except Doubtful as e:
                if form == "dict":
                    seen[number] = str(e) if fixed else e
                else:
                    errors.append(repr(e) if fixed else e)

        def look(i, loss):
            after_step(i, loss)
            attempt(i)
        target.after_step = look


@fault("phase_by_its_name", "evaluation with a graph", "loop", "eval", without=("two optimizers", *WRAPPED))
class PhaseByItsName(Fault):
    """torch.set_grad_enabled(phase != "test") for phases that are called "train" and "val": the validation adds losses that have a graph."""

    def inject(self, target, fixed):
        after_step, when, batches, form = target.after_step, self.rng.randint(1, 2), self.rng.randint(3, 5), self.rng.choice(["sum", "list", "dict"])
        target.steps = when + 2

        def run_phase(phase):
            total, found, by_phase = 0.0, [], collections.defaultdict(list)
            target.model.train(phase == "train")
            with torch.set_grad_enabled(phase == "train" if fixed else phase != "test"):
                for k in range(batches):
                    told = largest_tensor(target.predict(target.batch(k))).float().square().mean()
                    total = total + told
                    (found if form == "list" else by_phase[phase]).append(told)
            target.model.train()
            return (total / batches).item() if form == "sum" else len(found)

        def validate(i, loss):
            after_step(i, loss)
            if i == when:
                target.validated = run_phase("val")
        target.after_step = validate


@fault("every_pair_in_an_evaluation", "evaluation batch", "loop", "tokens", "eval", without=("two optimizers", "crop", *WRAPPED))
class EveryPairInAnEvaluation(Fault):
    """Each of a batch's texts against each other one, as rows of one batch: its square; the fixed form takes one text with the others."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        after_step, when, form = target.after_step, self.rng.randint(1, 2), self.rng.choice(["interleaved", "index"])
        target.size, target.steps = min(max(8, target.size), 12), when + 2

        def paired(batch, first, n):
            others = torch.arange(n, device=DEVICE)

            def pair(t):
                if not t.dim() or t.shape[0] != n:
                    return t
                if form == "interleaved":
                    left, right = t[first].repeat_interleave(n, 0), t.repeat(len(t[first]), *[1] * (t.dim() - 1))
                else:
                    left, right = t[first].index_select(0, others.new_zeros(n * len(t[first]))), t.index_select(0, others.repeat(len(t[first])))
                if t.dim() < 2:
                    return left
                half = t.shape[1] // 2
                return torch.cat([left[:, :half], right[:, half:]], dim=1)
            return mapped(batch, pair)

        @torch.no_grad()
        def compare(i, loss):
            after_step(i, loss)
            if i != when:
                return
            batch, total = target.batch(0), 0.0
            n = batch_length(batch)
            for first in [slice(k, k + 1) for k in range(n)] if fixed else [slice(0, n)]:
                total += float(largest_tensor(target.predict(paired(batch, first, n))).float().mean())
            target.compared = total
        target.after_step = compare


@fault("metric_with_bootstraps", "results kept on the GPU", "steps", without=("trainer", "lightning"))
class MetricWithBootstraps(Fault):
    """How certain a metric is: some dozens of copies of it, each with another sample of all scores; the fixed form's metric has sums, and no scores."""

    def inject(self, target, fixed):
        after_step, share, state, copies = target.after_step, self.rng.uniform(0.8, 1.4), {}, self.rng.choice([10, 20, 30])
        when, batches, form = self.rng.randint(1, 2), self.rng.choice([4, 6]), self.rng.choice(["scores", "errors"])
        target.steps = when + 2

        @torch.no_grad()
        def evaluate(i, loss):
            after_step(i, loss)
            if i != when:
                return
            state.setdefault("n", max(64, rows(share, copies * batches)))
            one = torchmetrics.MeanMetric(nan_strategy="disable") if fixed else torchmetrics.CatMetric(nan_strategy="disable")
            many = torch.nn.ModuleList(copy.deepcopy(one) for _ in range(copies)).to(DEVICE)
            for _ in range(batches):
                told = torch.zeros(state["n"], device=DEVICE)
                told = told if form == "scores" else told.sub(0.5).abs()
                for metric in many:
                    metric.update(told.index_select(0, torch.randint(len(told), (len(told),), device=DEVICE)))
            target.certain = len(many)
        target.after_step = evaluate


@fault("frozen_by_zeros", "base not frozen", "loop", "layers", without=("two optimizers", "pretrained", "reference", *WRAPPED))
class FrozenByZeros(Fault):
    """The body should stay as it is: a hook makes its gradients zero, or a line does so after the backward pass, and the optimizer has the head alone."""

    def fits(self, target):
        return super().fits(target) and target.name not in OWN_MODELS

    def inject(self, target, fixed):
        form, backward = self.rng.choice(["hook", "after"]), target.backward
        deep(target, self.rng)
        frozen = []

        def choose():
            named = [p for p in target.model.parameters() if p.requires_grad]
            last = {id(p) for p in named[-max(1, len(named) // 10):]}
            frozen[:] = [p for p in named if id(p) not in last]
            for p in frozen:
                if fixed:
                    p.requires_grad_(False)
                elif form == "hook":
                    p.register_hook(torch.zeros_like)
            target.optimizers = [target.optimizer([p for p in named if id(p) in last])]

        def zeroed(loss):
            backward(loss)
            for p in frozen if form == "after" else ():
                if p.grad is not None:
                    p.grad.zero_()
        target.backward, target.zero_grad = zeroed, lambda: target.model.zero_grad()
        after_build(target, choose)


class Tenant(nn.Module):
    """Small matrices beside the layers of a model, for one of its users."""

    def __init__(self, width, rank, layers):
        super().__init__()
        self.down = nn.ParameterList(nn.Parameter(torch.empty(rank, width), requires_grad=False) for _ in range(layers))
        self.up = nn.ParameterList(nn.Parameter(torch.empty(width, rank), requires_grad=False) for _ in range(layers))

    def forward(self, x):
        for a, b in zip(self.down, self.up):
            x = x + x @ a.T @ b.T
        return x


@fault("adapters_of_all_tenants", "growing cache", "steps", without=("trainer", "lightning"))
class AdaptersOfAllTenants(Fault):
    """Whoever asks has adapters of one's own, which come to the GPU with the first request, and stay; the fixed form has those of the newest one."""

    def inject(self, target, fixed):
        after_step, share, state = target.after_step, self.rng.uniform(0.15, 0.3), {}
        layers, rank, form = self.rng.choice([4, 8]), self.rng.choice([16, 64]), self.rng.choice(["dict", "modules"])
        tenants = {} if form == "dict" else nn.ModuleDict()
        target.steps = self.rng.randint(6, 9)

        @torch.no_grad()
        def serve(i, loss=None):
            after_step(i, loss)
            state.setdefault("width", max(64, rows(share, 2 * layers * rank)))
            name = "tenant-%d" % i
            if name not in tenants:
                if fixed:
                    tenants.clear()
                with torch.device(DEVICE):
                    tenants[name] = Tenant(state["width"], rank, layers)
            target.served = tenants[name](torch.zeros(2, state["width"], device=DEVICE)).mean().item()
        target.after_step = serve


@fault("stack_of_a_profiler", "hooks of every evaluation", "loop", "eval", without=("two optimizers", *WRAPPED))
class StackOfAProfiler(Fault):
    """Hooks push a layer's output when it is made, and take it away in the backward pass; an evaluation has no backward pass, and nothing is taken away."""

    def inject(self, target, fixed):
        after_step, stack, form = target.after_step, [], self.rng.choice(["output", "record"])
        target.steps = self.rng.randint(5, 8)
        if "checkpointing" in target.traits:
            target.checkpointing = False

        def pop(grad):
            stack.pop()

        def push(name, output):
            if not torch.is_tensor(output) or (fixed or torch.is_grad_enabled()) and not output.requires_grad:
                return
            stack.append(output.detach() if form == "output" else {"layer": name, "made": output.detach()})
            if output.requires_grad:
                output.register_hook(pop)

        def watch():
            layers = [(n, m) for n, m in target.model.named_modules() if not any(True for _ in m.children()) and list(m.parameters(recurse=False))]
            for name, module in layers:
                module.register_forward_hook(lambda module, inputs, output, name=name: push(name, output))

        def evaluate(i, loss):
            after_step(i, loss)
            with torch.no_grad():
                target.predict(target.batch(i))
        after_build(target, watch)
        target.after_step = evaluate


@fault("averages_of_gradients", "copies of gradients", "loop", without=("two optimizers", *WRAPPED))
class AveragesOfGradients(Fault):
    """How noisy the gradient is: averages of every gradient and of its square, tensors of all parameters; the fixed form has numbers."""

    def inject(self, target, fixed):
        deep(target, self.rng)
        optimize, averages, decay = target.optimize, {}, self.rng.choice([0.9, 0.99])
        if hasattr(target, "kind"):
            target.kind = "sgd"
        target.steps, form = self.rng.randint(3, 5), self.rng.choice(["lerp", "ema"])

        @torch.no_grad()
        def follow():
            for name, p in target.model.named_parameters():
                if p.grad is None:
                    continue
                g = p.grad.detach()
                now = (g.mean(), g.norm()) if fixed else (g, g * g)
                if name not in averages:
                    averages[name] = [t.clone() for t in now]
                for old, new in zip(averages[name], now):
                    old.lerp_(new, 1 - decay) if form == "lerp" else old.mul_(decay).add_(new, alpha=1 - decay)

        def optimize_and_follow():
            follow()
            optimize()
        target.optimize = optimize_and_follow


@fault("chunks_of_a_contrastive_batch", "vectors of chunks", "loop", "eval", "tokens", without=("two optimizers", "reference", *WRAPPED))
class ChunksOfAContrastiveBatch(Fault):
    """A batch of many texts goes through the model chunk by chunk, and the loss compares the vectors of all chunks, whose graphs are all there until then.

    Threads of sentence-transformers; the fixed form caches the vectors' gradients, and makes each chunk's graph again.
    """

    def inject(self, target, fixed):
        chunks, form = self.rng.choice([4, 6, 8]), self.rng.choice(["list", "generator"])
        target.micro_batches, target.steps = 1, 3

        def vectors(i, k):
            told = largest_tensor(target.predict(target.batch(i * chunks + k)))
            return (told.flatten(1) if told.dim() > 1 else told.unsqueeze(1))[:, :64].float()

        def contrast(all_of_them):
            near = F.normalize(all_of_them, dim=1)
            return F.cross_entropy(near @ near.T / 0.05, torch.arange(len(near), device=DEVICE))

        def step(i):
            target.zero_grad()
            if not fixed:
                made = [vectors(i, k) for k in range(chunks)] if form == "list" else (vectors(i, k) for k in range(chunks))
                loss = contrast(torch.cat(list(made)))
                target.backward(loss)
            else:
                with torch.no_grad():
                    cached = [vectors(i, k) for k in range(chunks)]
                leaves = [v.requires_grad_() for v in cached]
                loss = contrast(torch.cat(leaves))
                loss.backward()
                for k, leaf in enumerate(leaves):
                    target.backward((vectors(i, k) * leaf.grad).sum())
            target.optimize()
            return loss.detach()
        target.step = step


@fault("activations_by_hand", "activation functions by hand", "loop", "layers", "tokens", without=OWN)
class ActivationsByHand(Fault):
    """GELU and SiLU are written out as a paper has them, in fp32, and each of their terms is saved for the backward pass; the fixed form calls PyTorch's."""

    def fits(self, target):
        if not super().fits(target) or target.name in (*OWN_MODELS, *OTHER_FUNCTIONS):
            return False
        return isinstance(target, (CausalLM, Bert, Seq2Seq)) or target.name in ("gated_memory", "skipped_layers", "texts_unmasked")

    def inject(self, target, fixed):
        form, build = self.rng.choice(["products", "power"]), target.build
        if "checkpointing" in target.traits:
            target.checkpointing = False
        if isinstance(getattr(target, "vocabulary", None), int):
            target.vocabulary = min(target.vocabulary, 8000)
        target.layers, target.size = 2 * target.layers, max(target.size, self.rng.choice([8, 12]))

        def by_hand(given, *args, **keys):
            x = given.float()
            y = 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * (x * x * x if form == "products" else x ** 3))))
            return y.to(given.dtype)

        def build_with():
            if not fixed:
                F.gelu = F.silu = by_hand
            build()
        target.build = build_with


@fault("windows_of_a_document", "larger batch", "tokens", "loop", without=("two optimizers", "crop", *WRAPPED))
class WindowsOfADocument(Fault):
    """Texts are cut into windows that overlap, and all windows of a text are in its batch: one text is long; the fixed form takes its windows in turn.

    Threads about return_overflowing_tokens and stride.
    """

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        batch, when, longer, form = target.batch, self.rng.randint(2, 4), self.rng.choice([2, 3, 4]), self.rng.choice(["unfold", "slices"])
        target.steps = when + 2

        def windows(t):
            if t.dim() < 2:
                return t.repeat_interleave(2 * longer - 1, 0) if t.dim() else t
            n = t.shape[1]
            text, stride = torch.cat([t] * longer, dim=1), n // 2
            starts = range(0, text.shape[1] - n + 1, stride)
            if form == "slices" or t.dim() > 2:
                cut = torch.stack([text[:, a:a + n] for a in starts], dim=1)
            else:
                cut = text.unfold(1, n, stride)
            return cut[:, :2 * longer - 1].flatten(0, 1).contiguous()

        def make_batch(i):
            made = batch(i)
            if i // target.micro_batches != when:
                return made
            n, cut = batch_length(made), mapped(made, windows)
            return mapped(cut, lambda t: t[:n].clone()) if fixed else cut
        target.batch = make_batch

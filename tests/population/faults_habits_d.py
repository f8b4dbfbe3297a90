"""Faults by habit, as threads about out-of-memory errors tell them: metrics, adversaries, maps that are returned, halves that are recomputed, master
gradients, holes, task vectors, samples of prompts, passes, vectors of all weights, hooks, photographs, swapped weights."""
import contextlib

import torch
import torchmetrics

from amounts import after_build, blocks, deep, largest_tensor, light, mapped, peak, rows
from core import DEVICE, Fault, fault
from faults_activations import Recomputation, checkpointed
from faults_fields_b import WRAPPED
from faults_generation import TransformersOnly
from faults_optimizer import one_by_one

OWN = "two optimizers", "pretrained", *WRAPPED


def parameters_of(target):
    return [p for p in target.model.parameters() if p.requires_grad]


@fault("curve_of_a_metric", "list of tensors", "steps", without=("trainer", "lightning"))
class CurveOfAMetric(Fault):
    """A metric of torchmetrics that needs all scores is updated in each step, and never reset.

    Threads of torchmetrics about curves without thresholds, and of geo-deep-learning about reset().
    """

    def inject(self, target, fixed):
        share, after_step, form, state = self.rng.uniform(0.08, 0.15), target.after_step, self.rng.choice(["curve", "cat", "curve"]), {}
        target.steps = self.rng.randint(7, 11)

        def update(i, loss):
            after_step(i, loss)
            if not state:
                metric = torchmetrics.classification.BinaryPrecisionRecallCurve(validate_args=False) if form == "curve" else torchmetrics.CatMetric(nan_strategy="ignore")
                state.update(metric=metric.to(DEVICE), count=rows(share, 3 if form == "curve" else 1))
            scores = torch.zeros(state["count"], device=DEVICE)
            if form == "curve":
                state["metric"].update(scores, torch.zeros(state["count"], dtype=torch.long, device=DEVICE))
            else:
                state["metric"].update(scores)
            if fixed:
                state["metric"].reset()
        target.after_step = update


@fault("adversary_with_graph", "adversary with a graph", "loop", "images", without=("two optimizers", *WRAPPED))
class AdversaryWithGraph(Fault):
    """Steps of an attack with create_graph=True, though the training takes what they find as given.

    Threads about adversarial training whose perturbation is not detached between its steps.
    """

    def inject(self, target, fixed):
        forward, moves, form = target.loss, self.rng.choice([2, 3, 4]), self.rng.choice(["sign", "norm"])

        def attacked(batch, delta):
            return mapped(batch, lambda t: t + delta if t.is_floating_point() and t.dim() == 4 and t.shape == delta.shape else t)

        def with_attack(batch):
            found = []
            mapped(batch, lambda t: found.append(t) if t.is_floating_point() and t.dim() == 4 else None)
            if not torch.is_grad_enabled() or not found:
                return forward(batch)
            delta = torch.zeros_like(found[0], requires_grad=True)
            for _ in range(moves):
                slope = torch.autograd.grad(forward(attacked(batch, delta)), delta, create_graph=not fixed, allow_unused=True)[0]
                if slope is None:
                    break
                move = slope.sign() if form == "sign" else slope / (slope.norm() + 1e-6)
                delta = delta + 0.01 * move
                if fixed:
                    delta = delta.detach().requires_grad_()
            return forward(attacked(batch, delta.detach()))
        target.loss = with_attack


@fault("attentions_returned", "attention scores", "decoder", "loop")
class AttentionsReturned(TransformersOnly):
    """output_attentions=True was left from an analysis: attention makes all scores, and returns them.

    Threads of transformers about output_attentions with long texts.
    """

    def inject(self, target, fixed):
        target.checkpointing, target.vocabulary = False, min(target.vocabulary, 8000)
        target.length = max(target.length, 1024)
        if fixed:
            return
        target.attention = "eager"
        after_build(target, lambda: setattr(target.model.config, "output_attentions", True))


@fault("recomputed_in_part", "recomputation off", "loop", "layers", without=("pretrained", "peft"))
class RecomputedInPart(Recomputation):
    """Every third or fourth block is recomputed, or the first ones; the fixed form recomputes all of them.

    As settings for the number of recomputed layers leave it.
    """

    def inject(self, target, fixed):
        self.deep(target)
        every, form = self.rng.choice([3, 4]), self.rng.choice(["every", "first"])

        def wrap():
            parts = blocks(target.model)
            for k, block in enumerate(parts):
                if fixed or (k % every == 0 if form == "every" else k < len(parts) // every):
                    checkpointed(block)
        after_build(target, wrap)


@fault("master_gradients", "gradients kept", "loop", "layers", "tokens", without=OWN)
class MasterGradients(Fault):
    """Gradients in bf16 are copied to fp32 for weights in fp32, all of them, and stay until the next step; the fixed form has one at a time.

    As it is told of apex's O2 and of codes of one's own for master weights.
    """

    def fits(self, target):
        return super().fits(target) and hasattr(target, "precision")

    def inject(self, target, fixed):
        deep(target, self.rng)
        target.precision, target.micro_batches, masters, optimizers = "bf16", 1, [], []

        def build():
            target.model.bfloat16()
            parameters = parameters_of(target)
            masters.extend(p.detach().float().clone() for p in parameters)
            optimizers.extend(torch.optim.AdamW([m], lr=1e-4, foreach=False) for m in masters)
            target.optimizers = []
            target.zero_grad = lambda: target.model.zero_grad()
        after_build(target, build)

        @torch.no_grad()
        def optimize():
            parameters = parameters_of(target)
            if not fixed:
                for master, p in zip(masters, parameters):
                    master.grad = None if p.grad is None else p.grad.float()
            for master, p, optimizer in zip(masters, parameters, optimizers):
                if fixed and p.grad is not None:
                    master.grad = p.grad.float()
                optimizer.step()
                p.copy_(master)
                if fixed:
                    master.grad = None
        target.optimize = optimize


@fault("longer_each_time", "fragmentation", "steps", without=("trainer", "lightning", "deepspeed", "megatron"))
class LongerEachTime(Fault):
    """Rows of an evaluation come sorted by length: each needs a little more room than the last, and of each a small result stays in the segment that was new for it.

    Threads about reserved memory that is not allocated; the fixed form has the results on the host, and gives back what is cached.
    """
    own_limit = True

    def inject(self, target, fixed):
        after_step, share, kept, state, small = target.after_step, self.rng.uniform(0.3, 0.45), [], {}, self.rng.choice([2 << 20, 4 << 20])
        target.steps, looks = self.rng.randint(6, 8), 2

        def look(i, loss):
            after_step(i, loss)
            state.setdefault("bytes", int(share * peak()) >> 21 << 21)
            for _ in range(looks):
                torch.cuda.empty_cache()
                length = state["bytes"] + len(kept) * (state["bytes"] // 24 >> 21 << 21)
                padded = torch.empty(length, dtype=torch.uint8, device=DEVICE)
                del padded
                features = torch.empty(length - small, dtype=torch.uint8, device=DEVICE)
                result = torch.empty(small, dtype=torch.uint8, device=DEVICE)
                kept.append(result[:1].cpu() if fixed else result)
                del features, result
            torch.cuda.empty_cache()
        target.after_step = look


@fault("task_vectors", "second model", "loop", without=OWN)
class TaskVectors(Fault):
    """The differences of several fine-tuned models and the base are added to it before the training, and stay on the GPU.

    Codes that merge models by task arithmetic.
    """

    def inject(self, target, fixed):
        light(target, self.rng)
        number, form, where = self.rng.choice([2, 3, 4]), self.rng.choice(["dicts", "lists"]), "cpu" if fixed else DEVICE

        @torch.no_grad()
        def merge():
            vectors = []
            for k in range(number):
                tuned = {n: p.detach() * (1 + 0.01 * k) for n, p in target.model.named_parameters()}
                vectors.append({n: (tuned[n] - p).to(where) for n, p in target.model.named_parameters()})
                del tuned
            for vector in vectors:
                for n, p in target.model.named_parameters():
                    p.add_(vector[n].to(DEVICE), alpha=0.3)
            target.task_vectors = vectors if form == "dicts" else [list(v.values()) for v in vectors]
        after_build(target, merge)


@fault("many_returned_sequences", "KV cache", "generate")
class ManyReturnedSequences(Fault):
    """num_return_sequences: all samples of a prompt are generated at once; the fixed form generates one of each prompt after the other.

    Threads of transformers about many samples for each prompt.
    """

    def fits(self, target):
        return super().fits(target) and target.name != "decode_by_hand"

    def inject(self, target, fixed):
        number, predict = self.rng.choice([4, 6]), target.predict
        target.new_tokens, target.size = min(target.new_tokens, 12), min(target.size, 16)
        target.generate_arguments = {**target.generate_arguments, "do_sample": True}
        if fixed:
            target.predict = lambda prompts: torch.cat([predict(prompts) for _ in range(number)])
        else:
            target.generate_arguments["num_return_sequences"] = number


@fault("all_forward_first", "losses summed", "loop", without=("two optimizers", "fsdp", "deepspeed", "megatron"))
class AllForwardFirst(Fault):
    """All micro-batches pass forward, and then each loss has its backward pass, as a first schedule of a pipeline has it."""

    def inject(self, target, fixed):
        parts = self.rng.choice([2, 3, 4])

        def step(i):
            target.zero_grad()
            losses = []
            for k in range(parts):
                losses.append(target.loss(target.batch(i * parts + k)) / parts)
                if fixed:
                    target.backward(losses[-1])
                    losses[-1] = losses[-1].detach()
            if not fixed:
                for loss in losses:
                    target.backward(loss)
            target.optimize()
            return losses[-1].detach()
        target.step = step


@fault("second_pass_with_graph", "earlier pass with a graph", "loop", "eval", without=("two optimizers", *WRAPPED))
class SecondPassWithGraph(Fault):
    """Each step passes its batch once more for an accuracy, or for pseudo labels, with a graph that nobody uses, while the other pass is made.

    Threads about consistency losses whose targets were detached and not made under no_grad().
    """

    def inject(self, target, fixed):
        forward, form = target.loss, self.rng.choice(["accuracy", "labels"])

        def with_second(batch):
            if not torch.is_grad_enabled():
                return forward(batch)
            with torch.no_grad() if fixed else contextlib.nullcontext():
                scores = largest_tensor(target.predict(batch))
            if form == "labels":
                certain = scores.detach().float().amax()
                return forward(batch) * torch.where(certain > -1, 1.0, 0.5)
            target.accuracy = scores.detach().float().mean()
            loss = forward(batch)
            target.last_scores = scores
            return loss
        target.loss = with_second


class WeightsHeavy(Fault):
    """Parameters are many, and optimizers take one at a time, so that another copy of all of them shows."""

    def heavy(self, target):
        deep(target, self.rng)
        target.clip = 0
        after_build(target, lambda: one_by_one(target))


@fault("histogram_of_weights", "weights in one vector", "loop", "layers", "tokens", without=OWN)
class HistogramOfWeights(WeightsHeavy):
    """All weights are concatenated for a histogram, in a wider type sometimes; the fixed form takes one parameter at a time.

    Threads about callbacks that log the distribution of weights.
    """

    def inject(self, target, fixed):
        self.heavy(target)
        after_step, when, form = target.after_step, self.rng.randint(1, 2), self.rng.choice(["float", "double"])
        target.steps = when + 2

        @torch.no_grad()
        def log(i, loss):
            after_step(i, loss)
            if i != when:
                return
            wide = torch.float64 if form == "double" else torch.float32
            if fixed:
                target.histogram = sum(p.detach().flatten().to(wide).histc(64, -1, 1) for p in parameters_of(target))
            else:
                target.histogram = torch.cat([p.detach().flatten().to(wide) for p in parameters_of(target)]).abs().histc(64, -1, 1)
        target.after_step = log


@fault("norm_of_all_weights", "weights in one vector", "loop", "layers", "tokens", without=OWN)
class NormOfAllWeights(WeightsHeavy):
    """A penalty of the weights' norm is computed of one vector of all of them, with a graph; the fixed form adds squares, parameter by parameter."""

    def inject(self, target, fixed):
        self.heavy(target)
        forward, form = target.loss, self.rng.choice(["norm", "squares"])

        def penalised(batch):
            loss, weights = forward(batch), parameters_of(target)
            if fixed:
                return loss + 1e-4 * sum(p.square().sum() for p in weights)
            every = torch.cat([p.reshape(-1) for p in weights])
            return loss + 1e-4 * (every.norm() if form == "norm" else (every * every).sum())
        target.loss = penalised


@fault("gradients_flattened", "copies of gradients", "loop", "layers", "tokens", without=OWN)
class GradientsFlattened(WeightsHeavy):
    """All gradients go into one buffer to be averaged over ranks, and come back; the fixed form has one after the other.

    Codes of one's own for several GPUs, from before DistributedDataParallel.
    """

    def inject(self, target, fixed):
        self.heavy(target)
        optimize, ranks, form = target.optimize, self.rng.choice([2, 4, 8]), self.rng.choice(["flatten", "cat"])

        @torch.no_grad()
        def average():
            gradients = [p.grad for p in parameters_of(target) if p.grad is not None]
            if fixed:
                for g in gradients:
                    g.div_(ranks)
            elif form == "flatten":
                flat = torch._utils._flatten_dense_tensors(gradients)
                flat = flat / ranks
                for g, new in zip(gradients, torch._utils._unflatten_dense_tensors(flat, gradients)):
                    g.copy_(new)
            else:
                flat, at = torch.cat([g.reshape(-1) for g in gradients]) / ranks, 0
                for g in gradients:
                    g.copy_(flat[at:at + g.numel()].view_as(g))
                    at += g.numel()

        def average_and_step():
            average()
            optimize()
        target.optimize = average_and_step


@fault("hooks_added_each_time", "hooks of every evaluation", "loop", "eval", without=("two optimizers", *WRAPPED))
class HooksAddedEachTime(Fault):
    """Each analysis registers its hooks anew and removes none, so that a pass stores its features once for each analysis before.

    Threads about extractors of features whose hooks stay.
    """

    def inject(self, target, fixed):
        after_step, features, form = target.after_step, [], self.rng.choice(["clone", "detach"])
        target.steps = self.rng.randint(4, 6)

        def store(module, inputs, output):
            if torch.is_tensor(output):
                features.append(output.detach().clone() if form == "clone" else output.detach().float())

        def analyse(i, loss):
            after_step(i, loss)
            features.clear()
            layers = [m for m in target.model.modules() if not any(True for _ in m.children())]
            handles = [m.register_forward_hook(store) for m in layers]
            with torch.no_grad():
                target.predict(target.batch(0))
            target.seen = len(features)
            features.clear()
            for handle in handles if fixed else ():
                handle.remove()
        target.after_step = analyse


@fault("full_resolution_kept", "input larger than what is used", "loop", "images", without=("two optimizers", *WRAPPED))
class FullResolutionKept(Fault):
    """Photographs go to the GPU as they are, are made small there, and stay for the whole step beside what the model sees; the fixed form takes a few at a time."""

    def inject(self, target, fixed):
        share, batch, form, side = self.rng.uniform(0.9, 1.5), target.batch, self.rng.choice(["attribute", "dict"]), self.rng.choice([512, 768])
        target.steps, held, sizes = self.rng.randint(3, 5), {}, {}

        def make_batch(i):
            made = batch(i)
            if i < target.micro_batches:
                return made
            held.clear()
            target.photographs = None
            if not sizes:
                sizes["number"] = rows(share, 3 * side * side)
            for _ in range(16 if fixed else 1):
                photographs = torch.zeros(sizes["number"] // (16 if fixed else 1) + 1, 3, side, side, device=DEVICE)
                small = torch.nn.functional.interpolate(photographs[:1], size=8).mean()
            if not fixed and form == "attribute":
                target.photographs = photographs
            elif not fixed:
                held["originals"] = photographs
            return mapped(made, lambda t: t + small.to(t.dtype) if t.is_floating_point() and t.dim() == 4 else t)
        target.batch = make_batch


@fault("weights_swapped_by_copies", "weights saved aside", "loop", "eval", "states", without=OWN)
class WeightsSwappedByCopies(Fault):
    """Averaged weights are put into the model for an evaluation, and its own are cloned before; the fixed form swaps the two.

    Codes of running averages with store() and restore().
    """

    def inject(self, target, fixed):
        light(target, self.rng)
        after_step, average, state, form = target.after_step, [], {}, self.rng.choice(["dropped", "stays"])
        target.steps, target.evaluated = self.rng.randint(3, 5), 0

        def start():
            one_by_one(target)
            average.extend(p.detach().clone() for p in target.model.parameters())
        after_build(target, start)

        @torch.no_grad()
        def evaluate_average(i, loss):
            after_step(i, loss)
            parameters = list(target.model.parameters())
            if fixed:
                for k, p in enumerate(parameters):
                    p.data, average[k] = average[k], p.data
            else:
                state["stored"] = [p.detach().clone() for p in parameters]
                for p, a in zip(parameters, average):
                    p.copy_(a)
            target.evaluate()
            if fixed:
                for k, p in enumerate(parameters):
                    p.data, average[k] = average[k], p.data
            else:
                for p, s in zip(parameters, state["stored"]):
                    p.copy_(s)
                if form == "dropped":
                    state.clear()
            for a, p in zip(average, parameters):
                a.lerp_(p, 0.01)
        target.after_step = evaluate_average

"""Faults of fields with code of their own: rendering, proteins, differential equations, speech, detection, flows, state spaces, video."""
import functools

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from amounts import after_build, largest_tensor, peak, rows, side
from core import DEVICE, Fault, fault
from faults_temporaries import Term

WRAPPED = "ddp", "fsdp", "deepspeed", "megatron", "peft"


@fault("scene_at_once", "evaluation batch", "scene", "loop")
class SceneAtOnce(Fault):
    """A preview takes all rays of a photograph, or all views of a video, as one batch; in the fixed form one part after the other."""

    def inject(self, target, fixed):
        after_step, every = target.after_step, self.rng.randint(2, 3)
        target.steps = every + self.rng.randint(1, 2)

        @torch.inference_mode()
        def preview(i, loss):
            after_step(i, loss)
            if (i + 1) % every:
                return
            network = target.model.eval()
            chunk, parts = getattr(network, "netchunk", None), target.scene(i)
            if not fixed:
                network.netchunk, parts = 1 << 40, [torch.cat(list(parts))]
            target.picture = torch.cat([target.predict((part, None)).float().cpu() for part in parts])
            network.netchunk = chunk
            network.train()
        target.after_step = preview


@fault("tiles_with_graph", "evaluation with a graph", "eval", "loop")
class TilesWithGraph(Fault):
    """A sliding window adds what the model says of each tile to a canvas, and autograd is on."""

    def inject(self, target, fixed):
        after_step, when, tiles = target.after_step, self.rng.randint(0, 2), self.rng.randint(3, 6)
        target.steps, weighted = when + 2, self.rng.random() < 0.5

        class Canvas:
            total, hits = None, 0

            def add(self, tile):
                tile = tile.float() * 0.5 if weighted else tile.float()
                self.total, self.hits = tile if self.total is None else self.total + tile, self.hits + 1

        def slide(model):
            canvas = Canvas()
            model.eval()
            for k in range(tiles):
                canvas.add(largest_tensor(target.predict(target.batch(k))))
            model.train()
            return canvas.total / canvas.hits
        inferred = torch.no_grad()(slide) if fixed else slide

        def after(i, loss):
            after_step(i, loss)
            if i == when:
                target.score = inferred(target.model).mean().item()
        target.after_step = after


@fault("sharpness_monitor", "graph kept", "loop", without=WRAPPED)
class SharpnessMonitor(Fault):
    """The norm of the gradient is watched: it is computed with create_graph=True, and kept."""

    def inject(self, target, fixed):
        after_step, target.steps, curve = target.after_step, self.rng.randint(3, 6), {}
        key = self.rng.choice([lambda i: i, lambda i: "last"])

        def watch(i, loss):
            after_step(i, loss)
            again = target.loss(target.batch(i))
            weights = [p for p in target.model.parameters() if p.requires_grad]
            slopes = torch.autograd.grad(again, weights, create_graph=not fixed, allow_unused=True)
            curve[key(i)] = sum(g.float().pow(2).sum() for g in slopes if g is not None).sqrt()
        target.after_step = watch


@fault("running_statistics_with_graph", "graph kept", "forward", "loop")
class RunningStatisticsWithGraph(Fault):
    """Buffers that follow the variance of activations are updated without no_grad()."""

    def inject(self, target, fixed):
        target.steps, count, decay = self.rng.randint(6, 10), self.rng.choice([8, 16, 32]), self.rng.choice([0.9, 0.99])
        target.checkpointing = False

        class Running:
            """The moving variance of one module's output."""

            def __init__(self, module):
                self.variance = 1.0
                module.register_forward_hook(self)

            def __call__(self, module, inputs, output):
                if module.training and torch.is_grad_enabled():
                    now = output.detach() if fixed else output
                    self.variance = decay * self.variance + (1 - decay) * now.var()

        def watch():
            layers = [m for m in target.model.modules() if isinstance(m, (torch.nn.Linear, torch.nn.modules.conv._ConvNd))]
            target.statistics = [Running(m) for m in layers[::max(1, len(layers) // count)][:count]]
        after_build(target, watch)


@fault("pairs_by_concatenation", "one huge temporary", "forward")
class PairsByConcatenation(Term):
    """The features of both members of each pair are concatenated before a product, which can be two products that are added."""

    def prepare(self):
        self.width, self.outputs = self.rng.choice([32, 64]), self.rng.choice([2, 4])

    def measure(self):
        return side(self.share / (2 * self.width))

    def term(self, fixed):
        n, x, weight = self.sizes, self.features(self.sizes, self.width), self.features(2 * self.width, self.outputs)
        if fixed:
            relation = (x @ weight[:self.width])[:, None] + x @ weight[self.width:]
        else:
            relation = torch.cat([x[:, None].expand(-1, n, -1), x.expand(n, -1, -1)], dim=-1) @ weight
        return relation.sigmoid().mean()


@fault("overlaps_of_all_boxes", "one huge temporary", "forward")
class OverlapsOfAllBoxes(Term):
    """The corners of the overlap of every anchor with every box; the fixed form takes some anchors at a time and keeps the best of each."""
    shares = 0.3, 0.7

    def prepare(self):
        self.boxes = self.rng.choice([100, 300, 1000])

    def measure(self):
        return rows(self.share, 2 * self.boxes)

    @staticmethod
    def best(a, b):
        lt, rb = torch.maximum(a[:, None, :2], b[:, :2]), torch.minimum(a[:, None, 2:], b[:, 2:])
        wh = (rb - lt).clamp(min=0)
        inter = wh[..., 0] * wh[..., 1]
        return (inter / ((a[:, 2:] - a[:, :2]).prod(1)[:, None] + (b[:, 2:] - b[:, :2]).prod(1) - inter)).max(1).values

    @torch.no_grad()
    def term(self, fixed):
        anchors, boxes = torch.zeros(self.sizes, 4, device=DEVICE), torch.zeros(self.boxes, 4, device=DEVICE)
        if not fixed:
            return self.best(anchors, boxes).mean()
        return torch.cat([self.best(part, boxes) for part in anchors.split(max(1, self.sizes // 32))]).mean()


@fault("joint_of_all_frames", "scores of all positions", "forward")
class JointOfAllFrames(Term):
    """The joint network of a transducer: frames times labels times the vocabulary for all utterances; the fixed form has one utterance at a time."""
    shares = 0.7, 1.4

    def prepare(self):
        self.vocabulary, self.spoken, self.utterances = self.rng.choice([1024, 4096, 8192]), self.rng.choice([8, 16]), self.rng.choice([12, 16])

    def measure(self):
        return rows(self.share, self.vocabulary * self.spoken * self.utterances)

    def term(self, fixed):
        encoder, labels = self.features(self.utterances, self.sizes, 1, 64), self.features(self.utterances, 1, self.spoken, 64)
        out = self.features(self.vocabulary, 64)

        def lattice(frames, prediction):
            scores = F.linear(torch.tanh(frames + prediction), out).log_softmax(-1)
            return scores[..., 0].sum() + scores[..., 1].sum()
        if not fixed:
            return -lattice(encoder, labels) / self.sizes
        return -sum(checkpoint(lattice, e, p, use_reentrant=False) for e, p in zip(encoder.split(1), labels.split(1))) / self.sizes


@fault("states_of_all_steps", "whole sequence at once", "forward")
class StatesOfAllSteps(Term):
    """A recurrence is made discrete for the whole sequence, and all states are stacked; the fixed form computes parts of it again in backward."""
    shares = 0.3, 0.7

    def prepare(self):
        self.width, self.state, self.length = self.rng.choice([64, 128]), self.rng.choice([8, 16]), self.rng.choice([24, 48])

    def measure(self):
        return rows(self.share, self.width * self.state * self.length)

    def recur(self, h, x, dt, rate, c):
        decay, driven = torch.exp(dt[..., None] * rate), (dt * x)[..., None].expand(*x.shape, self.state)
        states = []
        for a, b in zip(decay.unbind(1), driven.unbind(1)):
            h = a * h + b
            states.append(h)
        return h, (torch.stack(states, 1) * c).sum(-1)

    def term(self, fixed):
        x, dt = (self.features(self.sizes, self.length, self.width) for _ in range(2))
        rate, c = self.features(self.width, self.state), self.features(self.state)
        h = torch.zeros(self.sizes, self.width, self.state, device=DEVICE)
        if not fixed:
            return self.recur(h, x, dt, rate, c)[1].mean()
        outputs = []
        for xs, ds in zip(x.split(4, 1), dt.split(4, 1)):
            h, y = checkpoint(self.recur, h, xs, ds, rate, c, use_reentrant=False)
            outputs.append(y)
        return torch.cat(outputs, 1).mean()


@fault("exact_trace", "one huge temporary", "forward")
class ExactTrace(Term):
    """The whole Jacobian of a small network for each sample, of which the trace is taken; the trace alone is one product."""

    def prepare(self):
        self.width, self.hidden, self.form = self.rng.choice([64, 128]), self.rng.choice([64, 96]), self.rng.choice(["diagonal", "eye"])

    def measure(self):
        return rows(self.share, self.width ** 2)

    def term(self, fixed):
        x, inward, outward = self.features(self.sizes, self.width), self.features(self.hidden, self.width), self.features(self.width, self.hidden)
        slope = 1 - torch.tanh(x @ inward.T) ** 2
        if fixed:
            return (slope @ (inward * outward.T).sum(1)).mean()
        jacobian = torch.matmul(outward * slope[:, None], inward)
        if self.form == "eye":
            return (jacobian * torch.eye(self.width, device=DEVICE)).sum((1, 2)).mean()
        return jacobian.diagonal(dim1=1, dim2=2).sum(-1).mean()


@fault("view_of_a_whole_clip", "input larger than what is used", "loop")
class ViewOfAWholeClip(Fault):
    """A clip goes to the GPU with all its frames, and the sample of frames that is used is a view of it."""

    def inject(self, target, fixed):
        share, stride, forward, store = self.rng.uniform(0.4, 1.0), self.rng.choice([4, 8, 16]), target.loss, {}
        pixels, dtype = self.rng.choice([64, 112]), self.rng.choice([torch.uint8, torch.float32])

        def sampled():
            if "video" not in store:
                store["video"] = torch.empty(stride + rows(share, 3 * pixels ** 2, dtype.itemsize), 3, pixels, pixels, dtype=dtype)
            if fixed:
                return store["video"][::stride].to(DEVICE)
            return store["video"].to(DEVICE)[::stride]

        def loss_with_clip(batch):
            if "measured" not in store:
                store["measured"] = True
                return forward(batch)
            frames = sampled()
            return forward(batch) + 1e-6 * frames[:, 0, 0, 0].float().mean()
        target.loss = loss_with_clip


@fault("recycled_passes_kept", "earlier pass with a graph", "loop")
class RecycledPassesKept(Fault):
    """The same batch passes several times, and only the last pass is trained; the earlier results, for the change between them, have their graphs."""

    def inject(self, target, fixed):
        forward, passes, stays = target.loss, self.rng.choice([1, 2, 3]), self.rng.random() < 0.5
        target.steps, target.checkpointing = self.rng.randint(2, 4), False

        def loss_of_last_pass(batch):
            with torch.set_grad_enabled(torch.is_grad_enabled() and not fixed):
                trail = [forward(batch) for _ in range(passes)]
            if stays:
                target.trail = trail
            loss = forward(batch)
            target.change = [float(loss.detach() - earlier.detach()) for earlier in trail]
            return loss
        target.loss = loss_of_last_pass


@fault("suspended_generator", "graph kept", "loop")
class SuspendedGenerator(Fault):
    """A generator of validation losses waits at its yield, with the loss and its graph in a local variable."""

    def inject(self, target, fixed):
        after_step, target.steps, target.checkpointing = target.after_step, self.rng.randint(3, 6), False

        @torch.no_grad()
        def value(k):
            return float(target.loss(target.batch(k)))

        def validation():
            for k in range(1 << 20):
                if fixed:
                    yield k, value(k)
                else:
                    loss = target.loss(target.batch(k))
                    yield k, loss.item()
        losses = validation()

        def validate(i, loss):
            after_step(i, loss)
            target.validated = next(losses)
        target.after_step = validate


def memoised(function):
    """A decorator as people write it: with a dict by the identity of the arguments, which it keeps so that no identity comes twice."""
    known = {}

    @functools.wraps(function)
    def call(*tensors):
        key = tuple(map(id, tensors))
        if key not in known:
            known[key] = tensors, function(*tensors)
        return known[key][1]
    return call


@fault("memoised_by_tensor", "growing cache", "steps")
class MemoisedByTensor(Fault):
    """A function of tensors is cached by its arguments, which are new tensors in each step; the fixed form computes it."""

    def inject(self, target, fixed):
        share, after_step, store = self.rng.uniform(0.05, 0.12), target.after_step, {}
        target.steps, width = self.rng.randint(7, 12), self.rng.choice([64, 256, 1024])
        remember = self.rng.choice([memoised, functools.lru_cache(maxsize=None), functools.lru_cache(maxsize=4096)])

        def encode(place):
            return torch.sin(place * 3.0)
        encode = encode if fixed else remember(encode)

        def encode_and_compare(i, loss):
            after_step(i, loss)
            if not store:
                store["count"] = rows(share, width)
            target.distance = encode(torch.zeros(store["count"], width, device=DEVICE)).mean().item()
        target.after_step = encode_and_compare


@fault("emissions_for_rescoring", "results kept on the GPU", "eval", "loop")
class EmissionsForRescoring(Fault):
    """What the widest layer says of each batch of a validation is kept by its number, until a second model will rescore it."""

    def inject(self, target, fixed):
        share, after_step, when = self.rng.uniform(1.2, 2.0), target.after_step, self.rng.randint(0, 2)
        target.steps, where = when + 2, "cpu" if fixed else DEVICE

        def widest():
            sizes = {}
            hooks = [m.register_forward_hook(lambda m, i, output: sizes.update({m: largest_tensor(output).nbytes}))
                     for m in target.model.modules() if not list(m.children()) and list(m.parameters(recurse=False))]
            target.predict(target.batch(0))
            for hook in hooks:
                hook.remove()
            return max(sizes, key=sizes.get)

        @torch.no_grad()
        def validate(i, loss):
            after_step(i, loss)
            if i != when:
                return
            emissions, seen, wanted = {}, [], share * peak()
            target.model.eval()
            hook = widest().register_forward_hook(lambda module, inputs, output: seen.append(largest_tensor(output).to(where)))
            while wanted > 0 and len(emissions) < 60:
                target.predict(target.batch(len(emissions)))
                wanted -= sum(e.nbytes for e in seen)
                emissions["utterance-%d" % len(emissions)] = seen[:]
                seen.clear()
            hook.remove()
            target.model.train()
            target.rescored = max(map(len, emissions.values()))
        target.after_step = validate


@fault("dataset_on_device", "data moved to the GPU", "dataset", "loop")
class DatasetOnDevice(Fault):
    """The job's own dataset is moved to the GPU after a first step, since it seemed small."""

    def inject(self, target, fixed):
        share, train, larger = self.rng.uniform(0.4, 1.0), target.train, self.rng.random() < 0.5

        def train_on_device():
            target.step(0)
            number = max(len(target.dataset[0]), int(share * peak() / sum(t[0].nbytes for t in target.dataset)))
            loaded = [torch.zeros(number, *t.shape[1:], dtype=t.dtype) for t in target.dataset]
            if not fixed:
                loaded = [t.cuda() for t in loaded] if larger else [t.to(DEVICE, non_blocking=True) for t in loaded]
            target.dataset = tuple(loaded)
            del loaded
            train()
        target.train = train_on_device


@fault("float64_from_numpy", "double precision", "loop", "dataset", without=("tokens", "images", "reference", "two optimizers"))
class Float64FromNumpy(Fault):
    """Arrays from NumPy are float64, and the model was made to fit them."""

    def fits(self, target):
        return super().fits(target) and getattr(target, "precision", None) == "fp32" and target.family != "recommender"

    def inject(self, target, fixed):
        if not fixed:
            target.__class__ = type("FromNumpy", (type(target),), {"dtype": torch.float64})


@fault("one_example_not_cropped", "larger batch", "crop", "loop")
class OneExampleNotCropped(Fault):
    """Examples are cropped to a length, and one group of them is not."""

    def inject(self, target, fixed):
        batch, when, usual = target.batch, self.rng.randint(2, 4), target.length
        ratio = self.rng.choice([2, 3])
        target.steps = when + 2

        def cropped(i):
            whole = not fixed and i // target.micro_batches >= when
            target.length = min(target.longest, int(usual * ratio)) if whole else usual
            return batch(i)
        target.batch = cropped

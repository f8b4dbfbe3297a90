"""Mistakes of sizes and states: full batches, multiples to pad to, options that nothing reads, a cache of checkpoints, variants, baselines, kernels."""
import copy
import dataclasses
import functools
import gc
import io

import numpy
import torch
import torch.nn.functional as F

from amounts import after_build, blocks, light, mapped, peak, sized
from core import DEVICE, Fault, fault
from faults_common_r import WRAPPED, at_most
from faults_common_s_more import number, whole_activations, whole_weights

ALONE = (*WRAPPED, "two optimizers", "pretrained", "peft", "reference")


class OnDevice:
    """A data set whose __init__ moves everything, so that nothing else has to."""

    def __init__(self, *tensors, device):
        self.tensors = tuple(torch.as_tensor(t, device=device) for t in tensors)

    def __len__(self):
        return len(self.tensors[0])


@dataclasses.dataclass
class Options:
    """Options of a training; those of the command line replace what is here."""
    image_size: int
    batch_size: int = 16

    def update(self, given):
        for name, value in given.items():
            if hasattr(self, name):
                setattr(self, name, value)


class Experiment:
    """A variant of a model, with all that belongs to it."""

    def __init__(self, name, decay):
        self.name, self.decay, self.curve = name, decay, []
        self.model, self.optimizers = None, []

    def run(self, target):
        target.build()
        self.model, self.optimizers = target.model, target.optimizers
        for group in (group for optimizer in self.optimizers for group in optimizer.param_groups):
            group["weight_decay"] = self.decay
        target.train()
        self.curve.append(0.1)


def cut_to(batch, longest, end):
    """The batch without what is behind `end` in rows of the largest length."""
    return mapped(batch, lambda t: t[:, :end].contiguous() if t.dim() > 1 and t.shape[1] == longest else t)


@fault("u_full_batch", "batch too large", "loop", "layers", without=ALONE)
class FullBatch(Fault):
    """DataLoader(train_set, batch_size=len(train_set)): the set is small, and its gradient can be had part by part."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        parts, each = self.rng.choice([5, 6, 8]), self.rng.choice([8, 10]) if "images" in target.traits else self.rng.choice([2, 3])
        whole_activations(target, parts * each, 384)
        target.steps = 3
        if number(target, "rows"):
            target.rows = parts * each
        if fixed:
            target.size, target.micro_batches = each, parts


@fault("u_multiple_of", "padding", "loop", "tokens", "layers", without=WRAPPED)
class MultipleOf(Fault):
    """pad_to_multiple_of should be 8, for tensor cores; it is as large as the longest text might be, and texts have a part of that."""

    def fits(self, target):
        return super().fits(target) and number(target, "length") and number(target, "size") and target.name != "ppo"  # whose answers have a length of their own

    def inject(self, target, fixed):
        longest, batch = self.rng.choice([512, 768, 1024]), target.batch
        texts = [self.rng.randint(longest // 9, longest // 4) for _ in range(12)]
        whole_activations(target, self.rng.choice([10, 14]), longest, 32000)
        target.length, multiple = longest, 8 if fixed else longest
        target.batch = lambda i: cut_to(batch(i), longest, -(-texts[i % len(texts)] // multiple) * multiple)


@fault("u_option_not_read", "pictures too large", "loop", "images", without=(*WRAPPED, "two optimizers"))
class OptionNotRead(Fault):
    """--img-size was given and the option's name is image_size: unknown names are ignored, and pictures have the size that stands in the code."""

    def fits(self, target):
        return super().fits(target) and number(target, "pixels") and target.pixels % 64 == 0

    def inject(self, target, fixed):
        options = Options(target.pixels, self.rng.choice([14, 18, 24]))
        options.update({"image_size" if fixed else "img_size": target.pixels // 2})
        at_most(target, size=options.batch_size)
        if "checkpointing" in target.traits:
            target.checkpointing = False
        target.pixels = options.image_size


@fault("u_one_transcript", "larger batch", "loop", "tokens", "layers", without=WRAPPED)
class OneTranscript(Fault):
    """Posts are short, and one of them is the transcript of an hour; its batch is padded to it, as nothing is truncated."""

    def fits(self, target):
        return super().fits(target) and number(target, "length") and number(target, "size") and target.name != "ppo"  # whose answers have a length of their own

    def inject(self, target, fixed):
        longest, where, batch = self.rng.choice([768, 1024]), self.rng.choice([2, 3]), target.batch
        posts = [longest // self.rng.choice([5, 6, 8]) // 8 * 8 for _ in range(8)]
        whole_activations(target, self.rng.choice([8, 12]), longest, 32000)
        target.length, target.steps = longest, where + self.rng.choice([1, 2])
        target.batch = lambda i: cut_to(batch(i), longest, longest if i == where and not fixed else posts[i % len(posts)])


@fault("u_perplexity_in_one_batch", "evaluation batch", "loop", "eval", "decoder", "tokens", without=(*WRAPPED, "two optimizers"))
class PerplexityInOneBatch(Fault):
    """The perplexity is that of all held-out texts in one batch, since nothing is recorded; but each position has a score for each word."""

    def fits(self, target):
        return super().fits(target) and number(target, "size")

    def inject(self, target, fixed):
        texts, evaluate = self.rng.choice([48, 64, 80]), target.evaluate
        at_most(target, size=2, length=256, layers=4)
        target.vocabulary, target.evaluated = self.rng.choice([32000, 50304]), self.rng.choice([1, 2])
        if number(target, "rows"):
            target.rows = max(target.rows, texts)

        def perplexity():
            few = target.size
            for _ in range(2 if fixed else 1):
                target.size = few if fixed else texts
                try:
                    outputs = evaluate()
                finally:
                    target.size = few
            return outputs
        target.evaluate = perplexity


@fault("u_flag_of_another_library", "recomputation off", "loop", "layers", "checkpointing", without=WRAPPED)
class FlagOfAnotherLibrary(Fault):
    """model.activation_checkpointing = True, as another library calls it: an attribute is made, nothing reads it, and no error says so."""

    def inject(self, target, fixed):
        form = self.rng.choice(["model", "blocks"])
        target.layers, target.checkpointing, target.micro_batches = self.rng.choice([8, 10]), fixed, 1
        at_most(target, width=768, vocabulary=8000, length=512, size=self.rng.choice([12, 16]))

        def switch_on():
            for part in blocks(target.model) if form == "blocks" else [target.model]:
                part.activation_checkpointing = True
        if not fixed:
            after_build(target, switch_on)


@fault("u_scaler_alone", "no mixed precision", "loop", "layers", without=ALONE)
class ScalerAlone(Fault):
    """A GradScaler scales the loss, and mixed precision is thought to be on; nobody wrote autocast."""

    def fits(self, target):
        fitting = sized(target) and {"fp32", "autocast"} <= set(getattr(target, "precisions", ()))
        return super().fits(target) and fitting and "accelerate" not in target.name

    def inject(self, target, fixed):
        whole_activations(target, self.rng.choice([40, 48]) if "images" in target.traits else self.rng.choice([28, 36]), 512, 4000)
        at_most(target, width=512, layers=4)
        target.precision, optimize = "autocast" if fixed else "fp32", target.optimize
        scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0 ** self.rng.choice([8, 10, 16]))

        def unscaled():
            for optimizer in target.optimizers:
                scaler.unscale_(optimizer)
            optimize()
            scaler.update()
        target.backward, target.optimize = lambda loss: scaler.scale(loss).backward(), unscaled


@fault("u_set_on_device", "data moved to the GPU", "loop", "dataset", without=(*WRAPPED, "two optimizers"))
class SetOnDevice(Fault):
    """A Dataset whose __init__ makes its tensors on the GPU, as a loader with workers had trouble to move them."""

    def inject(self, target, fixed):
        amount, form = self.rng.uniform(2.0, 3.5), self.rng.choice(["kept", "tensors"])
        at_most(target, size=8)

        def prepare():
            row = sum(t[0].numel() * t.element_size() for t in target.dataset)
            times = int(amount * 2 ** 30 / row) // len(target.dataset[0]) + 1
            tensors = [torch.zeros(times * len(t), *t.shape[1:], dtype=t.dtype) for t in target.dataset]
            train_set = OnDevice(*tensors, device="cpu" if fixed else DEVICE)
            target.dataset, target.examples = train_set.tensors, len(train_set)
            if form == "kept":
                target.train_set = train_set
        after_build(target, prepare)


@fault("u_cache_of_files", "loaded checkpoint", "loop", "tokens", "layers", without=ALONE)
class CacheOfFiles(Fault):
    """The function that reads checkpoints has @lru_cache, as it is called in several places; what it read, onto the GPU, stays as long as the program."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        where, with_states, files = "cpu" if fixed else self.rng.choice([DEVICE, "cuda:0"]), self.rng.random() < 0.7, {}
        whole_weights(target, self.rng)

        @functools.lru_cache(maxsize=None)
        def read(path):
            return torch.load(io.BytesIO(files[path]), map_location=where)

        def start():
            own = {k: torch.zeros(v.shape, dtype=v.dtype) for k, v in target.model.state_dict().items()}
            states = {k: {"exp_avg": v.clone(), "exp_avg_sq": v.clone()} for k, v in own.items()} if with_states else {}
            file = io.BytesIO()
            torch.save({"model": own, "optimizer": states, "config": {"layers": target.layers}, "best": 0.8}, file)
            files["last.pt"] = file.getvalue()
            if read("last.pt")["config"]["layers"] == target.layers:
                target.model.load_state_dict(read("last.pt")["model"])
            target.read, target.best = read, read("last.pt")["best"]
        after_build(target, start)


@fault("u_best_of_each_metric", "copies of the model kept", "loop", "layers", without=(*WRAPPED, "two optimizers", "images"))
class BestOfEachMetric(Fault):
    """For each of several metrics, the model that was the best by it is kept as a copy on the GPU; another metric gets better at another time."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        metrics = self.rng.sample(["loss", "accuracy", "f1", "recall", "bleu", "auc"], self.rng.choice([4, 5]))
        best, after_step, form = {}, target.after_step, self.rng.choice(["model", "weights"])
        target.steps = len(metrics) + self.rng.choice([0, 1, 2])
        light(target, self.rng)

        def compare(i, loss):
            after_step(i, loss)
            name = metrics[i % len(metrics)]
            if fixed:
                best[name] = {k: v.detach().to("cpu", copy=True) for k, v in target.model.state_dict().items()}
            else:
                best[name] = copy.deepcopy(target.model if form == "model" else target.model.state_dict())
        target.after_step = compare


@fault("u_variants", "earlier runs kept", "loop", "layers", without=(*WRAPPED, "two optimizers"))
class Variants(Fault):
    """Experiments for the table of a paper, one after the other: each is an object that has its model and its optimizer, and the list of them has all."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        decays = self.rng.sample([0.0, 0.001, 0.01, 0.05, 0.1, 0.3], self.rng.choice([3, 4, 5]))
        light(target, self.rng)
        target.steps = 2

        def table():
            experiments = [Experiment("decay %g" % decay, decay) for decay in decays]
            for experiment in experiments:
                experiment.run(target)
                target.model, target.optimizers = None, []
                if fixed:
                    experiment.model, experiment.optimizers = None, []
                gc.collect()
            target.table = {experiment.name: experiment.curve for experiment in experiments}
        target.run = table


@fault("u_adam_after_warm_up", "optimizer states", "loop", "tokens", "layers", without=ALONE)
class AdamAfterWarmUp(Fault):
    """After some steps of SGD, Adam takes over, and its first step makes two states for each parameter; there is room for SGD to the end."""

    def fits(self, target):
        return super().fits(target) and sized(target) and hasattr(target, "kinds")

    def inject(self, target, fixed):
        whole_weights(target, self.rng)
        target.clip, target.micro_batches, target.steps = 0, 1, self.rng.choice([4, 5])
        warm, kind, after_step = self.rng.choice([1, 2]), self.rng.choice([torch.optim.Adam, torch.optim.AdamW, torch.optim.RAdam]), target.after_step

        def parameters():
            return [p for p in target.model.parameters() if p.requires_grad]

        def start():
            target.optimizers = [torch.optim.SGD(parameters(), lr=0.05, foreach=False)]

        def and_change(i, loss):
            after_step(i, loss)
            if i + 1 == warm and fixed:
                target.optimizers[0].param_groups[0]["lr"] = 0.01
            elif i + 1 == warm:
                target.zero_grad()
                target.optimizers = [kind(parameters(), lr=3e-4, foreach=False)]
        after_build(target, start)
        target.after_step = and_change


@fault("u_baselines", "second model", "loop", "eval", "tokens", "layers", without=ALONE)
class Baselines(Fault):
    """Models to compare with stay on the GPU, where each evaluation asks them the same questions; their answers could be had once, before the training."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        count, every, baselines, after_step = self.rng.choice([2, 3]), self.rng.choice([1, 2]), [], target.after_step
        whole_weights(target, self.rng)

        @torch.no_grad()
        def answer(model):
            own, target.model = target.model, model
            try:
                return target.predict(target.batch(0)).float().mean().item()
            finally:
                target.model = own

        def load():
            for _ in range(count):
                baseline = copy.deepcopy(target.model).eval().requires_grad_(False)
                baselines.append(answer(baseline) if fixed else baseline)

        def compare(i, loss):
            after_step(i, loss)
            if (i + 1) % every == 0:
                target.model.eval()
                target.better = [answer(target.model) - (b if fixed else answer(b)) for b in baselines]
                target.model.train()
        after_build(target, load)
        target.after_step = compare


@fault("u_prior_from_numpy", "double precision", "loop", "eval", "decoder", "tokens", without=ALONE)
class PriorFromNumpy(Fault):
    """The frequencies of words, counted with numpy, correct the logits; they have 64 bits, and so have the logits from there on."""

    def inject(self, target, fixed):
        strength, sums = self.rng.choice([0.5, 1.0]), []
        at_most(target, size=8, length=512, layers=3, width=768)
        target.vocabulary, target.micro_batches = self.rng.choice([32000, 50304]), 1

        def log_prior(words):
            if not sums:
                counts = numpy.arange(1, words + 1)[::-1].copy()
                prior = torch.from_numpy(numpy.log(counts / counts.sum())).to(DEVICE)
                sums.append(prior.float() if fixed else prior)
            return sums[0]

        def corrected(batch):
            scores = target.predict(batch)
            tokens = []
            mapped(batch, lambda t: tokens.append(t) if t.dtype == torch.long and t.shape == scores.shape[:-1] else None)
            wanted = tokens[-1] if tokens else scores.detach().argmax(-1)
            return F.cross_entropy((scores + strength * log_prior(scores.shape[-1])).flatten(0, -2), wanted.flatten())
        target.loss = corrected


@fault("u_kernels_of_all_pairs", "one huge temporary", "loop", without=WRAPPED)
class KernelsOfAllPairs(Fault):
    """How far today's features are from those at the start: a kernel of several widths over all pairs of both sets; fixed: some rows of it at a time."""

    def inject(self, target, fixed):
        share, width, forward = self.rng.uniform(0.7, 1.3), self.rng.choice([32, 64]), target.loss
        scales, form, sets = self.rng.choice([[0.5, 1.0, 2.0], [0.25, 0.5, 1.0, 2.0]]), self.rng.choice(["sum", "stack"]), []

        def kernel(some, others):
            distances = torch.cdist(some, others).square()
            if form == "stack":
                return torch.stack([(-distances / scale).exp() for scale in scales]).mean()
            return sum((-distances / scale).exp() for scale in scales).mean() / len(scales)

        @torch.no_grad()
        def discrepancy():
            if not sets:
                sets.append(torch.ones(int((share * peak() / 8) ** 0.5), width, device=DEVICE))
            both = sets[0]
            parts = both.chunk(32) if fixed else [both]
            return sum(kernel(part, both) for part in parts).item() / len(parts)

        def watched(batch):
            loss = forward(batch)
            target.drift = discrepancy()
            return loss
        target.loss = watched

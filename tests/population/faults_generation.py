"""Faults of generation and of inference."""
import collections
import contextlib

import torch

from amounts import after_build, largest_tensor, mapped, peak, rows, with_output
from core import DEVICE, Fault, fault


class OwnGeneration(Fault):
    """Samples are generated between the steps of a training, with a cache of keys and values; its whole length takes a share of the peak."""
    shares = 0.9, 1.8

    def inject(self, target, fixed):
        self.share, after_step, self.when = self.rng.uniform(*self.shares), target.after_step, self.rng.randint(0, 2)
        self.layers, self.heads, self.width = self.rng.choice([2, 4, 6]), self.rng.choice([4, 8, 16]), self.rng.choice([64, 128])
        self.dtype, target.steps = self.rng.choice([torch.float32, torch.bfloat16]), self.when + 2
        self.prepare(target)

        @torch.no_grad()
        def sample(i, loss):
            after_step(i, loss)
            if i == self.when:
                self.generate(fixed)
        target.after_step = sample

    def prepare(self, target):
        pass

    def positions(self, share):
        """Positions, over all sequences, of whose keys and values all layers take this share."""
        return rows(share, 2 * self.layers * self.heads * self.width, self.dtype.itemsize)

    def generate(self, fixed):
        raise NotImplementedError


@fault("own_cache_grows", "own KV cache", "steps")
class OwnCacheGrows(OwnGeneration):
    """Keys and values are concatenated in each step of the generation; the fixed form has a window."""

    def prepare(self, target):
        self.tokens, self.form = self.rng.choice([24, 32, 48]), self.rng.choice(["tuples", "dict"])

    def generate(self, fixed):
        chunk = max(1, self.positions(self.share) // self.tokens // 4)  # of positions for each of four sequences
        past = [None] * self.layers if self.form == "tuples" else collections.defaultdict(lambda: None)
        for _ in range(self.tokens):
            for k in range(self.layers):
                new_k, new_v = (torch.empty(4, self.heads, chunk, self.width, dtype=self.dtype, device=DEVICE) for _ in range(2))
                if past[k] is not None:
                    key, value = torch.cat([past[k][0], new_k], dim=2), torch.cat([past[k][1], new_v], dim=2)
                else:
                    key, value = new_k, new_v
                past[k] = (key[:, :, -4 * chunk:].clone(), value[:, :, -4 * chunk:].clone()) if fixed else (key, value)
                del key, value, new_k, new_v


@fault("finished_caches_kept", "caches of finished requests", "steps")
class FinishedCachesKept(OwnGeneration):
    """Each request has a cache of its own, and the caches of finished requests stay in a dict or list."""

    def prepare(self, target):
        self.requests, self.form = self.rng.randint(8, 16), self.rng.choice(["dict", "list", "objects"])
        self.open = {}

    def generate(self, fixed):
        each = max(1, self.positions(self.share) // self.requests)
        for r in range(self.requests):
            cache = [torch.zeros(2, 1, self.heads, each, self.width, dtype=self.dtype, device=DEVICE) for _ in range(self.layers)]
            if self.form == "dict":
                self.open[r] = cache
            elif self.form == "list":
                self.open.setdefault("all", []).extend(cache)
            else:
                self.open["request-%d" % r] = {"past_key_values": tuple(c.unbind(0) for c in cache), "tokens": []}
            del cache
            if fixed:
                self.open.clear()


@fault("static_cache_too_long", "static KV cache", "steps")
class StaticCacheTooLong(OwnGeneration):
    """A cache for the largest length and batch, of which the generation uses a part."""

    def prepare(self, target):
        self.form = self.rng.choice(["layers", "one"])

    def generate(self, fixed):
        count = self.positions(self.share) // (16 if fixed else 1) // 8 + 1
        if self.form == "one":
            cache = torch.zeros(self.layers, 2, 8, self.heads, count, self.width, dtype=self.dtype, device=DEVICE)
        else:
            cache = [{"k": torch.zeros(8, self.heads, count, self.width, dtype=self.dtype, device=DEVICE),
                      "v": torch.zeros(8, self.heads, count, self.width, dtype=self.dtype, device=DEVICE)} for _ in range(self.layers)]
        for t in range(4):
            for layer in cache:
                (layer["k"] if self.form == "layers" else layer[0])[:, :, t % count] = 0.0


class TransformersOnly(Fault):
    def fits(self, target):
        return super().fits(target) and target.family == "decoder of transformers"


@fault("cache_in_training", "KV cache in training", "decoder", "loop")
class CacheInTraining(TransformersOnly):
    """use_cache is left on in training, and the cache of each step is kept with the outputs."""

    def inject(self, target, fixed):
        form, kept = self.rng.choice(["list", "dict", "outputs"]), {}
        target.steps, target.checkpointing, target.vocabulary = self.rng.randint(30, 45), False, min(target.vocabulary, 4000)

        def enable():
            target.model.config.use_cache = not fixed

        def keep(output):
            past = getattr(output, "past_key_values", None)
            if not torch.is_grad_enabled() or past is None:
                return
            if form == "list":
                kept.setdefault("pasts", []).append(past)
            elif form == "dict":
                kept[len(kept)] = {"past_key_values": past}
            else:
                kept.setdefault("outputs", []).append((past, output.logits[:, -1].detach()))
        after_build(target, enable)
        with_output(target, keep)


@fault("generation_too_long", "KV cache", "generate")
class GenerationTooLong(Fault):
    """Many sequences, or many tokens, are generated at once; the fixed form generates for a part of the sequences at a time."""

    def inject(self, target, fixed):
        parts, target.new_tokens = self.rng.choice([2, 3]), min(target.new_tokens, 12)
        if not fixed:
            target.size *= parts
        else:
            target.steps *= parts


@fault("inference_with_graph", "inference with a graph", "inference")
class InferenceWithGraph(Fault):
    """Inference without no_grad(), in eval mode."""

    def inject(self, target, fixed):
        if not fixed:
            target.no_grad = contextlib.nullcontext


@fault("inference_results_kept", "results kept on the GPU", "inference")
class InferenceResultsKept(Fault):
    """The outputs of all batches stay on the GPU."""

    def inject(self, target, fixed):
        take, form, results = target.take, self.rng.choice(["list", "dict", "features"]), collections.defaultdict(list)
        share, target.steps = self.rng.uniform(0.1, 0.25), self.rng.randint(8, 14)

        def keep(i, outputs):
            if fixed:
                return take(i, outputs)
            kept = largest_tensor(outputs)
            if kept is None or kept.nbytes < share * peak() / 4:
                kept = torch.zeros(rows(share, 768), 768, device=DEVICE)
            results[i if form == "dict" else form].append(kept)
            return take(i, outputs)
        target.take = keep


@fault("inference_batch_too_large", "batch too large", "inference")
class InferenceBatchTooLarge(Fault):
    """All rows are one batch; the fixed form takes parts of them."""

    def __init__(self, seed):
        super().__init__(seed)
        self.parts = self.rng.choice([2, 4, 8])

    def fits(self, target):
        return super().fits(target) and "generate" not in target.traits

    def inject(self, target, fixed):
        predict, times = target.predict, self.parts

        def predict_all(batch):
            if fixed:
                return [predict(batch) for _ in range(times)][-1]
            n = []
            mapped(batch, lambda t: n.append(t.shape[0]) if t.dim() else None)
            return predict(mapped(batch, lambda t: torch.cat([t] * times) if t.dim() and t.shape[0] == n[0] else t))
        target.predict = predict_all

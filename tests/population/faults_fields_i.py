"""Faults as threads about out-of-memory errors tell them, field by field: orders of sources, differences of quantiles, samples at offsets, products of
edges, Jacobians of batches, triangles, films of the noise, rays of all pictures, caches in fp32, masks of prompts, views of states, long windows."""
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers

from amounts import after_build, blocks, largest_tensor, rows, side
from core import DEVICE, Fault, fault
from faults_data import Data
from faults_fields_b import WRAPPED
from faults_fields_c import Between
from faults_fields_d import in_parts
from faults_habits_f_more import OfGenerate
from faults_temporaries import Term


@fault("orders_of_sources", "one huge temporary", "forward", without=WRAPPED)
class OrdersOfSources(Term):
    """Which voice is which: all orders of the sources are put beside the right ones, sample by sample, and the best is taken; the fixed form compares each
    pair, and adds up numbers by order.

    Threads about training that does not depend on the order of speakers.
    """
    shares = 0.6, 1.1

    def prepare(self):
        self.sources, self.form = self.rng.choice([3, 4]), self.rng.choice(["index", "stack"])

    def measure(self):
        orders = 6 if self.sources == 3 else 24
        return max(256, rows(self.share / 2, orders * self.sources))

    def term(self, fixed):
        told, right = self.features(1, self.sources, self.sizes), torch.zeros(1, self.sources, self.sizes, device=DEVICE)
        orders = list(itertools.permutations(range(self.sources)))
        if fixed:
            pairs = torch.stack([(told[:, k] - right[:, n]).square().mean(-1) for k in range(self.sources) for n in range(self.sources)], dim=1)
            pairs = pairs.unflatten(1, (self.sources, self.sources))
            return torch.stack([sum(pairs[:, k, n] for n, k in enumerate(order)) for order in orders]).amin(0).mean()
        if self.form == "index":
            every = told[:, torch.tensor(orders, device=DEVICE)]
        else:
            every = torch.stack([torch.stack([told[:, k] for k in order], dim=1) for order in orders], dim=1)
        return (every - right.unsqueeze(1)).square().mean(-1).sum(-1).amin(1).mean()


@fault("quantiles_in_pairs", "whole sequence at once", "forward", without=WRAPPED)
class QuantilesInPairs(Term):
    """Each quantile of a value against each one of what is wanted, for the whole batch, and a Huber loss of all of them; the fixed form takes a part of the
    batch at a time, and makes it again.

    Threads about agents with distributions of rewards.
    """
    shares = 1.0, 1.6

    def prepare(self):
        self.quantiles, self.form = self.rng.choice([64, 128, 200]), self.rng.choice(["huber", "written"])

    def measure(self):
        return max(64, rows(self.share / 4, self.quantiles ** 2))

    def one(self, told, wanted):
        apart = wanted.unsqueeze(1) - told.unsqueeze(2)
        levels = (torch.arange(self.quantiles, device=DEVICE) + 0.5) / self.quantiles
        if self.form == "huber":
            size = F.huber_loss(told.unsqueeze(2).expand_as(apart), wanted.unsqueeze(1).expand_as(apart), reduction="none")
        else:
            size = torch.where(apart.abs() < 1, 0.5 * apart.square(), apart.abs() - 0.5)
        return ((levels[None, :, None] - (apart.detach() < 0).float()).abs() * size).sum(1).mean()

    def term(self, fixed):
        told, wanted = self.features(self.sizes, self.quantiles), torch.zeros(self.sizes, self.quantiles, device=DEVICE)
        return in_parts(self.one, 16, told, wanted) if fixed else self.one(told, wanted)


@fault("samples_at_offsets", "whole sequence at once", "forward", without=WRAPPED)
class SamplesAtOffsets(Term):
    """Each query looks at some places of each of several maps: what is there is sampled for all queries, in plain PyTorch, and stacked, before it is
    weighed; the fixed form takes some queries at a time, and samples again.

    Threads about deformable attention without its kernel.
    """
    shares = 0.6, 1.1

    def prepare(self):
        self.heads, self.wide, self.places, self.form = 8, self.rng.choice([16, 32]), self.rng.choice([4, 8]), self.rng.choice(["stack", "cat"])

    def measure(self):
        return max(64, rows(self.share / 3, self.heads * self.wide * 3 * self.places))

    def one(self, offsets, weights):
        seen = []
        for k, m in enumerate(self.maps):
            seen.append(F.grid_sample(m, offsets[:, k].expand(self.heads, -1, -1, -1), align_corners=False))
        seen = torch.stack(seen, dim=-2).flatten(-2) if self.form == "stack" else torch.cat(seen, dim=-1)
        return (seen * weights.transpose(0, 1).unsqueeze(1)).sum(-1).square().mean()

    def term(self, fixed):
        self.maps = [self.features(self.heads, self.wide, 64 >> k, 64 >> k) for k in range(3)]
        offsets, weights = self.features(self.sizes, 3, self.places, 2), self.features(self.sizes, self.heads, 3 * self.places)
        return in_parts(self.one, 16, offsets, weights) if fixed else self.one(offsets, weights)


@fault("products_of_edges", "whole sequence at once", "forward", without=WRAPPED)
class ProductsOfEdges(Term):
    """Features that turn with a molecule: each edge's harmonics times its sender's channels, all paths of all edges at once, and a network's weight for each;
    the fixed form takes some edges at a time, and makes them again."""
    shares = 0.6, 1.1

    def prepare(self):
        self.channels, self.harmonics, self.form = self.rng.choice([32, 64]), self.rng.choice([9, 16]), self.rng.choice(["einsum", "outer"])

    def measure(self):
        self.weigh = nn.Sequential(nn.Linear(8, 64), nn.SiLU(), nn.Linear(64, self.channels * self.harmonics)).to(DEVICE)
        return max(256, rows(self.share / 3, self.channels * self.harmonics))

    def one(self, sent, harmonics, far):
        weights = self.weigh(far).unflatten(1, (self.channels, self.harmonics))
        if self.form == "einsum":
            made = torch.einsum("ec,eh->ech", sent, harmonics) * weights
        else:
            made = sent.unsqueeze(2) * harmonics.unsqueeze(1) * weights
        return made.square().mean()

    def term(self, fixed):
        parts = self.features(self.sizes, self.channels), self.features(self.sizes, self.harmonics), torch.zeros(self.sizes, 8, device=DEVICE)
        return in_parts(self.one, 16, *parts) if fixed else self.one(*parts)


@fault("jacobian_of_a_batch", "one huge temporary", "forward", without=WRAPPED)
class JacobianOfABatch(Term):
    """How a field changes with its place, by the Jacobian of the whole batch: each point's value by each point's place, almost all of it zero; the fixed form
    has the gradient of the sum.

    Threads about networks that obey an equation.
    """
    shares = 0.6, 1.1

    def prepare(self):
        self.hidden, self.form = self.rng.choice([32, 64]), self.rng.choice(["batched", "matrix"])

    def measure(self):
        self.net = nn.Sequential(nn.Linear(2, self.hidden), nn.Tanh(), nn.Linear(self.hidden, 1)).to(DEVICE)
        return max(64, side(self.share / (2 * self.hidden)))

    def slopes(self, places):
        first, last = self.net[0], self.net[2]
        if self.form == "matrix":
            inner = 1 - torch.tanh(first(places)).square()
            which = torch.eye(self.sizes, device=DEVICE)
            every = (which.unsqueeze(2) * (inner * last.weight[0]).unsqueeze(0)) @ first.weight
        else:
            told = self.net(places).squeeze(1)
            every = torch.autograd.grad(told, places, torch.eye(self.sizes, device=DEVICE), create_graph=True, is_grads_batched=True)[0]
        return every.diagonal(dim1=0, dim2=1).T

    def term(self, fixed):
        places = self.features(self.sizes, 2)
        if not torch.is_grad_enabled():
            return self.net(places).square().mean()
        if fixed:
            return torch.autograd.grad(self.net(places).sum(), places, create_graph=True)[0].square().mean()
        return self.slopes(places).square().mean()


@fault("points_and_triangles", "temporary in an evaluation", "steps")
class PointsAndTriangles(Between):
    """How far a shape is from the right one: the distance of every point to every triangle, by three vectors for each pair; the fixed form takes some points
    at a time."""
    shares = 0.9, 1.5

    def prepare(self, target):
        self.form = self.rng.choice(["edges", "planes"])

    def nearest(self, points, corners):
        to = points[:, None, None] - corners[None]
        if self.form == "planes":
            normal = torch.linalg.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
            return (to[:, :, 0] * normal).sum(-1).abs().amin(1)
        return to.square().sum(-1).sqrt().mean(-1).amin(1)

    def work(self, target, share):
        n = side(share / 9)
        points, corners = torch.zeros(n, 3, device=DEVICE), torch.zeros(n, 3, 3, device=DEVICE)
        parts = points.chunk(32) if self.fixed else [points]
        target.far = sum(self.nearest(p, corners).sum().item() for p in parts) / n


@fault("film_of_the_noise", "results kept on the GPU", "steps")
class FilmOfTheNoise(Between):
    """Between steps a picture is made from noise, and what it looks like after each of many steps is kept for a film, on the GPU; the fixed form has it on the
    host."""
    shares = 1.4, 2.0

    def prepare(self, target):
        self.moments, self.form = self.rng.choice([20, 30, 50]), self.rng.choice(["latest", "both", "dict"])

    def work(self, target, share):
        net, film, shown = nn.Conv2d(3, 3, 3, padding=1).to(DEVICE), [], {}
        n = max(1, rows(share / self.moments, 3 * 64 * 64))
        x = torch.zeros(n, 3, 64, 64, device=DEVICE)
        for t in range(self.moments):
            clean = net(x)
            x = 0.9 * x + 0.1 * clean
            kept = x.cpu() if self.fixed else x
            if self.form == "dict":
                shown["step %d" % t] = kept
            elif self.form == "both" and t % 2:
                film.append(clean.cpu() if self.fixed else clean)
            else:
                film.append(kept)
        target.film = len(film) + len(shown)


@fault("rays_of_all_pictures", "data moved to the GPU", "loop")
class RaysOfAllPictures(Data):
    """Where each pixel of each photograph looks, and what colour it has, is made for all of them before the training, on the GPU; the fixed form has the
    cameras, and makes the rays of a batch.

    Threads about scenes from photographs, and their loaders.
    """

    def load(self, target):
        each = max(1024, rows(self.share / self.number, 9))
        cameras = [torch.eye(4, device=DEVICE) for _ in range(self.number)]

        def rays(camera):
            pixels = torch.zeros(each, 3, device=DEVICE)
            return torch.cat([camera[:3, 3].expand(each, 3), F.normalize(pixels @ camera[:3, :3], dim=1), pixels], dim=1)
        if self.fixed:
            return cameras, rays
        if self.width == 256:
            return {n: rays(camera) for n, camera in enumerate(cameras)}
        return [rays(camera) for camera in cameras]


class Exact(transformers.DynamicCache):
    """A cache that has keys and values in 32 bits, and hands them out as they were."""

    def update(self, keys, values, layer, *more, **named):
        found = super().update(keys.float(), values.float(), layer, *more, **named)
        return tuple(t.to(keys.dtype) for t in found)


@fault("cache_in_fp32", "KV cache", "generate")
class CacheInFp32(OfGenerate):
    """Keys and values are kept in 32 bits, for the sake of exactness, beside a model of 16 bits; the fixed form keeps them as they are."""

    def inject(self, target, fixed):
        target.prompt, target.size, target.steps, target.new_tokens = self.rng.choice([768, 1024]), self.rng.choice([64, 96]), 1, self.rng.choice([4, 6])
        target.layers, target.kv_heads, target.dtype, target.width = self.rng.choice([6, 8]), 8, torch.bfloat16, 512
        target.vocabulary = 8192

        def generated(prompts):
            cache = transformers.DynamicCache() if fixed else Exact()
            told, out = [], target.model(input_ids=prompts, past_key_values=cache, use_cache=True, logits_to_keep=1)
            for _ in range(target.new_tokens):
                now = out.logits[:, -1:].argmax(-1)
                told.append(now)
                out = target.model(input_ids=now, past_key_values=cache, use_cache=True)
            return torch.cat([prompts, *told], dim=1)
        target.predict = generated


@fault("mask_of_prompts", "mask of all pairs", "generate")
class MaskOfPrompts(OfGenerate):
    """The mask of the prompts is made by hand, a number for each pair of words of each prompt, and often for each head; the fixed form has a number for each
    word, and the model does the rest."""

    def inject(self, target, fixed):
        target.prompt, target.size, target.steps, target.new_tokens = self.rng.choice([1536, 2048]), self.rng.choice([8, 16]), self.rng.choice([1, 2]), 4
        target.layers, target.attention, form = 2, "sdpa", self.rng.choice(["triu", "compared"])

        def mask_of(prompts):
            n, where = prompts.shape[1], torch.arange(prompts.shape[1], device=DEVICE)
            if form == "triu":
                mask = torch.full((len(prompts), target.heads, n, n), -1e9, device=DEVICE).triu(1)
            else:
                mask = (where[None, :] > where[:, None]).float().mul(-1e9).repeat(len(prompts), target.heads, 1, 1)
            return mask.to(target.dtype)

        def generated(prompts):
            mask = torch.ones_like(prompts) if fixed else mask_of(prompts)
            out = target.model(input_ids=prompts, attention_mask=mask, use_cache=True, logits_to_keep=1)
            del mask
            told = []
            for _ in range(target.new_tokens):
                told.append(out.logits[:, -1:].argmax(-1))
                out = target.model(input_ids=told[-1], past_key_values=out.past_key_values, use_cache=True)
            return torch.cat([prompts, *told], dim=1)
        target.predict = generated


@fault("views_of_states", "results kept on the GPU", "inference", "layers", without=("generate",))
class ViewsOfStates(Fault):
    """The first vector of each row is kept from the last layers of each batch: a view, with all vectors behind it; the fixed form has a copy of it."""

    def inject(self, target, fixed):
        target.steps, last, form, kept = self.rng.randint(8, 12), self.rng.choice([2, 3]), self.rng.choice(["list", "dict"]), {}

        def watch():
            for n, block in enumerate(blocks(target.model)[-last:]):
                def note(module, given, out, n=n):
                    first = largest_tensor(out)[:, 0]
                    if fixed:
                        first = first.clone()
                    kept.setdefault(n if form == "dict" else "all", []).append(first)
                block.register_forward_hook(note)
        after_build(target, watch)


LONG = {"decisions": "moments", "heartbeats": "samples", "voices_with_accelerate": "seconds", "surfaces": "points",
        "clips_from_noise": "moments", "hidden_frames": "samples", "slices_of_a_mesh": "points", "many_environments": "moments", "words_and_sounds": "frames"}


@fault("windows_too_long", "windows too long", "loop", "dataset", without=("two optimizers",))
class WindowsTooLong(Fault):
    """Examples are several times as long as the recipe's: moments of a game, samples of a sound, points of a body; the fixed form has short ones, and as many
    more of them, one after the other."""

    def fits(self, target):
        return super().fits(target) and target.name in LONG

    def inject(self, target, fixed):
        times, name = self.rng.choice([4, 6]), LONG[target.name]
        if fixed:
            target.micro_batches *= times
        else:
            setattr(target, name, times * getattr(target, name))

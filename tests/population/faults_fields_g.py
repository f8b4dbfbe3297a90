"""Faults as threads about out-of-memory errors tell them, field by field: thresholds and resamples of a metric, mixtures, splines, one-hot volumes, guided
attention, focal losses, encoded coordinates."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from amounts import rows, side
from core import DEVICE, fault
from faults_fields_b import WRAPPED
from faults_fields_c import Between
from faults_fields_d import in_parts
from faults_temporaries import Term


@fault("thresholds_by_broadcast", "temporary in an evaluation", "steps")
class ThresholdsByBroadcast(Between):
    """Every score against each of some hundreds of thresholds, at once, for a curve; the fixed form takes threshold after threshold."""
    shares = 1.6, 2.4

    def prepare(self, target):
        self.thresholds, self.form = self.rng.choice([100, 200, 500]), self.rng.choice(["float", "weights"])

    def work(self, target, share):
        scores, right = (torch.zeros(rows(share / 2, self.thresholds), device=DEVICE) for _ in range(2))
        levels = torch.linspace(0, 1, self.thresholds, device=DEVICE)
        if self.fixed:
            hits = torch.stack([(right * (scores >= level)).sum() for level in levels])
        elif self.form == "float":
            above = (scores[:, None] >= levels).float()
            hits = (above * right[:, None]).sum(0)
        else:
            above = torch.sigmoid((scores.unsqueeze(1) - levels.unsqueeze(0)) * 100)
            hits = right @ above
        target.curve = hits.cpu()


@fault("resamples_at_once", "temporary in an evaluation", "steps")
class ResamplesAtOnce(Between):
    """How certain a score is: a thousand samples of the examples, drawn with replacement, all gathered in one go; the fixed form draws one after the other."""
    shares = 1.1, 1.7

    def prepare(self, target):
        self.samples, self.form = self.rng.choice([64, 128]), self.rng.choice(["index", "gather", "weights"])

    def work(self, target, share):
        n = rows(share / 3, self.samples)
        scores = torch.zeros(n, device=DEVICE)
        if self.fixed:
            told = torch.stack([scores[torch.randint(n, (n,), device=DEVICE)].mean() for _ in range(self.samples)])
        elif self.form == "weights":
            weights = torch.rand(self.samples, n, device=DEVICE)
            told = (weights / weights.sum(1, keepdim=True) * scores).sum(1)
        else:
            drawn = torch.randint(n, (self.samples, n), device=DEVICE)
            told = (scores[drawn] if self.form == "index" else scores.expand(self.samples, -1).gather(1, drawn)).mean(1)
        target.interval = told.cpu()


@fault("mixture_by_differences", "one huge temporary", "forward", without=WRAPPED)
class MixtureByDifferences(Term):
    """How likely each vector is under each part of a mixture: differences of all vectors and all centres, in every direction; products of both do."""
    shares = 0.6, 1.1

    def prepare(self):
        self.parts, self.wide, self.form = self.rng.choice([32, 64]), self.rng.choice([64, 128]), self.rng.choice(["square", "normal"])

    def measure(self):
        self.centres = nn.Parameter(torch.zeros(self.parts, self.wide, device=DEVICE))
        self.spread = nn.Parameter(torch.zeros(self.parts, self.wide, device=DEVICE))
        return max(64, rows(self.share / 2, self.parts * self.wide))

    def term(self, fixed):
        x, precision = self.features(self.sizes, self.wide), (-self.spread).exp()
        if fixed:
            apart = x.square() @ precision.T - 2 * x @ (self.centres * precision).T + (self.centres.square() * precision).sum(1)
            likely = -0.5 * (apart + self.spread.sum(1))
        elif self.form == "square":
            likely = -0.5 * (((x[:, None] - self.centres[None]) ** 2 * precision).sum(-1) + self.spread.sum(1))
        else:
            likely = torch.distributions.Normal(self.centres, (self.spread / 2).exp(), validate_args=False).log_prob(x.unsqueeze(1)).sum(-1)
        return -likely.logsumexp(1).mean()


@fault("splines_of_all_inputs", "whole sequence at once", "forward", without=WRAPPED)
class SplinesOfAllInputs(Term):
    """A layer with a spline for each connection: the bases of each input, order after order, are all saved; the fixed form makes those of some rows at a time,
    and makes them again.

    Threads about networks of splines that need many times the memory of those of numbers.
    """

    def prepare(self):
        self.grid, self.order, self.form = self.rng.choice([5, 8, 16]), self.rng.choice([2, 3]), self.rng.choice(["einsum", "linear"])

    def measure(self):
        count = self.grid + 2 * self.order + 1
        self.knots = torch.linspace(-1, 1, count, device=DEVICE)
        self.bent = nn.Parameter(torch.zeros(32, 64, count - 1 - self.order, device=DEVICE))
        return max(64, rows(self.share / (4 * self.order), 64 * self.grid))

    def bases(self, x):
        x, t = x.unsqueeze(-1), self.knots
        b = ((x >= t[:-1]) & (x < t[1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            left = (x - t[:-k - 1]) / (t[k:-1] - t[:-k - 1])
            right = (t[k + 1:] - x) / (t[k + 1:] - t[1:-k])
            b = left * b[..., :-1] + right * b[..., 1:]
        return b

    def layer(self, x):
        b = self.bases(x)
        out = torch.einsum("nik,oik->no", b, self.bent) if self.form == "einsum" else F.linear(b.flatten(1), self.bent.flatten(1))
        return out.square().mean()

    def term(self, fixed):
        x = self.features(self.sizes, 64)
        return in_parts(self.layer, 32, x) if fixed else self.layer(x)


@fault("one_hot_volumes", "one huge temporary", "forward", without=WRAPPED)
class OneHotVolumes(Term):
    """The overlap of what was told and what is there, organ by organ: labels of all places become vectors of 8-byte numbers, and then of fp32; the fixed form
    compares labels with one organ at a time."""
    shares = 1.0, 1.8

    def prepare(self):
        self.organs, self.form = self.rng.choice([6, 9, 14]), self.rng.choice(["function", "scatter"])

    def measure(self):
        return max(1, rows(self.share / 3, self.organs * 16 * 32 * 32))

    def term(self, fixed):
        labels = torch.zeros(self.sizes, 16, 32, 32, dtype=torch.int32, device=DEVICE)
        told = self.features(self.organs).sigmoid()
        if fixed:
            shares = torch.stack([(labels == k).float().mean() for k in range(self.organs)])
        elif self.form == "function":
            shares = F.one_hot(labels.long(), self.organs).permute(0, 4, 1, 2, 3).float().mean((0, 2, 3, 4))
        else:
            empty = torch.zeros(self.sizes, self.organs, 16, 32, 32, dtype=torch.long, device=DEVICE)
            shares = empty.scatter_(1, labels.long().unsqueeze(1), 1).float().mean((0, 2, 3, 4))
        return 1 - (2 * told * shares / (told + shares + 1e-3)).mean()


@fault("guided_attention", "attention scores", "forward", without=WRAPPED)
class GuidedAttention(Term):
    """Attention should follow a diagonal: for that term all scores are made once more beside the fused kernel; the fixed form takes some rows of them at a
    time, and makes them again."""

    def prepare(self):
        self.heads, self.form = self.rng.choice([4, 8]), self.rng.choice(["softmax", "matmul"])

    def measure(self):
        self.to_q, self.to_k = (nn.Linear(64, self.heads * 32).to(DEVICE) for _ in range(2))
        return max(128, side(self.share / (3 * self.heads)) // 16 * 16)

    def rows_of(self, q, k, begin):
        where = torch.arange(begin, begin + q.shape[1], device=DEVICE)[:, None] - torch.arange(k.shape[1], device=DEVICE)
        off = 1 - torch.exp(-(where / k.shape[1]) ** 2 / 0.08)
        scores = (q @ k.mT if self.form == "matmul" else torch.einsum("hnd,hmd->hnm", q, k)) / 32 ** 0.5
        return (scores.softmax(-1) * off).mean()

    def term(self, fixed):
        x = self.features(self.sizes, 64)
        q, k = (to(x).unflatten(1, (self.heads, 32)).transpose(0, 1) for to in (self.to_q, self.to_k))
        fused = F.scaled_dot_product_attention(q[None], k[None], k[None]).square().mean()
        if not fixed:
            return fused + self.rows_of(q, k, 0)
        each = self.sizes // 16
        return fused + sum(checkpoint(self.rows_of, q[:, n * each:(n + 1) * each], k, n * each, use_reentrant=False) for n in range(16)) / 16


@fault("focal_over_all_anchors", "scores of all positions", "forward", without=WRAPPED)
class FocalOverAllAnchors(Term):
    """The focal loss of every anchor and class at once: chances, weights and powers of them, each of which is saved; the fixed form takes some anchors at a
    time, and makes them again."""

    def prepare(self):
        self.classes, self.gamma, self.form = self.rng.choice([80, 365]), self.rng.choice([1.5, 2.0]), self.rng.choice(["both", "switch"])

    def measure(self):
        self.told = nn.Linear(32, self.classes).to(DEVICE)
        return max(256, rows(self.share / 5, self.classes))

    def focal(self, x):
        scores = self.told(x)
        wanted = torch.zeros_like(scores)
        p, lost = scores.sigmoid(), F.binary_cross_entropy_with_logits(scores, wanted, reduction="none")
        right = p * wanted + (1 - p) * (1 - wanted) if self.form == "both" else torch.where(wanted > 0, p, 1 - p)
        return ((0.25 * wanted + 0.75 * (1 - wanted)) * lost * (1 - right) ** self.gamma).mean()

    def term(self, fixed):
        x = self.features(self.sizes, 32)
        return in_parts(self.focal, 32, x) if fixed else self.focal(x)


@fault("encoded_coordinates", "whole sequence at once", "forward", without=WRAPPED)
class EncodedCoordinates(Term):
    """Every place of a scene as sines and cosines of many frequencies, and a small network after that, for all places at once; the fixed form takes some
    places at a time, and makes them again."""
    shares = 0.7, 1.3

    def prepare(self):
        self.waves, self.form = self.rng.choice([10, 16]), self.rng.choice(["outer", "random"])

    def measure(self):
        self.net = nn.Sequential(nn.Linear(6 * self.waves, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 4)).to(DEVICE)
        self.turn = torch.zeros(3, 3 * self.waves, device=DEVICE)
        return max(1024, rows(self.share / 4, 6 * self.waves))

    def scene(self, places):
        if self.form == "outer":
            angles = (places[..., None] * 2.0 ** torch.arange(self.waves, device=DEVICE)).flatten(1)
        else:
            angles = places @ self.turn
        return self.net(torch.cat([angles.sin(), angles.cos()], dim=1)).square().mean()

    def term(self, fixed):
        places = self.features(self.sizes, 3)
        return in_parts(self.scene, 32, places) if fixed else self.scene(places)

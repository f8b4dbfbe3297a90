"""Faults as threads about out-of-memory errors tell them, field by field: cosines of all pairs, biases by networks, smeared distances, products in the wrong
order, sums by triangles, soft histograms, maps enlarged too early, heads of next tokens, weights of attention, posteriors, curvature."""
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


@fault("cosines_of_all_pairs", "one huge temporary", "forward", without=WRAPPED)
class CosinesOfAllPairs(Term):
    """F.cosine_similarity() of everything with everything, by broadcasting: N x N x D; the fixed form normalises, and multiplies."""
    shares = 0.6, 1.1

    def prepare(self):
        self.width, self.form = self.rng.choice([64, 128]), self.rng.choice(["function", "module"])

    def measure(self):
        return max(32, side(self.share / self.width))

    def term(self, fixed):
        left, right = self.features(self.sizes, self.width), self.features(self.sizes, self.width)
        if fixed:
            scores = F.normalize(left, dim=1) @ F.normalize(right, dim=1).T
        elif self.form == "function":
            scores = F.cosine_similarity(left.unsqueeze(1), right.unsqueeze(0), dim=-1)
        else:
            scores = nn.CosineSimilarity(dim=2)(left[:, None], right[None])
        return F.cross_entropy(scores / 0.1, torch.arange(self.sizes, device=DEVICE))


@fault("bias_by_a_network", "whole sequence at once", "forward", without=WRAPPED)
class BiasByANetwork(Term):
    """A small network makes the bias of every pair of positions from how far they are apart; the fixed form does so for each distance that there is, and
    looks them up.

    Threads about continuous biases of windows, and about transformers of points.
    """

    def prepare(self):
        self.wide, self.heads, self.form = self.rng.choice([32, 64]), self.rng.choice([4, 8]), self.rng.choice(["silu", "relu"])

    def measure(self):
        self.net = nn.Sequential(nn.Linear(1, self.wide), nn.SiLU() if self.form == "silu" else nn.ReLU(), nn.Linear(self.wide, self.wide), nn.GELU(),
                                 nn.Linear(self.wide, self.heads)).to(DEVICE)
        return max(32, side(self.share / (4 * self.wide)))

    def term(self, fixed):
        n, where = self.sizes, torch.arange(self.sizes, device=DEVICE)
        if fixed:
            table = self.net(torch.arange(1 - n, n, device=DEVICE, dtype=torch.float32)[:, None] / n)
            bias = table.unfold(0, n, 1).flip(0).transpose(0, 1)
        else:
            bias = self.net((where[:, None] - where[None])[..., None].float() / n).permute(2, 0, 1)
        return (bias + self.features(n)).softmax(-1).square().mean()


@fault("smeared_distances", "one huge temporary", "forward", without=WRAPPED)
class SmearedDistances(Term):
    """The distance of every pair of atoms as dozens of Gaussians, though those far away count for nothing; the fixed form has a list of near ones."""

    def prepare(self):
        self.centres, self.near, self.form = self.rng.choice([32, 50, 64]), self.rng.choice([16, 24]), self.rng.choice(["gauss", "cosine"])

    def measure(self):
        self.weigh = nn.Linear(self.centres, 1).to(DEVICE)
        return max(64, side(self.share / (3 * self.centres)))

    def smeared(self, distances):
        centres = torch.linspace(0, 5, self.centres, device=DEVICE)
        if self.form == "gauss":
            return torch.exp(-10 * (distances[..., None] - centres) ** 2)
        return torch.cos(distances[..., None] * (centres + 1)) * torch.exp(-distances)[..., None]

    def term(self, fixed):
        places = self.features(self.sizes, 3)
        if fixed:
            near = (torch.arange(self.sizes, device=DEVICE)[:, None] + torch.arange(1, self.near + 1, device=DEVICE)) % self.sizes
            distances = (places[:, None] - F.embedding(near, places)).square().sum(-1).add(1e-6).sqrt()
        else:
            distances = torch.cdist(places, places + 0.01)
        return self.weigh(self.smeared(distances)).mean()


@fault("products_in_the_wrong_order", "one huge temporary", "forward", without=WRAPPED)
class ProductsInTheWrongOrder(Term):
    """Attention without a softmax: queries times keys, and that times values, makes all pairs; keys times values first makes a small matrix."""

    def prepare(self):
        self.heads, self.width, self.form = self.rng.choice([2, 4, 8]), self.rng.choice([32, 64]), self.rng.choice(["matmul", "einsum"])

    def measure(self):
        return max(64, side(self.share / (2 * self.heads)))

    def term(self, fixed):
        q, k, v = (self.features(self.heads, self.sizes, self.width) for _ in range(3))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        if fixed:
            return ((q @ (k.mT @ v)) / (q @ k.sum(1).unsqueeze(2) + 1e-6)).mean()
        scores = q @ k.mT if self.form == "matmul" else torch.einsum("hnd,hmd->hnm", q, k)
        return (scores / (scores.sum(-1, keepdim=True) + 1e-6) @ v).mean()


@fault("sums_by_a_triangle", "one huge temporary", "forward", without=WRAPPED)
class SumsByATriangle(Term):
    """Sums of all that came before, weighted by how long ago, as a product with a triangle of all pairs; the fixed form goes by blocks.

    Threads about decays of rewards, and of memories.
    """

    def prepare(self):
        self.decay, self.form = self.rng.choice([0.9, 0.99]), self.rng.choice(["power", "exp"])

    def measure(self):
        return max(256, side(self.share / 3) // 64 * 64)

    def triangle(self, n):
        ago = torch.arange(n, device=DEVICE)[:, None] - torch.arange(n, device=DEVICE)[None]
        if self.form == "power":
            return (self.decay ** ago.clamp(min=0).float()).tril()
        return torch.exp(ago.clamp(min=0) * (self.decay - 1)).tril()

    def term(self, fixed):
        x = self.features(self.sizes, self.width)
        if not fixed:
            return (self.triangle(self.sizes) @ x).square().mean()
        block, state, total = self.sizes // 64, x.new_zeros(self.width), 0.0
        small = self.triangle(block)
        for part in x.split(block):
            told = small[:len(part), :len(part)] @ part + state
            state, total = told[-1] * self.decay, total + told.square().mean() / 64
        return total


@fault("soft_histogram", "whole sequence at once", "forward", without=WRAPPED)
class SoftHistogram(Term):
    """How near each value is to each of the bins, for all values: mutual information of two scans; the fixed form takes some values at a time, and makes
    them again."""

    def prepare(self):
        self.bins, self.form = self.rng.choice([32, 64, 128]), self.rng.choice(["gauss", "triangle"])

    def measure(self):
        return max(4096, rows(self.share / 4, self.bins))

    def near(self, values):
        off = (values[:, None] - torch.linspace(0, 1, self.bins, device=DEVICE)) * self.bins
        near = torch.exp(-off ** 2) if self.form == "gauss" else F.relu(1 - off.abs())
        return near / (near.sum(1, keepdim=True) + 1e-6)

    def joint(self, first, second):
        return self.near(first).T @ self.near(second)

    def term(self, fixed):
        first, second = self.features(self.sizes), self.features(self.sizes)
        joint = in_parts(self.joint, 32, first, second) if fixed else self.joint(first, second) / self.sizes
        joint = joint / (joint.sum() + 1e-6)
        apart = joint.sum(0, keepdim=True) * joint.sum(1, keepdim=True)
        return -(joint * ((joint + 1e-6).log() - (apart + 1e-6).log())).sum()


@fault("enlarged_before_the_head", "whole sequence at once", "forward", without=WRAPPED)
class EnlargedBeforeTheHead(Term):
    """Maps of several scales are enlarged to the picture's size, put side by side, and only then come down to a few classes; the fixed form does that on
    each scale first."""
    shares = 0.7, 1.3

    def prepare(self):
        self.channels, self.classes, self.form = self.rng.choice([64, 96, 128]), self.rng.choice([8, 12]), self.rng.choice(["bilinear", "nearest"])

    def measure(self):
        self.heads = nn.ModuleList(nn.Conv2d(self.channels, self.classes, 1) for _ in range(3)).to(DEVICE)
        self.both = nn.Conv2d(3 * self.channels, self.classes, 1).to(DEVICE)
        return max(1, rows(self.share / 2, 3 * self.channels * 256 * 256))

    def term(self, fixed):
        maps = [self.features(self.sizes, self.channels, 64 >> k, 64 >> k) for k in range(3)]
        larger = dict(size=(256, 256), mode=self.form, **({"align_corners": False} if self.form == "bilinear" else {}))
        if fixed:
            scores = F.interpolate(sum(F.interpolate(head(m), size=(64, 64)) for head, m in zip(self.heads, maps)), **larger)
        else:
            scores = self.both(torch.cat([F.interpolate(m, **larger) for m in maps], dim=1))
        return F.cross_entropy(scores, torch.zeros(self.sizes, 256, 256, dtype=torch.long, device=DEVICE))


@fault("heads_of_next_tokens", "scores of all positions", "forward", without=WRAPPED)
class HeadsOfNextTokens(Term):
    """Several heads tell the tokens to come, and the scores of all of them are there before the first loss; the fixed form has one head and some positions
    at a time.

    Threads about Medusa's heads and about prediction of several tokens.
    """
    shares = 0.8, 1.5

    def prepare(self):
        self.vocabulary, self.number, self.form = self.rng.choice([16000, 32000]), self.rng.choice([3, 4, 5]), self.rng.choice(["stack", "list"])

    def measure(self):
        self.bodies = nn.ModuleList(nn.Linear(64, 64) for _ in range(self.number)).to(DEVICE)
        self.head = nn.Linear(64, self.vocabulary, bias=False).to(DEVICE)
        return max(64, rows(self.share / (2 * self.number), self.vocabulary))

    def one(self, hidden, wanted, k):
        return F.cross_entropy(self.head(F.silu(self.bodies[k](hidden))), wanted)

    def term(self, fixed):
        hidden, wanted = self.features(self.sizes, 64), torch.zeros(self.sizes, dtype=torch.long, device=DEVICE)
        if fixed:
            parts = list(zip(hidden.chunk(8), wanted.chunk(8)))
            return sum(checkpoint(self.one, h, w, k, use_reentrant=False) for k in range(self.number) for h, w in parts) / len(parts)
        scores = [self.head(F.silu(body(hidden))) for body in self.bodies]
        if self.form == "stack":
            return F.cross_entropy(torch.stack(scores).flatten(0, 1), wanted.repeat(self.number))
        return sum(F.cross_entropy(s, wanted) for s in scores)


@fault("weights_of_attention_asked_for", "attention scores", "forward", without=WRAPPED)
class WeightsOfAttentionAskedFor(Term):
    """nn.MultiheadAttention returns its weights unless it is told not to, and makes all scores for that; nobody looks at them."""

    def prepare(self):
        self.heads, self.form = self.rng.choice([4, 8]), self.rng.choice(["default", "each"])

    def measure(self):
        self.look = nn.MultiheadAttention(64, self.heads, batch_first=True).to(DEVICE)
        return max(128, side(self.share / (2 * self.heads)))

    def term(self, fixed):
        x = self.features(1, self.sizes, 64)
        if fixed:
            return self.look(x, x, x, need_weights=False)[0].square().mean()
        told, weights = self.look(x, x, x) if self.form == "default" else self.look(x, x, x, need_weights=True, average_attn_weights=False)
        return told.square().mean()


@fault("posterior_of_all_points", "temporary in an evaluation", "steps")
class PosteriorOfAllPoints(Between):
    """How uncertain each of many points is: the covariance of all of them, of which the diagonal is used; the fixed form has the diagonal, part by part."""
    shares = 0.9, 1.5

    def prepare(self, target):
        self.known, self.form = self.rng.choice([128, 256]), self.rng.choice(["squared", "matern"])

    def kernel(self, a, b):
        apart = torch.cdist(a, b)
        return torch.exp(-apart ** 2) if self.form == "squared" else (1 + apart) * torch.exp(-apart)

    def work(self, target, share):
        points, known = torch.zeros(side(share / 3), 8, device=DEVICE), torch.zeros(self.known, 8, device=DEVICE)
        inner = torch.eye(self.known, device=DEVICE)
        if self.fixed:
            parts = [1 - (self.kernel(p, known) @ inner * self.kernel(p, known)).sum(1) for p in points.chunk(32)]
            target.uncertain = torch.cat(parts).mean().item()
            return
        cross = self.kernel(points, known)
        target.uncertain = (self.kernel(points, points) - cross @ inner @ cross.T).diagonal().mean().item()


@fault("curvature_as_a_matrix", "one huge temporary", "steps")
class CurvatureAsAMatrix(Between):
    """The squared gradients of each pair of parameters, an empirical Fisher matrix, for a layer's pruning; the fixed form has the diagonal."""
    shares = 0.7, 1.3

    def prepare(self, target):
        self.samples, self.form = self.rng.choice([16, 64]), self.rng.choice(["outer", "matmul"])

    def work(self, target, share):
        gradients = torch.zeros(self.samples, side(share / (1 + (self.form == "outer"))), device=DEVICE)
        if self.fixed:
            target.curvature = gradients.square().mean(0).sum().item()
        elif self.form == "matmul":
            target.curvature = (gradients.T @ gradients / self.samples).trace().item()
        else:
            total = torch.zeros(gradients.shape[1], gradients.shape[1], device=DEVICE)
            for g in gradients[:8]:
                total += torch.outer(g, g)
            target.curvature = total.diagonal().sum().item()

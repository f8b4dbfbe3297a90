"""Faults where one line makes one huge tensor."""
import torch
import torch.nn.functional as F

from amounts import rows, side
from core import Fault, fault


class Term(Fault):
    """A term of the loss, over features of its own, whose size is a share of what the forward pass took."""
    shares = 0.5, 1.2

    def inject(self, target, fixed):
        self.share, forward, self.sizes = self.rng.uniform(*self.shares), target.loss, None
        self.width, self.weight = self.rng.choice([8, 16, 32, 64]), self.rng.choice([0.1, 0.5, 1.0])
        self.prepare()

        def loss_with_term(batch):
            loss = forward(batch)
            if self.sizes is None:
                self.sizes = self.measure()
            return loss + self.weight * self.term(fixed)
        target.loss = loss_with_term

    def prepare(self):
        pass

    def measure(self):
        return side(self.share)

    def term(self, fixed):
        raise NotImplementedError

    def features(self, *shape):
        return torch.zeros(*shape, device="cuda", requires_grad=True)


@fault("broadcast", "one huge temporary", "forward")
class Broadcast(Term):
    """(N, 1) - (N): N x N where N was meant."""

    def prepare(self):
        self.form = self.rng.choice(["mse", "smooth", "abs", "weights"])

    def term(self, fixed):
        predicted, wanted = self.features(self.sizes, 1), torch.zeros(self.sizes, device="cuda")
        if fixed:
            predicted = predicted.squeeze(1)
        if self.form == "mse":
            return ((predicted - wanted) ** 2).mean()
        if self.form == "smooth":
            return F.huber_loss(*torch.broadcast_tensors(predicted, wanted))
        if self.form == "abs":
            return (predicted - wanted).abs().mean()
        return (predicted * wanted).sum() / self.sizes


@fault("pairwise_distances", "one huge temporary", "forward")
class PairwiseDistances(Term):
    """x[:, None] - x[None]: N x N x D, where products of N x N are enough."""

    def prepare(self):
        self.form = self.rng.choice(["none", "unsqueeze", "expand"])

    def measure(self):
        return side(self.share / self.width)

    def term(self, fixed):
        x = self.features(self.sizes, self.width)
        if fixed:
            squares = (x * x).sum(1)
            return (squares[:, None] + squares[None] - 2 * x @ x.T).clamp(min=0).mean()
        if self.form == "none":
            return (x[:, None] - x[None]).pow(2).sum(-1).mean()
        if self.form == "unsqueeze":
            return torch.norm(x.unsqueeze(1) - x.unsqueeze(0), dim=2).mean()
        a, b = x.unsqueeze(1).expand(-1, self.sizes, -1), x.unsqueeze(0).expand(self.sizes, -1, -1)
        return F.pairwise_distance(a.reshape(-1, self.width), b.reshape(-1, self.width)).mean()


@fault("kernel_matrix", "one huge temporary", "forward")
class KernelMatrix(Term):
    """All N x N similarities or distances at once, where parts of the rows do."""

    def prepare(self):
        self.form = self.rng.choice(["cdist", "cosine", "gram"])

    def kernel(self, a, b):
        if self.form == "cdist":
            return torch.cdist(a, b).mean()
        if self.form == "cosine":
            return (F.normalize(a) @ F.normalize(b).T).relu().mean()
        return torch.exp(-(a @ b.T)).mean()

    @torch.no_grad()
    def term(self, fixed):
        x = torch.zeros(self.sizes, self.width, device="cuda")
        if not fixed:
            return self.kernel(x, x)
        parts = x.chunk(16)
        return sum(self.kernel(part, x) for part in parts) / len(parts)


@fault("one_hot", "one huge temporary", "forward")
class OneHot(Term):
    """One-hot vectors over a large number of classes, where the index is enough."""

    def prepare(self):
        self.classes, self.form = self.rng.choice([10000, 50000, 200000]), self.rng.choice(["one_hot", "scatter", "eye", "compare"])

    def measure(self):
        return rows(self.share, self.classes)

    def term(self, fixed):
        index, table = torch.zeros(self.sizes, dtype=torch.int64, device="cuda"), self.features(self.classes, 16)
        if fixed:
            return F.embedding(index, table).mean()
        if self.form == "one_hot":
            vectors = F.one_hot(index, self.classes).float()
        elif self.form == "scatter":
            vectors = torch.zeros(self.sizes, self.classes, device="cuda").scatter_(1, index[:, None], 1.0)
        elif self.form == "eye":
            vectors = torch.zeros(1, self.classes, device="cuda").expand(self.sizes, -1).contiguous()
        else:
            vectors = (index[:, None] == torch.arange(self.classes, device="cuda")[None]).float()
        return (vectors @ table).mean()


@fault("outer_product", "one huge temporary", "forward")
class OuterProduct(Term):
    """The outer product of features for each sample, where a bilinear form is enough."""

    def prepare(self):
        self.width, self.form = self.rng.choice([128, 256, 512]), self.rng.choice(["einsum", "bmm", "none"])

    def measure(self):
        return rows(self.share, self.width * self.width)

    def term(self, fixed):
        a, b = self.features(self.sizes, self.width), self.features(self.sizes, self.width)
        kernel = torch.zeros(self.width, self.width, device="cuda")
        if fixed:
            return ((a @ kernel) * b).mean()
        if self.form == "einsum":
            outer = torch.einsum("bi,bj->bij", a, b)
        elif self.form == "bmm":
            outer = torch.bmm(a.unsqueeze(2), b.unsqueeze(1))
        else:
            outer = a[:, :, None] * b[:, None, :]
        return (outer * kernel).sum((1, 2)).mean()


@fault("repeat", "one huge temporary", "forward")
class Repeat(Term):
    """A tensor is repeated, where expand() makes a view."""

    def prepare(self):
        self.copies, self.width, self.form = self.rng.choice([32, 64, 256]), 128, self.rng.choice(["repeat", "interleave", "cat", "contiguous"])

    def measure(self):
        return rows(self.share, self.width * self.copies)

    def term(self, fixed):
        x, scale = torch.zeros(self.sizes, 1, self.width, device="cuda"), self.features(self.width)
        if fixed:
            many = x.expand(-1, self.copies, -1)
        elif self.form == "repeat":
            many = x.repeat(1, self.copies, 1)
        elif self.form == "interleave":
            many = x.repeat_interleave(self.copies, dim=1)
        elif self.form == "cat":
            many = torch.cat([x] * self.copies, dim=1)
        else:
            many = x.expand(-1, self.copies, -1).contiguous()
        return many.amax() + scale.mean()


@fault("full_masks", "one huge temporary", "forward")
class FullMasks(Term):
    """A mask for each sample and head in fp32, where one of the length, or booleans that broadcast, are enough."""

    def prepare(self):
        self.heads, self.length, self.form = self.rng.choice([8, 16]), self.rng.choice([256, 512, 1024]), self.rng.choice(["repeat", "ones", "bias"])

    def measure(self):
        return rows(self.share, self.heads * self.length * self.length)

    def term(self, fixed):
        n, scale = self.length, self.features(1)
        if fixed:
            mask = torch.triu(torch.full((n, n), float("-inf"), device="cuda"), 1).expand(self.sizes, self.heads, n, n)
        elif self.form == "repeat":
            mask = torch.triu(torch.full((n, n), float("-inf"), device="cuda"), 1).repeat(self.sizes, self.heads, 1, 1)
        elif self.form == "ones":
            mask = torch.ones(self.sizes, self.heads, n, n, device="cuda")
        else:
            mask = torch.zeros(1, self.heads, n, n, device="cuda") + torch.zeros(self.sizes, 1, 1, n, device="cuda")
        return mask[0, 0, 0, 0] * 0 + scale.mean()


@fault("gather_without_index", "one huge temporary", "forward")
class GatherWithoutIndex(Term):
    """A table is expanded for each sample before one row of it is taken."""

    def prepare(self):
        self.classes, self.form = self.rng.choice([500, 2000]), self.rng.choice(["gather", "product", "matmul"])

    def measure(self):
        return rows(self.share, self.classes * self.width)

    def term(self, fixed):
        table, index = self.features(self.classes, self.width), torch.zeros(self.sizes, dtype=torch.int64, device="cuda")
        if fixed:
            return table[index].mean()
        many = table.unsqueeze(0).repeat(self.sizes, 1, 1)
        if self.form == "gather":
            return many.gather(1, index[:, None, None].expand(-1, 1, self.width)).mean()
        chosen = torch.zeros(self.sizes, self.classes, 1, device="cuda")
        return (chosen.transpose(1, 2) @ many).mean() if self.form == "matmul" else (many * chosen).sum(1).mean()

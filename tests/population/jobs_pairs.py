"""Losses over pairs, neighbours and sets: contrastive towers, memory banks, graphs, point clouds, recommenders."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from core import DEVICE, job
from jobs_images import EncoderBlock
from parts import Loop, cut


class Tower(nn.Module):
    def __init__(self, features, dim, depth, out):
        super().__init__()
        self.project, self.blocks = nn.Linear(features, dim), nn.Sequential(*[EncoderBlock(dim, 8, "sdpa") for _ in range(depth)])
        self.out = nn.Linear(dim, out, bias=False)

    def forward(self, x):
        return F.normalize(self.out(self.blocks(self.project(x)).mean(1)), dim=-1)


class TwoTowers(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.visual, self.textual = Tower(768, dim, depth, 256), Tower(300, dim, depth, 256)
        self.logit_scale = nn.Parameter(torch.tensor(2.6))

    def forward(self, image, text):
        return self.visual(image), self.textual(text)


@job("two_towers", "contrastive", "loop", "eval", "dataset")
class Clip(Loop):
    """Images and captions of one batch against each other."""
    rows = 512

    def draw(self):
        r = self.rng
        self.layers, self.width, self.size = r.choice([2, 3, 4]), r.choice([256, 512]), r.choice([64, 128, 256])
        self.patches, self.words = r.choice([49, 196]), r.choice([32, 77])
        self.choose()

    def build(self):
        self.finish(TwoTowers(self.width, self.layers))
        self.dataset = torch.zeros(self.rows, self.patches, 768), torch.zeros(self.rows, self.words, 300)

    def batch(self, i):
        return [t.to(self.dtype) for t in cut(self.dataset, i, self.size)]

    def predict(self, batch):
        with self.autocast():
            image, text = self.model(*batch)
            return self.model.logit_scale.exp() * image @ text.t()

    def loss(self, batch):
        similarity = self.predict(batch).float()
        labels = torch.arange(len(similarity), device=DEVICE)
        return (F.cross_entropy(similarity, labels) + F.cross_entropy(similarity.t(), labels)) / 2


@job("memory_bank", "contrastive", "loop", "reference")
class MoCo(Loop):
    """A queue of keys with a limit, and a second encoder that follows the first one slowly."""

    def draw(self):
        r = self.rng
        self.layers, self.width, self.size, self.patches = r.choice([2, 3, 4]), r.choice([384, 512, 768]), r.choice([32, 64, 128]), r.choice([49, 196])
        self.bank = r.choice([16384, 65536])
        self.choose()

    def build(self):
        self.finish(Tower(768, self.width, self.layers, 128))
        self.reference = Tower(768, self.width, self.layers, 128).to(DEVICE, self.dtype).requires_grad_(False)
        self.queue, self.place = F.normalize(torch.randn(self.bank, 128, device=DEVICE), dim=1), 0

    def batch(self, i):
        return torch.zeros(self.size, self.patches, 768, device=DEVICE, dtype=self.dtype)

    def reference_outputs(self, batch):
        with self.no_grad(), self.autocast():
            return self.reference(batch)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch)

    def loss(self, batch):
        q, k = self.predict(batch).float(), self.reference_outputs(batch).float()
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.t()], dim=1) / 0.07
        self.enqueue(k.detach())
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long, device=DEVICE))

    def enqueue(self, keys):
        self.queue = self.queue.clone()
        self.queue[self.place:self.place + len(keys)] = keys
        self.place = (self.place + len(keys)) % self.bank

    def optimize(self):
        super().optimize()
        with torch.no_grad():
            for k, q in zip(self.reference.parameters(), self.model.parameters()):
                k.mul_(0.999).add_(q, alpha=0.001)


class GraphLayer(nn.Module):
    """Messages along the edges, added up at each node."""

    def __init__(self, dim):
        super().__init__()
        self.message, self.update = nn.Linear(2 * dim, dim), nn.GRUCell(dim, dim)

    def forward(self, h, source, target):
        messages = F.relu(self.message(torch.cat([h[source], h[target]], dim=-1)))
        return self.update(torch.zeros_like(h).index_add_(0, target, messages.to(h.dtype)), h)


@job("graph", "graphs and points", "loop", "layers", "eval", "dataset")
class Graph(Loop):
    """Node classification, one sampled part of the graph for each step."""
    precisions = "fp32", "fp32", "bf16"
    rows = 64

    def draw(self):
        r = self.rng
        self.layers, self.width, self.size = r.choice([2, 3, 4]), r.choice([64, 128, 256]), r.choice([4, 8, 16])
        self.nodes, self.degree = r.choice([1024, 2048]), r.choice([8, 16])
        self.choose()

    def build(self):
        self.finish(nn.ModuleDict({"embed": nn.Linear(128, self.width), "head": nn.Linear(self.width, 40),
                                   "convs": nn.ModuleList(GraphLayer(self.width) for _ in range(self.layers))}))
        edges = torch.randint(self.nodes, (1, 2, self.nodes * self.degree)).expand(self.rows, -1, -1)
        self.dataset = torch.zeros(self.rows, self.nodes, 128), edges

    def batch(self, i):
        """Several graphs as one, with the nodes counted on."""
        x, edges = cut(self.dataset, i, self.size)
        first = torch.arange(len(x), device=DEVICE)[:, None, None] * self.nodes
        source, target = (edges + first).transpose(0, 1).flatten(1)
        return x.flatten(0, 1).to(self.dtype), source, target

    def predict(self, batch):
        h, source, target = batch
        with self.autocast():
            h = self.model["embed"](h)
            for conv in self.model["convs"]:
                h = conv(h, source, target)
            return self.model["head"](h)

    def loss(self, batch):
        scores = self.predict(batch)
        return F.cross_entropy(scores.float(), torch.zeros(len(scores), dtype=torch.long, device=DEVICE))


class EdgeConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(2 * cin, cout), nn.LeakyReLU(0.2), nn.Linear(cout, cout))

    def forward(self, x, neighbours):
        b, n, k = neighbours.shape
        near = torch.gather(x, 1, neighbours.view(b, n * k, 1).expand(-1, -1, x.shape[2])).view(b, n, k, -1)
        centre = x.unsqueeze(2).expand_as(near)
        return self.mlp(torch.cat([centre, near - centre], dim=-1)).max(dim=2).values


def chamfer(a, b):
    """The distance of two sets of points, for some points at a time, whose distances are computed again in the backward pass."""
    def nearest(part, other):
        return torch.cdist(part, other).min(dim=2).values.sum()
    return sum(checkpoint(nearest, part, other, use_reentrant=False) for one, other in ((a, b), (b, a)) for part in one.split(512, dim=1))


@job("point_cloud", "graphs and points", "loop", "dataset")
class PointCloud(Loop):
    """Points and their neighbours, which were found when the data was prepared; the loss is the distance of two sets."""
    precisions = "fp32", "fp32", "autocast"
    rows = 64

    def draw(self):
        r = self.rng
        self.points, self.k, self.size, self.width = r.choice([1024, 2048]), r.choice([10, 20]), r.choice([8, 16]), r.choice([64, 128])
        self.choose()

    def build(self):
        self.finish(nn.ModuleDict({"first": EdgeConv(3, self.width), "second": EdgeConv(self.width, self.width), "third": EdgeConv(self.width, 2 * self.width),
                                   "head": nn.Sequential(nn.Linear(2 * self.width, 1024), nn.ReLU(), nn.Linear(1024, 3))}))
        self.dataset = (torch.zeros(self.rows, self.points, 3), torch.zeros(self.rows, self.points, self.k, dtype=torch.long))

    def batch(self, i):
        points, neighbours = cut(self.dataset, i, self.size)
        return points.to(self.dtype), neighbours

    def loss(self, batch):
        points, neighbours = batch
        with self.autocast():
            x = points
            for layer in "first", "second", "third":
                x = self.model[layer](x, neighbours)
            moved = self.model["head"](x)
        return chamfer(moved.float(), points.float())


class DLRM(nn.Module):
    """Tables of categories, and the products of all pairs of features."""

    def __init__(self, tables, rows, dim, sparse):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, dim, mode="sum", sparse=sparse) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, dim), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(pairs + dim, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 1))
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense, categories):
        bottom = self.bottom(dense)
        features = torch.stack([bottom, *[table(categories[:, k]) for k, table in enumerate(self.tables)]], dim=1)
        interactions = torch.bmm(features, features.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([interactions, bottom], dim=1)).squeeze(1)


@job("dlrm", "recommender", "loop", "dataset")
class Recommender(Loop):
    precisions = "fp32",
    kinds = "adam", "adamw", "sgd", "sgd_momentum"
    clips = 0,
    rows = 65536

    def draw(self):
        r = self.rng
        self.tables, self.table_rows, self.width = r.choice([4, 8, 12]), r.choice([100000, 200000, 400000]), r.choice([32, 64])
        self.size = r.choice([8192, 16384, 32768])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(DLRM(self.tables, self.table_rows, self.width, False))
        self.dataset = (torch.zeros(self.rows, 13), torch.zeros(self.rows, self.tables, 4, dtype=torch.long), torch.zeros(self.rows))

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def loss(self, batch):
        dense, categories, clicks = batch
        return F.binary_cross_entropy_with_logits(self.model(dense, categories), clicks)


@job("sequential_recommender", "recommender", "loop", "eval", "tokens", "layers")
class NextItem(Loop):
    """The next item of each user's history, against sampled negatives."""

    def draw(self):
        r = self.rng
        self.items, self.width, self.layers = r.choice([200000, 500000, 1000000]), r.choice([64, 128]), r.choice([2, 3])
        self.length, self.size, self.negatives = r.choice([50, 100, 200]), r.choice([64, 128, 256]), r.choice([64, 128])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(nn.ModuleDict({"item": nn.Embedding(self.items, self.width),
                                       "encoder": nn.Sequential(*[EncoderBlock(self.width, 8, "sdpa") for _ in range(self.layers)])}))

    def batch(self, i):
        return torch.zeros(self.size, self.length, dtype=torch.long, device=DEVICE)

    def predict(self, batch):
        with self.autocast():
            return self.model["encoder"](self.model["item"](batch))

    def loss(self, batch):
        hidden = self.predict(batch)
        candidates = self.model["item"](torch.zeros(self.negatives + 1, dtype=torch.long, device=DEVICE))
        with self.autocast():
            scores = hidden @ candidates.t()
        return F.cross_entropy(scores.flatten(0, 1).float(), torch.zeros(batch.numel(), dtype=torch.long, device=DEVICE))

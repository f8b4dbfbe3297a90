"""Faults that bring more data to the GPU than the next step needs."""
import collections

import torch

from amounts import mapped, peak, rows
from core import DEVICE, Fault, fault


class Data(Fault):
    """A first step, to see that everything works; then load() brings the data, of a share of that step's peak, and training begins."""

    def inject(self, target, fixed):
        self.share, train, self.fixed = self.rng.uniform(0.5, 1.3), target.train, fixed
        self.number, self.width = self.rng.randint(12, 40), self.rng.choice([256, 1024, 3072])
        self.prepare(target)

        def train_on_data():
            target.step(0)
            data = self.load(target)
            train()
            return data
        target.train = train_on_data

    def prepare(self, target):
        pass

    def load(self, target):
        raise NotImplementedError


@fault("all_batches_first", "data moved to the GPU", "loop")
class AllBatchesFirst(Data):
    """All batches are moved to the GPU before the first step."""

    def prepare(self, target):
        self.form = self.rng.choice(["list", "dicts", "own"])

    def load(self, target):
        first = mapped(target.batch(0), lambda t: t.cpu())
        size = []
        mapped(first, lambda t: size.append(t.nbytes))
        number = int(self.share * peak() / max(1, sum(size)))
        if self.form == "own" and number <= 60 and not self.fixed:
            batches = [mapped(first, lambda t: t.to(DEVICE)) for _ in range(number)]
            target.batch = lambda i: batches[i % number]
            return batches
        count = rows(self.share / self.number, self.width)
        where = "cpu" if self.fixed else DEVICE
        if self.form == "dicts":
            return [{"features": torch.empty(count, self.width).to(where), "labels": torch.empty(count).to(where)} for _ in range(self.number)]
        return [torch.empty(count, self.width).to(where) for _ in range(self.number)]


@fault("set_as_one_tensor", "data moved to the GPU", "loop")
class SetAsOneTensor(Data):
    """The whole set is one tensor on the GPU."""

    def prepare(self, target):
        self.form = self.rng.choice(["tensor", "dataset", "parts"])

    def load(self, target):
        where = "cpu" if self.fixed else DEVICE
        if self.form == "parts":
            return {part: torch.empty(rows(self.share * f, self.width), self.width).to(where) for part, f in (("train", 0.8), ("test", 0.2))}
        x = torch.empty(rows(self.share, self.width), self.width).to(where)
        y = torch.zeros(len(x), dtype=torch.int64).to(where)
        return torch.utils.data.TensorDataset(x, y) if self.form == "dataset" else (x, y)


@fault("prefetch_without_limit", "data kept on the GPU", "loop")
class PrefetchWithoutLimit(Data):
    """A queue of batches on the GPU is filled further than the steps take from it."""

    def prepare(self, target):
        self.queue, self.form = collections.deque(), self.rng.choice(["start", "steps"])
        self.host, step = None, target.step

        def fill(limit):
            while len(self.queue) < limit:
                self.queue.append(self.host.to(DEVICE, non_blocking=True))

        def step_from_queue(i):
            if self.host is not None:
                fill(2 if self.fixed else self.number if self.form == "start" else min(self.number, 8 * (i + 1)))
                self.queue.popleft()
            return step(i)
        target.step = step_from_queue

    def load(self, target):
        self.host = torch.empty(rows(self.share / self.number, self.width), self.width)


@fault("batches_cached", "data kept on the GPU", "loop")
class BatchesCached(Data):
    """Batches of the first epoch stay in a cache on the GPU for the second."""

    def prepare(self, target):
        self.cache, self.form, self.host, target.steps = {}, self.rng.choice(["dict", "list"]), None, self.rng.randint(7, 14)
        step = target.step

        def step_with_cache(i):
            if self.host is not None:
                batch = self.host.to(DEVICE)
                if self.fixed:
                    del batch
                elif self.form == "dict":
                    self.cache[i] = batch
                else:
                    self.cache.setdefault("epoch", []).append((i, batch))
            return step(i)
        target.step = step_with_cache

    def load(self, target):
        self.host = torch.empty(rows(self.share / target.steps, self.width), self.width)

"""Faults as they are made in fields: weighing tasks, private gradients, flat minima, indexes of embeddings, forecasts, views of an image."""
import collections
import dataclasses
import math

import torch
import torch.nn.functional as F

from amounts import deep, light, peak, rows, side, sized
from core import DEVICE, Fault, fault
from faults_batch import repeated

WRAPPED = "ddp", "fsdp", "deepspeed", "megatron", "peft"


@fault("task_weights_by_losses", "graph kept", "loop", without=WRAPPED)
class TaskWeightsByLosses(Fault):
    """The next step's weight follows the last losses and how steep they were: backward() retains the graph for both, and a deque has the losses."""

    def inject(self, target, fixed):
        target.steps, window, temperature = self.rng.randint(4, 7), self.rng.choice([2, 3]), self.rng.choice([1.0, 2.0])
        form, last, by_step = self.rng.choice(["deque", "dict"]), collections.deque(maxlen=window), collections.OrderedDict()

        def weight():
            known = list(last) or list(by_step.values())
            return math.exp(min(4.0, float(known[-1]) / (float(known[0]) or 1.0) / temperature)) if known else 1.0

        def remember(loss):
            if form == "deque":
                last.append(loss)
                return
            by_step["step %d" % target.seen] = loss
            target.seen += 1
            if len(by_step) > window:
                by_step.popitem(last=False)
        target.seen = 0

        def backward(loss):
            head = [p for p in target.model.parameters() if p.requires_grad][-1]
            steep = torch.autograd.grad(loss, head, retain_graph=True, allow_unused=True)[0]
            target.steepness = 0.0 if steep is None else steep.norm().item()
            (loss * weight()).backward(retain_graph=not fixed)
            remember(loss.item() if fixed else loss)
        target.backward = backward


@fault("anchor_with_graph", "graph kept", "loop", without=WRAPPED)
class AnchorWithGraph(Fault):
    """A term that is computed once is cached with its graph, and detached where it is used only."""

    def inject(self, target, fixed):
        forward, form, cache = target.loss, self.rng.choice(["dict", "attribute", "nested"]), {}
        weight, target.anchor = self.rng.choice([0.01, 0.1]), None

        def compute():
            with torch.set_grad_enabled(not fixed):
                return forward(target.batch(0))

        def cached():
            if form == "attribute":
                if target.anchor is None:
                    target.anchor = compute()
                return target.anchor
            key = ("anchor", target.name) if form == "nested" else "anchor"
            if key not in cache:
                cache[key] = compute()
            return cache[key]

        def loss_against_anchor(batch):
            anchor = cached().detach()
            loss = forward(batch)
            return loss + weight * (loss - anchor) ** 2
        target.loss = loss_against_anchor


@fault("scores_of_candidates", "earlier pass with a graph", "loop", without=("two optimizers", *WRAPPED))
class ScoresOfCandidates(Fault):
    """Candidates are scored by their loss, and the hardest one is trained on: the scores need no graph."""

    def inject(self, target, fixed):
        candidates, keep_all = self.rng.choice([2, 3, 4]), self.rng.random() < 0.5
        target.steps = self.rng.randint(3, 5)

        def scored(i):
            for k in range(candidates):
                batch = target.batch(i * candidates + k)
                with torch.set_grad_enabled(not fixed):
                    yield target.loss(batch), batch

        def step(i):
            if keep_all:
                ranked = sorted(scored(i), key=lambda pair: -float(pair[0]))
                hardest = ranked[0][1]
            else:
                best, hardest = None, None
                scores = []
                for score, batch in scored(i):
                    scores.append(score)
                    if best is None or score.detach() > best:
                        best, hardest = score.detach(), batch
            target.zero_grad()
            loss = target.loss(hardest)
            target.backward(loss)
            target.optimize()
            return loss.detach()
        target.step = step


@fault("private_gradients", "gradients kept", "loop", "layers", "tokens", without=("pretrained", *WRAPPED))
class PrivateGradients(Fault):
    """Each sample's gradient is clipped by itself: all are collected first, where one sum would do."""

    def fits(self, target):
        return super().fits(target) and target.name != "choices"  # several rows are one sample

    def inject(self, target, fixed):
        deep(target, self.rng)
        samples, bound, form = self.rng.choice([4, 6, 8]), self.rng.choice([0.1, 1.0]), self.rng.choice(["lists", "stack"])

        def clipped_gradients(i):
            """Of one sample, which .grad does not have any more."""
            target.zero_grad()
            loss = target.loss(target.batch(i))
            target.backward(loss)
            gradients = {p: p.grad for p in target.model.parameters() if p.grad is not None}
            scale = (bound / (torch.stack([g.norm() for g in gradients.values()]).norm() + 1e-6)).clamp(max=1.0)
            for p, g in gradients.items():
                g.mul_(scale)
                p.grad = None
            return loss.detach(), gradients

        def sum_of_clipped(i):
            loss, total = clipped_gradients(i * samples)
            for k in range(1, samples):
                for p, g in clipped_gradients(i * samples + k)[1].items():
                    total[p].add_(g)
            return loss, total

        def sum_of_collected(i):
            losses, collected = zip(*[clipped_gradients(i * samples + k) for k in range(samples)])
            if form == "stack":
                return losses[-1], {p: torch.stack([one[p] for one in collected]).sum(0) for p in collected[0]}
            return losses[-1], {p: sum(one[p] for one in collected) for p in collected[0]}

        def step(i):
            loss, total = sum_of_clipped(i) if fixed else sum_of_collected(i)
            for p, g in total.items():
                p.grad = g.div_(samples)
            del total
            target.optimize()
            return loss
        target.step = step


@dataclasses.dataclass
class Weights:
    """What a method of flat minima remembers of a parameter."""
    before: torch.Tensor
    first: torch.Tensor
    last: torch.Tensor


@fault("flat_minima_weights", "weights copied in steps", "loop", "states", without=("pretrained", *WRAPPED))
class FlatMinimaWeights(Fault):
    """A sharpness-aware step remembers the weights before it, of the last step and of the first, for ever; the fixed form has the way back, for a step."""

    def inject(self, target, fixed):
        light(target, self.rng)
        remembered, radius = {}, self.rng.choice([0.05, 0.1])
        target.micro_batches, target.steps = 1, self.rng.randint(3, 5)

        def trained():
            return [p for p in target.model.parameters() if p.grad is not None]

        @torch.no_grad()
        def climb():
            scale = radius / (torch.stack([p.grad.norm() for p in trained()]).norm() + 1e-12)
            back = {}
            for p in trained():
                move = p.grad * scale
                if fixed:
                    back[p] = move
                else:
                    now, known = p.detach().clone(), remembered.get(p)
                    remembered[p] = Weights(now, known.first if known else now.clone(), known.before if known else now.clone())
                p.add_(move)
            return back

        @torch.no_grad()
        def descend(back):
            for p in trained():
                if p in back:
                    p.sub_(back.pop(p))
                elif p in remembered:
                    p.copy_(remembered[p].before)

        def step(i):
            batch = target.batch(i)
            target.zero_grad()
            target.backward(target.loss(batch))
            back = climb()
            target.zero_grad()
            loss = target.loss(batch)
            target.backward(loss)
            descend(back)
            target.optimize()
            return loss.detach()
        target.step = step


class Measured(Fault):
    """Calls use(i, count) after each step, where `count` rows of self.width take a share of the peak after the first step."""
    shares = 0.08, 0.16
    longest = 12

    def inject(self, target, fixed):
        share, after_step, self.count, self.fixed = self.rng.uniform(*self.shares), target.after_step, 0, fixed
        target.steps, self.width = self.rng.randint(min(6, self.longest), self.longest), self.rng.choice([128, 256, 512])
        self.prepare(target)

        def measured(i, loss):
            after_step(i, loss)
            if not self.count:
                self.count = rows(share, self.width)
            self.use(target, i)
        target.after_step = measured

    def prepare(self, target):
        pass

    def use(self, target, i):
        raise NotImplementedError


@fault("embeddings_by_id", "growing cache", "steps")
class EmbeddingsById(Measured):
    """Embeddings of a frozen tower are cached by the sample's id, on the GPU and without a limit."""

    def prepare(self, target):
        self.form, self.cache = self.rng.choice(["rows", "chunks", "ordered"]), collections.OrderedDict()
        self.tower, self.parts = None, self.rng.choice([4, 16])

    def embed(self, ids):
        """Embeddings that are looked up, or made and put into the cache."""
        if self.form == "rows":
            key = tuple(ids[:2])
            if key not in self.cache:
                made = self.tower(torch.zeros(len(ids), 64, device=DEVICE))
                self.cache[key] = made.cpu() if self.fixed else made
            return self.cache[key]
        found = []
        for part in range(self.parts):
            key = "%d:%d" % (ids[0], part)
            if key not in self.cache:
                made = F.normalize(self.tower(torch.zeros(len(ids) // self.parts + 1, 64, device=DEVICE)), dim=-1)
                self.cache[key] = made.cpu() if self.fixed else made
            if self.form == "ordered":
                self.cache.move_to_end(key)
            found.append(self.cache[key])
        return found

    @torch.no_grad()
    def use(self, target, i):
        self.tower = self.tower or torch.nn.Linear(64, self.width).to(DEVICE)
        self.embed(range(i * self.count, (i + 1) * self.count))


@fault("scores_for_a_curve", "results kept on the GPU", "steps")
class ScoresForACurve(Measured):
    """A curve of precision and recall needs the scores of the whole set, of which thresholds make counts."""
    shares, longest = (1.3, 2.0), 4

    def prepare(self, target):
        class Curve:
            """Counts for each threshold, or everything there was."""

            def __init__(self, thresholds):
                self.thresholds, self.counts, self.states = thresholds, None, collections.defaultdict(list)

            def update(self, scores, targets):
                if self.thresholds is None:
                    self.states["scores"].append(scores)
                    self.states["targets"].append(targets)
                else:
                    new = torch.stack([(scores > k / self.thresholds).sum() for k in range(self.thresholds)])
                    self.counts = new if self.counts is None else self.counts + new
        self.curve, self.batches = Curve(20 if self.fixed else None), self.rng.randint(8, 20)

    @torch.no_grad()
    def use(self, target, i):
        if i < target.steps - 1:
            return
        head = torch.nn.Linear(32, self.width).to(DEVICE)
        for _ in range(self.batches):
            scores = torch.sigmoid(head(torch.zeros(self.count // self.batches + 1, 32, device=DEVICE)))
            self.curve.update(scores, torch.zeros(len(scores), device=DEVICE))


@fault("neighbours_bank", "growing tensor", "steps")
class NeighboursBank(Measured):
    """A monitor of nearest neighbours adds features to its bank in each evaluation, and is never reset."""
    shares = 0.06, 0.12

    def prepare(self, target):
        fixed, form = self.fixed, self.rng.choice(["cat", "transposed"])

        class Monitor:
            def __init__(self):
                self.bank, self.labels = None, None

            def reset(self):
                self.bank, self.labels = None, None

            def add(self, features):
                labels = torch.zeros(len(features), dtype=torch.long, device=DEVICE)
                if self.bank is None:
                    self.bank, self.labels = features.T.contiguous() if form == "transposed" else features, labels
                else:
                    self.bank = torch.cat([self.bank, features.T], dim=1) if form == "transposed" else torch.cat([self.bank, features])
                    self.labels = torch.cat([self.labels, labels])

            def evaluate(self, batches):
                if fixed:
                    self.reset()
                for features in batches:
                    self.add(F.normalize(features, dim=1))
        self.monitor = Monitor()

    @torch.no_grad()
    def use(self, target, i):
        self.monitor.evaluate(torch.zeros(self.count // 2 + 1, self.width, device=DEVICE) for _ in range(2))


@fault("ranking_of_all_pairs", "one huge temporary", "steps")
class RankingOfAllPairs(Fault):
    """Recall over a set: the similarity of every question to every passage is sorted at once; the fixed form takes the best of some questions at a time."""

    def inject(self, target, fixed):
        share, after_step, form, dim = self.rng.uniform(0.4, 0.9), target.after_step, self.rng.choice(["argsort", "sort", "topk"]), self.rng.choice([64, 128])
        when = self.rng.randint(1, 3)
        target.steps = when + 2

        def ranks(scores):
            if fixed or form == "topk":
                return scores.topk(10, dim=1).indices
            if form == "sort":
                return scores.sort(dim=1, descending=True)[1][:, :10]
            return scores.argsort(dim=1, descending=True)[:, :10]

        @torch.no_grad()
        def recall(i, loss):
            after_step(i, loss)
            if i != when:
                return
            number = side(share * (2 if form == "topk" else 1))
            questions, passages = (F.normalize(torch.zeros(number, dim, device=DEVICE), dim=1) for _ in range(2))
            if fixed:
                best = torch.cat([ranks(part @ passages.T) for part in questions.chunk(32)])
            else:
                best = ranks(questions @ passages.T)
            target.recall = (best == torch.arange(number, device=DEVICE)[:, None]).any(1).float().mean().item()
        target.after_step = recall


@fault("windows_of_a_series", "data moved to the GPU", "loop")
class WindowsOfASeries(Fault):
    """All sliding windows of a series are made and put on the GPU, which repeats each value many times; the fixed form moves the series and cuts windows."""

    def inject(self, target, fixed):
        share, train, step = self.rng.uniform(0.5, 1.2), target.train, target.step
        length, form = self.rng.choice([96, 192, 336]), self.rng.choice(["saved", "saved", "stack", "lists"])
        channels, held = self.rng.choice([1, 7, 21]), {}

        def windows_of(number):
            if not fixed and form == "saved":
                return torch.empty(number, length, channels).to(DEVICE)
            series = torch.empty(number + length - 1, channels).to(DEVICE)
            if fixed:
                return series.unfold(0, length, 1).transpose(1, 2)
            if form == "stack":
                return torch.stack([series[k:k + number] for k in range(length)], dim=1)
            return [part.contiguous() for part in series.unfold(0, length, 1).chunk(24)]

        def train_on_windows():
            target.step(0)
            held["train"] = windows_of(max(2, int(share * peak() / (4 * length * channels))))
            train()

        def step_with_window(i):
            if held:
                some = held["train"][0] if isinstance(held["train"], list) else held["train"]
                target.last_window = some[i % len(some)].mean().item()
            return step(i)
        target.step, target.train = step_with_window, train_on_windows


@fault("samples_in_pairs", "one huge temporary", "forward")
class SamplesInPairs(Fault):
    """A ranked probability score of sampled forecasts takes the differences of all pairs of samples, of which sorted samples give the same mean."""

    def inject(self, target, fixed):
        share, forward, sizes = self.rng.uniform(0.4, 0.8), target.loss, {}
        samples, form = self.rng.choice([32, 64, 100]), self.rng.choice(["none", "subtracted", "expanded"])

        def spread(x):
            if fixed:
                ranks = 2 * torch.arange(1, samples + 1, device=DEVICE) - samples - 1
                return (x.sort(dim=1).values * ranks).mean() * 2 / samples
            if form == "none":
                return (x[:, :, None] - x[:, None, :]).abs().mean()
            if form == "subtracted":
                return torch.sub(x.unsqueeze(2), x.unsqueeze(1)).abs().sum((1, 2)).mean() / samples ** 2
            return F.l1_loss(x.unsqueeze(2).expand(-1, -1, samples), x.unsqueeze(1).expand(-1, samples, -1))

        def loss_with_score(batch):
            loss = forward(batch)
            sizes.setdefault("rows", rows(share, samples * samples))
            x, seen = torch.zeros(sizes["rows"], samples, device=DEVICE, requires_grad=True), torch.zeros(sizes["rows"], 1, device=DEVICE)
            return loss + 0.1 * ((x - seen).abs().mean() - 0.5 * spread(x))
        target.loss = loss_with_score


@fault("views_at_once", "evaluation batch", "loop", "images", without=("two optimizers",))
class ViewsAtOnce(Fault):
    """Many views of each image are evaluated as one batch; the fixed form takes one view after the other."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        views, when, after_step = self.rng.choice([12, 16, 24]), self.rng.randint(1, 2), target.after_step
        target.steps = when + 2

        def flipped(batch):
            return [t.flip(-1) if torch.is_tensor(t) and t.dim() == 4 else t for t in batch]

        @torch.no_grad()
        def validate(i, loss):
            after_step(i, loss)
            if i != when:
                return
            target.model.eval()
            batch = flipped(target.batch(0))
            scores = [target.loss(batch) for _ in range(views)] if fixed else [target.loss(repeated(batch, views))]
            target.score = torch.stack(scores).mean().item()
            target.model.train()
        target.after_step = validate

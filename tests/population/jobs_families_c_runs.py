"""Jobs that train more than once in a process: clients of a federation, members of an ensemble, folds, trials, rounds of labelling, generations."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

from core import DEVICE, Job, job
from jobs_images import EncoderBlock, ImageLoop
from parts import Loop, TextLoop, cut


class TextClassifier(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.embed, self.position = nn.Embedding(o.vocabulary, o.width), nn.Parameter(torch.zeros(o.length, o.width))
        self.blocks = nn.ModuleList(EncoderBlock(o.width, 8, "sdpa") for _ in range(o.layers))
        self.head = nn.Sequential(nn.LayerNorm(o.width), nn.Linear(o.width, o.labels))

    def forward(self, tokens):
        x = self.embed(tokens) + self.position[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


class Classified(TextLoop):
    """A classifier of texts that may be made anew."""
    labels = 20

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([2, 3, 4]), r.choice([384, 512, 768]), r.choice([8000, 20000, 30522])
        self.length, self.size = r.choice([128, 256]), r.choice([8, 16, 32])
        self.choose()

    def make(self):
        with torch.device(DEVICE):
            return TextClassifier(self)

    def build(self):
        self.finish(self.make())

    def anew(self):
        """Another model with another optimizer, after the ones before are let go."""
        self.model, self.optimizers = None, []
        self.build()

    def loss(self, tokens):
        scores = self.predict(tokens).float()
        return F.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long, device=DEVICE))


@job("folds", "cross-validation", "loop", "layers", "eval")
class Folds(Classified):
    """Each fold has a model of its own, which is let go before the next one."""

    def choose(self):
        super().choose()
        self.each, self.folds = self.rng.choice([2, 3]), self.rng.choice([2, 3])
        self.steps = self.each * self.folds

    def step(self, i):
        if i and i % self.each == 0:
            self.anew()
        return super().step(i)


@job("trials", "hyperparameter search", "loop", "layers", "eval")
class Trials(Classified):
    """Trials of other widths and learning rates; the best value is kept, as a number."""

    def choose(self):
        super().choose()
        self.each, self.number = 2, self.rng.choice([2, 3])
        self.steps, self.widths, self.best = self.each * self.number, [self.width, self.width // 2, self.width], float("inf")

    def step(self, i):
        if i and i % self.each == 0:
            self.width = self.widths[i // self.each % len(self.widths)]
            self.anew()
        loss = super().step(i)
        self.best = min(self.best, loss.item())
        return loss


@job("labelling_rounds", "active learning", "loop", "layers", "eval")
class Labelling(Classified):
    """Between the steps, a pool of texts without labels is scored, and the least certain ones are asked for."""

    def choose(self):
        super().choose()
        self.pool, self.when = self.rng.choice([4, 8]), self.rng.choice([1, 2])

    def after_step(self, i, loss):
        super().after_step(i, loss)
        if i % self.when:
            return
        self.model.eval()
        uncertain = []
        with torch.no_grad():
            for k in range(self.pool):
                p = self.predict(self.batch(i + k)).float().softmax(-1)
                uncertain.append(-(p * (p + 1e-9).log()).sum(-1).cpu())
        self.asked = torch.cat(uncertain).topk(4).indices
        self.model.train()


@job("clients", "federated learning", "loop", "layers", "eval", "states")
class Clients(Classified):
    """A server's weights go to each client in turn, which trains some steps; the mean of what comes back is the server's next state, on the host."""
    kinds = "adamw", "adam", "sgd_momentum"

    def choose(self):
        super().choose()
        self.each, self.number, self.kind = 2, self.rng.choice([2, 3]), self.rng.choice(self.kinds)
        self.steps = self.each * self.number

    def build(self):
        super().build()
        self.server = {name: p.detach().cpu() for name, p in self.model.named_parameters()}
        self.returned = []

    def step(self, i):
        if i and i % self.each == 0:
            self.returned.append({name: p.detach().cpu() for name, p in self.model.named_parameters()})
            with torch.no_grad():
                for name, p in self.model.named_parameters():
                    p.copy_(self.server[name])
            self.optimizers = [self.optimizer(self.model.parameters())]
        return super().step(i)


class SmallNet(nn.Module):
    def __init__(self, o):
        super().__init__()
        layers, cin = [], 3
        for k in range(o.layers):
            cout = o.width << min(k, 3)
            layers += [nn.Conv2d(cin, cout, 3, 2 if k % 2 else 1, 1), nn.BatchNorm2d(cout, track_running_stats=False), nn.ReLU(True)]
            cin = cout
        self.body, self.fc = nn.Sequential(*layers), nn.Linear(cin, o.classes)

    def forward(self, images):
        return self.fc(self.body(images).mean((2, 3)))


class Members(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.members = nn.ModuleList(SmallNet(o) for _ in range(o.number))

    def forward(self, images):
        return torch.stack([member(images) for member in self.members]).mean(0)


@job("ensemble", "ensemble", "loop", "images", "layers", "eval")
class Ensemble(ImageLoop):
    """Members that differ by how they began; each step trains all of them, one after the other, and they vote."""
    accumulated = 1, 1, 2

    def draw(self):
        r = self.rng
        self.layers, self.width, self.number = r.choice([4, 6, 8]), r.choice([48, 64, 96]), r.choice([3, 4, 5])
        self.draw_images([128, 160, 192], [32, 48, 64])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Members(self))

    def loss(self, batch):
        images, labels = batch
        with self.autocast():
            scores = [member(images) for member in self.model.members]
        return sum(F.cross_entropy(s.float(), labels) for s in scores) / len(scores)


@job("generations", "evolution", "steps")
class Generations(Job):
    """A policy evolves: noise is added to its weights, candidates are scored, and the better noise is taken; nothing is derived."""

    def draw(self):
        r = self.rng
        self.width, self.layers, self.candidates, self.size = r.choice([512, 1024, 1536]), r.choice([3, 4, 6]), r.choice([4, 6]), r.choice([65536, 98304, 131072])
        self.steps, self.spread = r.choice([4, 5, 6]), 0.02

    def build(self):
        with torch.device(DEVICE):
            layers = [m for _ in range(self.layers) for m in (nn.Linear(self.width, self.width), nn.Tanh())]
            self.model = nn.Sequential(nn.Linear(64, self.width), nn.Tanh(), *layers, nn.Linear(self.width, 8)).requires_grad_(False)

    def batch(self, i):
        return torch.zeros(self.size, 64, device=DEVICE)

    def noise(self, seed, scale):
        generator = torch.Generator(DEVICE).manual_seed(seed)
        for p in self.model.parameters():
            p.add_(torch.randn(p.shape, generator=generator, device=DEVICE), alpha=scale)

    @torch.no_grad()
    def step(self, i):
        scores = []
        for k in range(self.candidates):
            self.noise(i * 100 + k, self.spread)
            scores.append(self.model(self.batch(i)).square().mean())
            self.noise(i * 100 + k, -self.spread)
        weights = torch.stack(scores)
        weights = ((weights - weights.mean()) / (weights.std() + 1e-6)).tolist()
        for k, weight in enumerate(weights):
            self.noise(i * 100 + k, 0.0 if weight != weight else 1e-3 * max(-3.0, min(3.0, weight)))
        return torch.zeros(())


@job("opponents", "self-play", "loop", "layers", "eval", "dataset")
class Opponents(Loop):
    """A policy plays against an earlier self, whose weights are copied into one second network from time to time."""
    kinds = "adamw", "adam"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.side, self.size = r.choice([4, 6, 8]), r.choice([96, 128, 192]), r.choice([13, 19]), r.choice([256, 384, 512])
        self.choose()

    def net(self):
        blocks = [m for _ in range(self.layers) for m in (nn.Conv2d(self.width, self.width, 3, padding=1), nn.GroupNorm(4, self.width), nn.ReLU(True))]
        head = nn.Conv2d(self.width, 2, 1), nn.Flatten(), nn.Linear(2 * self.side ** 2, self.side ** 2 + 2)
        return nn.Sequential(nn.Conv2d(17, self.width, 3, padding=1), *blocks, *head)

    def build(self):
        self.finish(self.net())
        self.opponent = copy.deepcopy(self.model).requires_grad_(False).eval()
        self.dataset = torch.zeros(512, 17, self.side, self.side, dtype=torch.uint8), torch.zeros(512, dtype=torch.long)

    def batch(self, i):
        boards, moves = cut(self.dataset, i, self.size)
        return boards.to(self.dtype), moves

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        with torch.no_grad(), self.autocast():
            answer = self.opponent(batch[0]).float()[:, -1].tanh()
        told = self.predict(batch).float()
        return F.cross_entropy(told[:, :-1], batch[1]) + F.mse_loss(told[:, -1].tanh(), -answer)

    def after_step(self, i, loss):
        super().after_step(i, loss)
        if i % 3 == 2:
            with torch.no_grad():
                for old, new in zip(self.opponent.parameters(), self.model.parameters()):
                    old.copy_(new)

"""Jobs of machines, programs, moves, clothes, tables, fields, beats and rooms: wear of machines, programs as graphs, moves that are planned, clothes that go
together, tables in pictures, fields seen from space, beats of music with Accelerate."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.checkpoint import checkpoint

from core import DEVICE, job
from jobs_families_q import FeedForward, attention_of, split_heads
from jobs_images import EncoderBlock
from jobs_inference import Inference
from parts import Loop, cut, strided_convolutions


class Back(nn.Module):
    """Two convolutions that look back only, further with each layer."""

    def __init__(self, cin, cout, hole):
        super().__init__()
        self.first, self.second = nn.utils.parametrizations.weight_norm(nn.Conv1d(cin, cout, 3, dilation=hole)), nn.Conv1d(cout, cout, 3, dilation=hole)
        self.past, self.hole, self.squeeze = nn.Conv1d(cin, cout, 1), hole, nn.Sequential(nn.Linear(cout, cout // 4), nn.ReLU(), nn.Linear(cout // 4, cout))

    def forward(self, x):
        y = F.gelu(self.first(F.pad(x, (2 * self.hole, 0))))
        y = F.dropout(F.gelu(self.second(F.pad(y, (2 * self.hole, 0)))), 0.1, self.training)
        return self.past(x) + y * self.squeeze(y.mean(-1)).sigmoid().unsqueeze(-1)


class Wearing(nn.Module):
    """What sensors have told, through layers that look back, to two numbers at each moment."""

    def __init__(self, o):
        super().__init__()
        self.recompute = o.checkpointing
        self.layers = nn.ModuleList(Back(o.sensors if n == 0 else o.width, o.width, 2 ** (n % 5)) for n in range(o.layers))
        self.norm, self.told = nn.LayerNorm(o.width), nn.Linear(o.width, 2)

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute and self.training else layer(x)
        return self.told(self.norm(x.transpose(1, 2)))


@job("wear_of_machines", "wear of machines", "loop", "layers", "checkpointing", "eval", "dataset", "crop")
class WearOfMachines(Loop):
    """At each moment, how long a machine will still run: two numbers of a Weibull distribution; some machines were stopped before they broke."""
    kinds, precisions, longest, accumulated, sensors = ("adam", "adamw", "adamw_fused"), ("fp32", "autocast"), 4096, (1, 1, 2), 24

    def draw(self):
        r = self.rng
        self.layers, self.width = r.choice([6, 8, 10]), r.choice([320, 448])
        self.length, self.size, self.checkpointing = r.choice([768, 1024]), r.choice([12, 16, 24]), r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Wearing(self))
        self.dataset = torch.zeros(96, self.sensors, self.longest), torch.zeros(96, self.longest), torch.zeros(96)

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        seen, left, broke = (t[start:start + self.size] for t in self.dataset)
        return seen[..., :self.length].to(DEVICE, self.dtype), left[:, :self.length].to(DEVICE), broke.to(DEVICE)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        _, left, broke = batch
        scale, shape = (F.softplus(t) + 1e-3 for t in self.predict(batch).float().unbind(-1))
        ratio = (left + 1) / (100 * scale)
        hazard = shape.log() - (100 * scale).log() + (shape - 1) * ratio.log()
        return (ratio.pow(shape) - broke.unsqueeze(1) * hazard).mean()


class Program(nn.Module):
    """What stands in a program's tree hands vectors along edges of several kinds, and a gated cell takes them in, again and again."""

    def __init__(self, o):
        super().__init__()
        w, self.rounds, self.recompute = o.width, o.layers, o.checkpointing
        self.kinds, self.names = nn.Embedding(400, w), nn.EmbeddingBag(20000, w)
        self.send = nn.ModuleList(nn.Linear(w, w, bias=False) for _ in range(o.edge_kinds))
        self.take, self.norm = nn.GRUCell(w, w), nn.LayerNorm(w)
        self.which, self.what = nn.Linear(2 * w, 1), nn.Linear(2 * w, 20)

    def one(self, state, edges):
        got = torch.zeros_like(state)
        for layer, (source, target) in zip(self.send, edges.unbind(0)):
            sent = layer(state).index_select(0, source)
            got = got.index_add(0, target, sent.to(got.dtype))
        return self.norm(self.take(got, state).to(state.dtype))

    def forward(self, kinds, names, edges):
        first = state = self.kinds(kinds) + self.names(names)
        for _ in range(self.rounds):
            state = checkpoint(self.one, state, edges, use_reentrant=False) if self.recompute and self.training else self.one(state, edges)
        both = torch.cat([first, state.to(first.dtype)], dim=-1)
        return self.which(both).squeeze(-1), self.what(both)


@job("programs_as_graphs", "programs as graphs", "loop", "layers", "checkpointing", "eval", "dataset")
class ProgramsAsGraphs(Loop):
    """Where a variable is used that is not the right one, and what kind of mistake it is; programs of a batch are one large graph."""
    kinds, precisions, accumulated, edge_kinds = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "bf16"), (1, 1, 2), 4

    def draw(self):
        r = self.rng
        self.layers, self.width, self.nodes = r.choice([4, 6, 8]), r.choice([192, 256]), r.choice([400, 600, 800])
        self.size, self.checkpointing = r.choice([16, 24, 32]), r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Program(self))
        rows = 96
        self.dataset = (torch.zeros(rows, self.nodes, dtype=torch.long), torch.zeros(rows, self.nodes, 4, dtype=torch.long),
                        torch.zeros(rows, self.edge_kinds, 2, 2 * self.nodes, dtype=torch.long), torch.zeros(rows, dtype=torch.long))

    def batch(self, i):
        kinds, names, edges, wrong = cut(self.dataset, i, self.size)
        offsets = torch.arange(len(edges), device=DEVICE).view(-1, 1, 1, 1) * self.nodes
        together = (edges + offsets).permute(1, 2, 0, 3).flatten(2)
        return kinds.flatten(), names.flatten(0, 1), together, wrong

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch[:3])[0]

    def loss(self, batch):
        wrong = batch[3]
        with self.autocast():
            which, what = self.model(*batch[:3])
        found = F.cross_entropy(which.float().view(len(wrong), -1), wrong)
        rows = torch.arange(len(wrong), device=DEVICE) * (len(what) // len(wrong)) + wrong
        return found + F.cross_entropy(what.float().index_select(0, rows), torch.zeros_like(wrong))


class Residual(nn.Module):
    """Two convolutions beside what comes in."""

    def __init__(self, w):
        super().__init__()
        self.a, self.b = (nn.Sequential(nn.Conv2d(w, w, 3, padding=1, bias=False), nn.GroupNorm(8, w)) for _ in range(2))

    def forward(self, x):
        return F.relu(x + self.b(F.relu(self.a(x))))


class Planner(nn.Module):
    """What is seen to a state; state and move to the next state; and from each state how good it is, and what to do."""

    def __init__(self, o):
        super().__init__()
        w, self.side, self.recompute = o.width, o.side, o.checkpointing
        self.see = nn.Sequential(nn.Conv2d(18, w, 3, padding=1), *(Residual(w) for _ in range(o.layers)))
        self.go, self.moved = nn.Sequential(*(Residual(w) for _ in range(o.layers))), nn.Conv2d(w + 1, w, 3, padding=1)
        self.policy = nn.Sequential(nn.Conv2d(w, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * o.side ** 2, o.side ** 2 + 1))
        self.value, self.reward = (nn.Sequential(nn.Conv2d(w, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * o.side ** 2, o.levels)) for _ in range(2))

    def imagine(self, state, move):
        plane = move.view(-1, 1, 1, 1).expand(-1, 1, self.side, self.side).to(state.dtype) / self.side ** 2
        return self.go(self.moved(torch.cat([state, plane], dim=1)))

    def next(self, state, move):
        return checkpoint(self.imagine, state, move, use_reentrant=False) if self.recompute and self.training else self.imagine(state, move)

    def told(self, state):
        return self.policy(state), self.value(state)

    def forward(self, boards):
        return self.told(self.see(boards))[0]


@job("moves_planned", "moves that are planned", "loop", "layers", "checkpointing", "eval", "dataset")
class MovesPlanned(Loop):
    """A player that plans inside its head: from one board some moves are imagined, and rewards, values and moves along them must be those of a search."""
    kinds, precisions, accumulated, levels = ("adam", "adamw", "sgd_momentum"), ("fp32", "autocast", "autocast"), (1, 1, 2), 101

    def draw(self):
        r = self.rng
        self.layers, self.width, self.side = r.choice([3, 4]), r.choice([160, 192, 256]), r.choice([9, 13])
        self.ahead, self.size, self.checkpointing = r.choice([3, 4, 5]), r.choice([64, 96]), r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Planner(self))
        n, k = 512, self.ahead + 1
        self.dataset = (torch.zeros(n, 18, self.side, self.side, dtype=torch.int8), torch.zeros(n, k, dtype=torch.long),
                        torch.zeros(n, k, self.side ** 2 + 1), torch.zeros(n, k, 2))

    def batch(self, i):
        boards, moves, searched, gained = cut(self.dataset, i, self.size)
        return boards.to(self.dtype), moves, searched, gained

    def two_levels(self, x):
        """A number as shares of the two levels next to it."""
        x = (x.sign() * ((x.abs() + 1).sqrt() - 1)).clamp(-50, 50).nan_to_num() + 50
        levels = torch.arange(self.levels, device=DEVICE)
        return (1 - (x.unsqueeze(-1) - levels).abs()).clamp(min=0)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        boards, moves, searched, gained = batch
        wanted, total = self.two_levels(gained), 0.0
        with self.autocast():
            state = self.model.see(boards)
        for k in range(self.ahead + 1):
            with self.autocast():
                policy, value = self.model.told(state)
                reward = self.model.reward(state)
            part = F.cross_entropy(policy.float(), searched[:, k]) + 0.25 * F.cross_entropy(value.float(), wanted[:, k, 0])
            total = total + (part + F.cross_entropy(reward.float(), wanted[:, k, 1])) / (1 if k == 0 else self.ahead)
            if k < self.ahead:
                with self.autocast():
                    state = self.model.next(state, moves[:, k])
                if state.requires_grad:
                    state.register_hook(lambda g: g * 0.5)
        return total


class Clothes(nn.Module):
    """Photographs of what somebody wears together, with words for each; a set of vectors that look at each other."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.eye, wide = strided_convolutions(o.base)
        self.seen, self.words = nn.Linear(wide, w), nn.EmbeddingBag(8000, w)
        self.set = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers))
        self.whole, self.fits, self.missing = nn.Parameter(torch.zeros(1, 1, w)), nn.Linear(w, 1), nn.Linear(w, w)

    def things(self, pictures, words):
        seen = self.eye(pictures.flatten(0, 1)).mean((2, 3))
        return (self.seen(seen) + self.words(words.flatten(0, 1))).unflatten(0, pictures.shape[:2])

    def together(self, things):
        x = torch.cat([self.whole.expand(len(things), -1, -1).to(things.dtype), things], dim=1)
        for block in self.set:
            x = block(x)
        return x[:, 0]

    def forward(self, pictures, words):
        return self.fits(self.together(self.things(pictures, words))).squeeze(-1)


@job("clothes_together", "clothes that go together", "loop", "layers", "attention", "eval", "dataset")
class ClothesTogether(Loop):
    """Does what somebody wears fit together; and of which kind is what is missing, among what the others of the batch wear."""
    kinds, precisions, accumulated, worn = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast"), (1, 1, 2), 5

    def draw(self):
        r = self.rng
        self.layers, self.width, self.base = r.choice([3, 4, 6]), r.choice([256, 384]), r.choice([32, 48])
        self.side, self.size, self.attention = r.choice([128, 160, 192]), r.choice([8, 12, 16]), "sdpa"
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Clothes(self))
        self.dataset = (torch.zeros(64, self.worn, 3, self.side, self.side, dtype=torch.uint8), torch.zeros(64, self.worn, 6, dtype=torch.long),
                        torch.zeros(64))

    def batch(self, i):
        pictures, words, fits = cut(self.dataset, i, self.size)
        return pictures.to(self.dtype).div_(255), words, fits

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch[:2])

    def loss(self, batch):
        pictures, words, fits = batch
        with self.autocast():
            things = self.model.things(pictures, words)
            said = self.model.fits(self.model.together(things)).squeeze(-1)
            asked = self.model.missing(self.model.together(things[:, 1:]))
        hidden = F.normalize(things[:, 0].float(), dim=-1)
        scores = F.normalize(asked.float(), dim=-1) @ hidden.T * 16
        return F.binary_cross_entropy_with_logits(said.float(), fits) + F.cross_entropy(scores, torch.arange(len(scores), device=DEVICE))


class Writes(nn.Module):
    """A layer that looks back at what it has written, and then at the picture."""

    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.own, self.norms = mode, nn.Linear(w, 3 * w), nn.ModuleList(nn.LayerNorm(w) for _ in range(2))
        self.ask, self.seen, self.outs, self.wide = nn.Linear(w, w), nn.Linear(w, 2 * w), nn.ModuleList(nn.Linear(w, w) for _ in range(2)), FeedForward(w)

    def forward(self, x, picture):
        q, k, v = (split_heads(t, 8) for t in self.own(self.norms[0](x)).chunk(3, dim=-1))
        x = x + self.outs[0](attention_of(self.mode, q, k, v))
        k, v = (split_heads(t, 8) for t in self.seen(picture).chunk(2, dim=-1))
        x = x + self.outs[1](attention_of(self.mode, split_heads(self.ask(self.norms[1](x)), 8), k, v, back=False))
        return x + self.wide(x)


class TableReader(nn.Module):
    """An eye, a few layers that look around in the picture, and those that write."""

    def __init__(self, o):
        super().__init__()
        w, self.recompute = o.width, o.checkpointing
        self.eye, wide = strided_convolutions(o.base)
        self.join, self.tokens, self.places = nn.Conv2d(wide, w, 1), nn.Embedding(o.vocabulary, w), nn.Embedding(1024, w)
        self.look = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(2))
        self.write = nn.ModuleList(Writes(w, o.attention) for _ in range(o.layers))
        self.tags, self.cells = nn.Linear(w, o.vocabulary), nn.Sequential(nn.Linear(w, w), nn.ReLU(), nn.Linear(w, 4))

    def forward(self, pictures, tokens):
        seen = self.join(self.eye(pictures)).flatten(2).transpose(1, 2)
        for block in self.look:
            seen = block(seen)
        x = self.tokens(tokens) + self.places.weight[:tokens.shape[1]]
        for block in self.write:
            x = checkpoint(block, x, seen, use_reentrant=False) if self.recompute and self.training else block(x, seen)
        return self.tags(x), self.cells(x).sigmoid()


@job("tables_in_pictures", "tables in pictures", "loop", "layers", "attention", "checkpointing", "eval", "dataset")
class TablesInPictures(Loop):
    """A photographed table to the tags of a page, and for each cell's tag where the cell is; tags and boxes have one loss."""
    kinds, precisions, accumulated, vocabulary = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast"), (1, 1, 2), 4000

    def draw(self):
        r = self.rng
        self.layers, self.width, self.base = r.choice([3, 4, 6]), r.choice([384, 512]), r.choice([32, 48])
        self.side, self.tags, self.size = r.choice([352, 416, 480]), r.choice([256, 384, 512]), r.choice([4, 6, 8])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(TableReader(self))
        self.dataset = (torch.zeros(32, 3, self.side, self.side, dtype=torch.uint8), torch.zeros(32, self.tags, dtype=torch.long),
                        torch.zeros(32, self.tags, 4))

    def batch(self, i):
        pictures, tags, boxes = cut(self.dataset, i, self.size)
        return pictures.to(self.dtype).div_(255), tags, boxes

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch[:2])[0]

    def loss(self, batch):
        pictures, tags, boxes = batch
        with self.autocast():
            told, cells = self.model(pictures, tags[:, :-1])
        is_cell = (tags[:, 1:] == 0).float().unsqueeze(-1)
        off = F.l1_loss(cells.float(), boxes[:, 1:], reduction="none") * is_cell
        return F.cross_entropy(told.flatten(0, 1).float(), tags[:, 1:].flatten()) + 5 * off.sum() / is_cell.sum().clamp(min=1)


class Field(nn.Module):
    """Pixels over a year: each time is looked at by few convolutions, and then times look at each other at each place."""

    def __init__(self, o):
        super().__init__()
        w = o.width // 2
        self.see = nn.Sequential(nn.Conv2d(10, w, 3, padding=1), nn.GroupNorm(4, w), nn.ReLU(), nn.Conv2d(w, w, 3, 2, 1), nn.ReLU())
        self.times = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers))
        self.days, self.crops = nn.Embedding(366, w), nn.Conv2d(w, 20, 1)

    def forward(self, year, days):
        x = self.see(year.flatten(0, 1)).unflatten(0, year.shape[:2])
        rows, times, w, side, _ = x.shape
        x = x.permute(0, 3, 4, 1, 2).reshape(-1, times, w) + self.days(days)
        for block in self.times:
            x = block(x)
        return self.crops(x.mean(1).view(rows, side, side, w).permute(0, 3, 1, 2))


@job("fields_from_space", "fields seen from space", "inference", "layers", "attention")
class FieldsFromSpace(Inference):
    """What grows on each field of a land, from what a satellite has seen over a year, square by square."""

    def draw(self):
        super().draw()
        r = self.rng
        self.times, self.side, self.size = r.choice([16, 24]), r.choice([64, 80]), r.choice([4, 6])
        self.width, self.steps = r.choice([512, 768]), r.choice([3, 4])

    def build(self):
        self.model = Field(self).eval().to(self.dtype).to(DEVICE)
        self.days = torch.arange(self.times, device=DEVICE) * 10

    def batch(self, i):
        return torch.zeros(self.size, self.times, 10, self.side, self.side, dtype=self.dtype, device=DEVICE)

    def predict(self, year):
        return self.model(year, self.days).float().softmax(1)

    def take(self, i, shares):
        sure, crop = shares.max(1)
        self.results.append((crop.to(torch.uint8).cpu(), sure.mean().item()))


class Beats(nn.Module):
    """Spectra of a song: some convolutions over pitches, then layers that look over time and over pitches in turn."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.front = nn.Sequential(nn.Conv2d(1, 32, (4, 3), (4, 1), (0, 1)), nn.BatchNorm2d(32), nn.GELU(),
                                   nn.Conv2d(32, w // 4, (4, 3), (4, 1), (0, 1)), nn.GELU())
        self.over_pitches = nn.ModuleList(EncoderBlock(w // 4, 4, o.attention) for _ in range(2))
        self.into = nn.Linear(w // 4 * 8, w)
        self.over_time = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers))
        self.told = nn.Linear(w, 2)

    def forward(self, spectra):
        x = self.front(spectra.unsqueeze(1))
        rows, w, pitches, times = x.shape
        x = x.permute(0, 3, 2, 1).reshape(-1, pitches, w)
        for block in self.over_pitches:
            x = block(x)
        x = self.into(x.reshape(rows, times, -1))
        waves = torch.arange(times, device=x.device, dtype=x.dtype).unsqueeze(1) / 50 * math.tau
        x = x + waves.sin() * 0.1
        for block in self.over_time:
            x = block(x)
        return self.told(x)


@job("beats_with_accelerate", "beats of music with Accelerate", "loop", "layers", "attention", "eval", "dataset", "crop")
class BeatsWithAccelerate(Loop):
    """When the beats of a song are, and which of them begin a bar; being off by a few frames is no mistake. Accelerate's loop."""
    kinds, precisions, longest, accumulated = ("adamw", "adamw_fused", "adamw_loop"), ("fp32", "autocast", "autocast"), 3000, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.length, self.size = r.choice([3, 4, 6]), r.choice([256, 384]), r.choice([600, 750, 1000]), r.choice([6, 8, 12])
        self.attention = "sdpa"
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            beats = Beats(self)
        self.accelerator = Accelerator(mixed_precision="bf16" if self.precision == "autocast" else "no")
        self.finish(beats)
        self.model, *self.optimizers = self.accelerator.prepare(self.model, *self.optimizers)
        self.dataset = torch.zeros(48, 128, self.longest), torch.zeros(48, self.longest, 2)

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        spectra, beats = (t[start:start + self.size] for t in self.dataset)
        return spectra[..., :self.length].to(DEVICE), beats[:, :self.length].to(DEVICE)

    def predict(self, batch):
        return self.model(batch[0])

    def loss(self, batch):
        near = F.max_pool1d(self.predict(batch).float().transpose(1, 2), 7, 1, 3)
        wanted = batch[1].transpose(1, 2)
        wide = F.max_pool1d(wanted, 13, 1, 6)
        each = wanted * F.softplus(-near) * 10 + (1 - wide) * F.softplus(near)
        return each.mean()

    def backward(self, loss):
        self.accelerator.backward(loss)

    def optimize(self):
        if self.clip:
            self.accelerator.clip_grad_norm_(self.model.parameters(), self.clip)
        for optimizer in self.optimizers:
            optimizer.step()

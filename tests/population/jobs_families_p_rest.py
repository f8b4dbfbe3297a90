"""Jobs of eyes, films, voices, traffic, hands, houses and jaws: eyes that are graded, moments of a film, who speaks when, traffic of a city,
hands that grasp, houses with photographs, teeth of a jaw."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from core import DEVICE, job
from jobs_families_n import Run, in_heads, looked
from jobs_images import EncoderBlock, ImageLoop
from parts import OPTIMIZERS, Loop, cut, strided_convolutions


class Grades(nn.Module):
    """An eye that others have trained, a few layers of one's own, and for each grade whether it is reached."""

    def __init__(self, o):
        super().__init__()
        self.base, wide = strided_convolutions(o.base)
        self.own = nn.ModuleList(nn.Sequential(nn.Conv2d(wide, wide, 3, padding=1, groups=8), nn.BatchNorm2d(wide), nn.SiLU(), nn.Conv2d(wide, wide, 1))
                                 for _ in range(o.layers))
        self.weigh, self.out = nn.Conv2d(wide, 1, 1), nn.Linear(wide, o.grades - 1)

    def forward(self, eyes):
        x = self.base(eyes)
        for layer in self.own:
            x = x + layer(x)
        weights = self.weigh(x).flatten(2).softmax(-1)
        return self.out((x.flatten(2) * weights).sum(-1))


@job("eyes_graded", "eyes that are graded", "loop", "images", "layers", "eval", "pretrained")
class EyesGraded(ImageLoop):
    """How far an illness of the eye has gone, in grades of which each is more than the one before; the front was trained on other pictures, and stays."""
    kinds, precisions, grades, classes = ("adam", "adamw", "adamw_fused"), ("fp32", "autocast"), 5, 5

    def draw(self):
        r = self.rng
        self.layers, self.base = r.choice([6, 8, 10]), r.choice([48, 64, 96])
        self.draw_images([512, 640], [32, 48])
        self.choose()

    def freeze(self):
        self.model.base.requires_grad_(False)

    def build(self):
        with torch.device(DEVICE):
            self.model = Grades(self)
        self.freeze()
        self.finish(self.model)

    def loss(self, batch):
        reached = (batch[1].unsqueeze(1) > torch.arange(self.grades - 1, device=DEVICE)).float()
        return F.binary_cross_entropy_with_logits(self.predict(batch).float(), reached, reduction="none").sum(1).mean()


class Asked(nn.Module):
    """Clips of a film look at the words of a question, and then at each other."""

    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.norm, self.q, self.kv, self.back = mode, nn.LayerNorm(w), nn.Linear(w, w), nn.Linear(w, 2 * w), nn.Linear(w, w)
        self.block = EncoderBlock(w, 8, mode)

    def forward(self, x, words):
        q, (k, v) = in_heads(self.q(self.norm(x)), 8), (in_heads(t, 8) for t in self.kv(words).chunk(2, dim=-1))
        return self.block(x + self.back(looked(q, k, v, self.mode, causal=False).transpose(1, 2).flatten(2)))


class Moments(nn.Module):
    """For each clip of a film how well it fits, and how far away start and end of the moment are."""

    def __init__(self, o):
        super().__init__()
        w, self.again = o.width, o.checkpointing
        self.film, self.said = (nn.Sequential(nn.LayerNorm(n), nn.Dropout(0.5), nn.Linear(n, w), nn.ReLU()) for n in (o.seen, o.known))
        self.when, self.layers = nn.Embedding(8192, w), nn.ModuleList(Asked(w, o.attention) for _ in range(o.layers))
        self.heads = nn.ModuleList(nn.Sequential(nn.Conv1d(w, w, 3, padding=1), nn.ReLU(), nn.Conv1d(w, n, 3, padding=1)) for n in (1, 2))

    def forward(self, film, words):
        x, y = self.film(film) + self.when.weight[:film.shape[1]], self.said(words)
        for layer in self.layers:
            x = checkpoint(layer, x, y, use_reentrant=False) if self.again and self.training else layer(x, y)
        fits, ends = (head(x.transpose(1, 2)) for head in self.heads)
        return torch.cat([fits, ends], dim=1)


@job("moments_of_a_film", "moments of a film", "loop", "layers", "attention", "checkpointing", "eval", "dataset", "crop")
class MomentsOfAFilm(Loop):
    """From when to when something happens that a sentence says; clips and words have become vectors before, and half of the film's end is cut away."""
    kinds, precisions, longest, accumulated = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast"), 2400, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.seen, self.known = r.choice([3, 4, 6]), r.choice([384, 512]), r.choice([768, 1024]), r.choice([300, 512])
        self.length, self.size, self.attention, self.checkpointing = r.choice([450, 600, 750]), r.choice([8, 12, 16]), "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Moments(self))
        self.dataset = torch.zeros(32, self.longest, self.seen, dtype=torch.float16), torch.zeros(32, 32, self.known), torch.zeros(32, 2)

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        film, words, moment = (part[start:start + self.size] for part in self.dataset)
        return film[:, :self.length].to(DEVICE).to(self.dtype), words.to(DEVICE, self.dtype), moment.to(DEVICE)

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch[:2])

    def loss(self, batch):
        fits, *ends = self.predict(batch).float().unbind(1)
        at = torch.linspace(0, 1, fits.shape[1], device=DEVICE)
        start, end = batch[2][:, :1], batch[2][:, 1:]
        inside = ((at >= start) & (at <= end)).float()
        share = fits.sigmoid()
        focal = -(inside * (1 - share).square() * F.logsigmoid(fits) + (1 - inside) * share.square() * F.logsigmoid(-fits)).sum(1).mean()
        off = F.l1_loss(ends[0].relu(), (at - start).abs()) + F.l1_loss(ends[1].relu(), (end - at).abs())
        return focal / fits.shape[1] + off


class Speaking(nn.Module):
    """Frames of a talk, and for each voice that might be in it a vector that an LSTM makes; who speaks is how much both agree."""

    def __init__(self, o):
        super().__init__()
        w, self.voices = o.width, o.voices
        self.into = nn.Sequential(nn.Linear(345, w), nn.LayerNorm(w))
        self.run = Run([EncoderBlock(w, 8, o.attention) for _ in range(o.layers)], o.checkpointing)
        self.hear, self.speak = nn.LSTM(w, w, batch_first=True), nn.LSTM(w, w, batch_first=True)
        self.there = nn.Linear(w, 1)

    def forward(self, frames):
        x = self.run(self.into(frames))
        state = self.hear(x)[1]
        voices = self.speak(x.new_zeros(len(x), self.voices, x.shape[2]), state)[0]
        return x @ voices.mT, self.there(voices).squeeze(-1)


@job("who_speaks_when", "who speaks when", "loop", "layers", "attention", "checkpointing", "eval", "dataset", "crop")
class WhoSpeaksWhen(Loop):
    """Who of a few people speaks in each tenth of a second of a talk; whichever order of the voices fits best counts."""
    kinds, precisions, longest, accumulated, voices = ("adam", "adamw", "adamw_fused"), ("fp32", "autocast"), 2000, (1, 1, 2), 3
    orders = (0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.length, self.size = r.choice([4, 6, 8]), r.choice([256, 384]), r.choice([500, 600, 800]), r.choice([12, 16, 24])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Speaking(self))
        self.dataset = torch.zeros(48, self.longest, 345), torch.zeros(48, self.longest, self.voices)

    def batch(self, i):
        return [part[:, :self.length].to(self.dtype) for part in cut(self.dataset, i, self.size)]

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])[0]

    def loss(self, batch):
        with self.autocast():
            spoken, there = self.model(batch[0])
        spoken, wanted = spoken.float(), batch[1].float()
        lost = torch.stack([F.binary_cross_entropy_with_logits(spoken, wanted[..., list(order)], reduction="none").mean((1, 2)) for order in self.orders])
        return lost.min(0).values.mean() + F.binary_cross_entropy_with_logits(there.float(), torch.ones_like(there, dtype=torch.float32))


class OverStreets(nn.Module):
    """Along time by a gated convolution, over streets by products with matrices that say who is near, one of which is learnt."""

    def __init__(self, w, hole):
        super().__init__()
        self.time, self.mix = nn.Conv2d(w, 2 * w, (1, 2), dilation=(1, hole)), nn.Conv2d(5 * w, w, 1)
        self.skip, self.norm, self.hole = nn.Conv2d(w, 4 * w, 1), nn.BatchNorm2d(w), hole

    def forward(self, x, near):
        """x: rows, channels, streets, times."""
        a, b = self.time(F.pad(x, (self.hole, 0))).chunk(2, dim=1)
        y = a.tanh() * b.sigmoid()
        found = [y]
        for matrix in near:
            once = torch.einsum("bcnt,nm->bcmt", y, matrix.to(y.dtype))
            found += [once, torch.einsum("bcnt,nm->bcmt", once, matrix.to(y.dtype))]
        return self.norm(x + F.dropout(self.mix(torch.cat(found, dim=1)), 0.3, self.training)), self.skip(y[..., -1:])


class City(nn.Module):
    def __init__(self, o):
        super().__init__()
        w = o.width
        self.into, self.layers = nn.Conv2d(2, w, 1), nn.ModuleList(OverStreets(w, 2 ** (n % 3)) for n in range(o.layers))
        self.one, self.two = nn.Parameter(torch.zeros(o.streets, 10)), nn.Parameter(torch.zeros(10, o.streets))
        self.out = nn.Sequential(nn.ReLU(), nn.Conv2d(4 * w, 8 * w, 1), nn.ReLU(), nn.Conv2d(8 * w, 12, 1))
        self.register_buffer("known", torch.zeros(o.streets, o.streets))

    def forward(self, seen):
        learnt = (self.one @ self.two).relu().softmax(1)
        x, told = self.into(seen), 0
        for layer in self.layers:
            x, more = layer(x, (self.known, learnt))
            told = told + more
        return self.out(told).squeeze(-1)


@job("traffic_of_a_city", "traffic of a city", "loop", "layers", "eval", "dataset", "crop")
class TrafficOfACity(Loop):
    """How fast cars will be on each of some hundred streets for the next hour; streets that were not measured do not count."""
    kinds, precisions, longest, accumulated = ("adam", "adamw"), ("fp32", "fp32", "autocast"), 64, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.streets = r.choice([4, 6, 8]), r.choice([32, 40]), r.choice([207, 325])
        self.length, self.size = r.choice([12, 16]), r.choice([16, 24, 32])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(City(self))
        self.dataset = torch.zeros(128, 2, self.streets, self.longest), torch.zeros(128, 12, self.streets)

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        seen, later = (part[start:start + self.size] for part in self.dataset)
        return seen[..., :self.length].to(DEVICE, self.dtype), later.to(DEVICE)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        measured = (batch[1] != 0).float()
        off = (self.predict(batch).float() * 15 + 50 - batch[1]).abs() * measured
        return off.sum() / measured.sum().clamp(min=1)


class Moved(nn.Module):
    """Two convolutions along an action, between which what is seen scales and shifts."""

    def __init__(self, cin, cout, given):
        super().__init__()
        self.first, self.second = (nn.Sequential(nn.Conv1d(n, cout, 5, padding=2), nn.GroupNorm(8, cout), nn.Mish()) for n in (cin, cout))
        self.move, self.past = nn.Sequential(nn.Mish(), nn.Linear(given, 2 * cout)), nn.Conv1d(cin, cout, 1)

    def forward(self, x, given):
        scale, shift = self.move(given).unsqueeze(-1).chunk(2, dim=1)
        return self.second(self.first(x) * scale + shift) + self.past(x)


class Grasping(nn.Module):
    """Cameras' pictures to places of what is bright in them, and a network along time that takes the noise off what the hand will do."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.eye, wide = strided_convolutions(o.base)
        self.keys, self.state = nn.Conv2d(wide, 32, 1), nn.Linear(o.cameras * 64 + 9 + 128, w)
        widths = [o.done, w, 2 * w]
        self.down = nn.ModuleList(Moved(a, b, w) for a, b in zip(widths, widths[1:]))
        self.middle = nn.ModuleList(Moved(2 * w, 2 * w, w) for _ in range(o.layers))
        self.up, self.out = nn.ModuleList([Moved(4 * w, w, w), Moved(2 * w, w, w)]), nn.Conv1d(w, o.done, 1)

    def places(self, pictures):
        maps = self.keys(self.eye(pictures.flatten(0, 1)))
        share = maps.flatten(2).softmax(-1).view_as(maps)
        at = torch.linspace(-1, 1, maps.shape[-1], device=maps.device, dtype=maps.dtype)
        return torch.stack([(share.sum(2) * at).sum(-1), (share.sum(3) * at).sum(-1)], dim=-1).view(len(pictures), -1)

    def forward(self, pictures, hand, actions, t):
        waves = t.unsqueeze(1) * torch.arange(1, 65, device=t.device)
        given = self.state(torch.cat([self.places(pictures), hand, waves.sin().to(hand.dtype), waves.cos().to(hand.dtype)], dim=1))
        x, kept = actions, []
        for part in self.down:
            x = part(x, given)
            kept.append(x)
        for part in self.middle:
            x = x + part(x, given)
        for part in self.up:
            x = part(torch.cat([x, kept.pop()], dim=1), given)
        return self.out(x)


@job("hands_that_grasp", "hands that grasp", "loop", "layers", "eval", "dataset")
class HandsThatGrasp(Loop):
    """What somebody showed a robot's hand: the next moves come from noise, and depend on two cameras. Eye and moves have rates of their own."""
    kinds, precisions, accumulated, cameras, done = ("adamw", "adamw_fused"), ("fp32", "autocast"), (1, 1, 2), 2, 8

    def draw(self):
        r = self.rng
        self.layers, self.width, self.base = r.choice([2, 3, 4]), r.choice([128, 256]), r.choice([32, 48])
        self.moves, self.side, self.size = r.choice([16, 32]), r.choice([128, 160, 192]), r.choice([24, 32, 48])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Grasping(self))
        self.dataset = (torch.zeros(96, self.cameras, 3, self.side, self.side, dtype=torch.uint8), torch.zeros(96, 9), torch.zeros(96, self.done, self.moves))

    def optimizer(self, parameters):
        eye = {id(p) for p in self.model.eye.parameters()}
        groups = [[p for p in self.model.parameters() if (id(p) in eye) == inside] for inside in (True, False)]
        return OPTIMIZERS[self.kind]([{"params": groups[0], "lr": 1e-5}, {"params": groups[1]}])

    def batch(self, i):
        pictures, hand, moves = cut(self.dataset, i, self.size)
        return pictures.to(self.dtype).div_(255), hand.to(self.dtype), moves.to(self.dtype)

    def noised(self, moves):
        noise, t = torch.randn_like(moves), torch.rand(len(moves), device=DEVICE)
        kept = (t * 1.57).cos().view(-1, 1, 1).to(moves.dtype)
        return kept * moves + (1 - kept.square()).sqrt() * noise, noise, t

    def predict(self, batch):
        pictures, hand, moves = batch
        with self.autocast():
            return self.model(pictures, hand, torch.randn_like(moves), torch.ones(len(moves), device=DEVICE))

    def loss(self, batch):
        pictures, hand, moves = batch
        noisy, noise, t = self.noised(moves)
        with self.autocast():
            told = self.model(pictures, hand, noisy, t)
        return F.mse_loss(told.float(), noise.float())


class House(nn.Module):
    """Photographs of rooms, numbers and kinds of a house, and its text, each to a vector, which look at each other."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.eye, wide = strided_convolutions(o.base)
        self.room, self.number, self.kinds = nn.Linear(wide, w), nn.Linear(24, w), nn.Embedding(2000, w)
        self.words, self.read = nn.EmbeddingBag(20000, w), nn.Sequential(nn.Linear(w, w), nn.GELU())
        self.run, self.all = Run([EncoderBlock(w, 8, o.attention) for _ in range(o.layers)], False), nn.Parameter(torch.zeros(1, 1, w))
        self.price = nn.Sequential(nn.LayerNorm(w), nn.Linear(w, 2))

    def forward(self, rooms, numbers, kinds, words):
        seen = self.room(self.eye(rooms.flatten(0, 1)).mean((2, 3))).unflatten(0, rooms.shape[:2])
        row = [self.all.expand(len(rooms), -1, -1).to(seen.dtype), seen, self.number(numbers).unsqueeze(1).to(seen.dtype), self.kinds(kinds).to(seen.dtype),
               self.read(self.words(words)).unsqueeze(1).to(seen.dtype)]
        return self.price(self.run(torch.cat(row, dim=1))[:, 0])


@job("houses_with_photographs", "houses with photographs", "loop", "layers", "attention", "eval", "dataset")
class HousesWithPhotographs(Loop):
    """What a house costs, from photographs of its rooms, its numbers, and what its owner writes of it; the price has a spread."""
    kinds, precisions, accumulated = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.base, self.rooms = r.choice([2, 3, 4]), r.choice([256, 384]), r.choice([32, 48]), r.choice([4, 6])
        self.side, self.size, self.attention = r.choice([160, 192, 224]), r.choice([6, 8, 12]), "sdpa"
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(House(self))
        n = 48
        self.dataset = (torch.zeros(n, self.rooms, 3, self.side, self.side, dtype=torch.uint8), torch.zeros(n, 24), torch.zeros(n, 6, dtype=torch.long),
                        torch.zeros(n, 120, dtype=torch.long), torch.zeros(n))

    def batch(self, i):
        rooms, numbers, kinds, words, price = cut(self.dataset, i, self.size)
        return rooms.to(self.dtype) / 255, numbers.to(self.dtype), kinds, words, price

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch[:4])

    def loss(self, batch):
        told, spread = self.predict(batch).float().unbind(1)
        return F.gaussian_nll_loss(told, batch[4].log1p(), F.softplus(spread))


class Jaw(nn.Module):
    """A net of volumes, whose every stage adds what it was given; on each scale on the way up there is a guess."""

    def __init__(self, o):
        super().__init__()
        b, self.again = o.base, o.checkpointing
        widths = [b, 2 * b, 4 * b]
        self.start = nn.Conv3d(1, b, 5, padding=2)
        self.down = nn.ModuleList(nn.Conv3d(a, c, 2, 2) for a, c in zip(widths, widths[1:]))
        self.up = nn.ModuleList(nn.ConvTranspose3d(c, a, 2, 2) for a, c in reversed(list(zip(widths, widths[1:]))))
        self.left, self.right = nn.ModuleList(self.stage(w, o.layers) for w in widths), nn.ModuleList(self.stage(w, o.layers) for w in (2 * b, b))
        self.guess = nn.ModuleList(nn.Conv3d(w, o.teeth, 1) for w in (2 * b, b))

    @staticmethod
    def stage(w, layers):
        return nn.Sequential(*[m for _ in range(layers) for m in (nn.Conv3d(w, w, 3, padding=1), nn.GroupNorm(8, w), nn.ELU())])

    def added(self, stage, x):
        return x + (checkpoint(stage, x, use_reentrant=False) if self.again and self.training else stage(x))

    def forward(self, scan):
        x, kept, told = self.start(scan), [], []
        for n, stage in enumerate(self.left):
            x = self.added(stage, self.down[n - 1](x) if n else x)
            kept.append(x)
        kept.pop()
        for up, stage, guess in zip(self.up, self.right, self.guess):
            x = self.added(stage, up(x) + kept.pop())
            told.append(guess(x))
        return told


@job("teeth_of_a_jaw", "teeth of a jaw", "loop", "layers", "checkpointing", "eval", "dataset")
class TeethOfAJaw(Loop):
    """Which tooth each place of a scan belongs to; guesses on both scales count, and how much each tooth overlaps with what a dentist drew."""
    kinds, precisions, accumulated = ("adam", "adamw", "sgd_momentum"), ("fp32", "autocast", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.base, self.teeth = r.choice([1, 2, 3]), r.choice([16, 24]), r.choice([9, 17])
        self.side, self.size, self.checkpointing = r.choice([64, 80, 96]), r.choice([1, 2]), r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Jaw(self))
        cube = self.side, self.side, self.side
        self.dataset = torch.zeros(8, 1, *cube, dtype=torch.float16), torch.zeros(8, *cube, dtype=torch.uint8)

    def batch(self, i):
        scan, drawn = cut(self.dataset, i, self.size)
        return scan.to(self.dtype), drawn.long()

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])[-1]

    def loss(self, batch):
        with self.autocast():
            guesses = self.model(batch[0])
        lost = 0
        for weight, told in zip((0.3, 1.0), guesses):
            step = batch[1].shape[-1] // told.shape[-1]
            drawn, told = batch[1][:, ::step, ::step, ::step], told.float()
            share = told.softmax(1)
            right = share.gather(1, drawn.unsqueeze(1)).mean()
            lost = lost + weight * (F.cross_entropy(told, drawn) + 1 - right)
        return lost

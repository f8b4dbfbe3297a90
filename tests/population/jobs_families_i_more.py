"""Jobs of space, bodies and matter: things around a car, surfaces, clips from noise, scans laid over, molecules from noise, crystals."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from core import DEVICE, job
from parts import Loop, cut


def conv_block(a, b, stride=1):
    return nn.Sequential(nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(True))


class Pillars(nn.Module):
    """Points become pillars of a grid seen from above; a centre is told at each place."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.grid, self.each = o.grid, nn.Sequential(nn.Linear(9, w), nn.LayerNorm(w), nn.ReLU())
        stages = [nn.Sequential(conv_block(w << max(0, k - 1), w << k, 2), *(conv_block(w << k, w << k) for _ in range(o.layers))) for k in range(3)]
        self.stages = nn.ModuleList(stages)
        self.up = nn.ModuleList(nn.ConvTranspose2d(w << k, w, 1 << k, 1 << k) for k in range(3))
        self.centre, self.box = nn.Conv2d(3 * w, 10, 3, padding=1), nn.Conv2d(3 * w, 8, 3, padding=1)

    def above(self, points, where):
        found = self.each(points)
        flat = found.new_zeros(len(points), self.grid * self.grid, found.shape[-1])
        flat = flat.scatter_reduce(1, where.unsqueeze(-1).expand_as(found), found, "amax")
        return flat.transpose(1, 2).unflatten(2, (self.grid, self.grid))

    def forward(self, points, where):
        x, seen = self.above(points, where), []
        for stage, up in zip(self.stages, self.up):
            x = stage(x)
            seen.append(up(x))
        x = torch.cat(seen, dim=1)
        return self.centre(x), self.box(x)


@job("around_a_car", "things around a car", "loop", "layers", "eval", "dataset")
class AroundACar(Loop):
    """Clouds of points of a laser, and what drives and walks there."""
    kinds = "adamw", "adam", "adamw_loop"
    precisions = "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.grid = r.choice([2, 3, 4]), r.choice([48, 64]), r.choice([192, 256])
        self.points, self.size = r.choice([20000, 40000]), r.choice([4, 6, 8])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Pillars(self))
        where = torch.arange(self.points).mul(7) % self.grid ** 2
        self.dataset = torch.zeros(16, self.points, 9), where.expand(16, -1).contiguous()

    def batch(self, i):
        points, where = cut(self.dataset, i, self.size)
        return points.to(self.dtype), where

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch)[0]

    def loss(self, batch):
        with self.autocast():
            centres, boxes = self.model(*batch)
        centres = centres.float().sigmoid().clamp(1e-4, 1 - 1e-4)
        return -(centres ** 2 * (1 - centres).log()).mean() + boxes.float().abs().mean()


class Distance(nn.Module):
    """How far a point is from a surface, given a code of the shape."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.codes, self.first = nn.Embedding(512, 128), nn.Linear(131, w)
        self.layers, self.last = nn.ModuleList(nn.Linear(w, w) for _ in range(o.layers)), nn.Linear(w, 1)

    def forward(self, places, shapes):
        code = self.codes(shapes).unsqueeze(1).expand(-1, places.shape[1], -1)
        x = F.softplus(self.first(torch.cat([places, code.to(places.dtype)], dim=-1)), beta=100)
        for k, layer in enumerate(self.layers):
            x = F.softplus(layer(x) + (x if k % 2 else 0), beta=100)
        return self.last(x).squeeze(-1)


@job("surfaces", "surfaces", "loop", "layers", "eval", "dataset")
class Surfaces(Loop):
    """Shapes by their distance; the distance grows by one for each step away, so that its gradient is trained, too."""
    kinds = "adam", "adamw"
    precisions = "fp32",
    accumulated = 1, 1, 2

    def draw(self):
        r = self.rng
        self.layers, self.width, self.points, self.size = r.choice([4, 6, 8]), r.choice([256, 512]), r.choice([2048, 4096]), r.choice([4, 8])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Distance(self))
        self.dataset = torch.zeros(64, self.points, 3), torch.zeros(64, dtype=torch.long)

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def predict(self, batch):
        return self.model(*batch)

    def loss(self, batch):
        places, shapes = batch
        if not torch.is_grad_enabled():
            return self.model(places, shapes).abs().mean()
        around = (places + 0.1 * torch.randn_like(places)).requires_grad_()
        far = self.model(around, shapes)
        slope = torch.autograd.grad(far.sum(), around, create_graph=True)[0]
        return self.model(places, shapes).abs().mean() + 0.1 * (slope.norm(dim=-1) - 1).square().mean()


class Clip(nn.Module):
    """A convolution over places, one over moments, and the noise's level in between."""

    def __init__(self, a, b):
        super().__init__()
        self.norm, self.places, self.moments = nn.GroupNorm(8, a), nn.Conv3d(a, b, (1, 3, 3), padding=(0, 1, 1)), nn.Conv3d(b, b, (3, 1, 1), padding=(1, 0, 0))
        self.level, self.short = nn.Linear(128, b), nn.Conv3d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x, level):
        y = self.places(F.silu(self.norm(x))) + self.level(level)[:, :, None, None, None]
        return self.short(x) + self.moments(F.silu(y))


class ClipNet(nn.Module):
    def __init__(self, o):
        super().__init__()
        w = o.width
        self.levels, self.into, self.out = nn.Sequential(nn.Linear(1, 128), nn.SiLU()), nn.Conv3d(4, w, 1), nn.Conv3d(w, 4, 1)
        self.down = nn.ModuleList(Clip(w << k, w << k) for k in range(o.layers))
        self.less = nn.ModuleList(nn.Conv3d(w << k, w << k + 1, (1, 3, 3), (1, 2, 2), (0, 1, 1)) for k in range(o.layers))
        self.middle = Clip(w << o.layers, w << o.layers)
        self.more = nn.ModuleList(nn.ConvTranspose3d(w << k + 1, w << k, (1, 2, 2), (1, 2, 2)) for k in range(o.layers))
        self.up = nn.ModuleList(Clip(2 * (w << k), w << k) for k in range(o.layers))

    def forward(self, clip, t):
        level, x, seen = self.levels(t.to(clip.dtype).unsqueeze(1)), self.into(clip), []
        for part, less in zip(self.down, self.less):
            x = part(x, level)
            seen.append(x)
            x = less(x)
        x = self.middle(x, level)
        for k in range(len(self.up) - 1, -1, -1):
            x = self.up[k](torch.cat([self.more[k](x), seen[k]], dim=1), level)
        return self.out(x)


@job("clips_from_noise", "clips from noise", "loop", "layers", "eval", "dataset")
class ClipsFromNoise(Loop):
    """Latents of clips, which the network takes the noise from: v is told."""
    kinds = "adamw", "adamw_fused", "adam"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.moments, self.side = r.choice([2, 3]), r.choice([64, 96]), r.choice([8, 16]), r.choice([24, 32])
        self.size = r.choice([4, 6, 8])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(ClipNet(self))
        self.dataset = torch.zeros(48, 4, self.moments, self.side, self.side, dtype=torch.float16),

    def batch(self, i):
        return cut(self.dataset, i, self.size).to(self.dtype)

    def predict(self, clips):
        with self.autocast():
            return self.model(clips, torch.full((len(clips),), 0.5, device=DEVICE))

    def loss(self, clips):
        t, noise = torch.rand(len(clips), device=DEVICE), torch.randn_like(clips)
        angle = (t * 1.57).to(clips.dtype)[:, None, None, None, None]
        with self.autocast():
            told = self.model(angle.cos() * clips + angle.sin() * noise, t)
        return F.mse_loss(told.float(), (angle.cos() * noise - angle.sin() * clips).float())


class Shift(nn.Module):
    """Two scans in, and a field of small moves out."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.down = nn.ModuleList(nn.Conv3d(w if k else 2, w, 3, 2, 1) for k in range(o.layers))
        self.up = nn.ModuleList(nn.Conv3d(2 * w if k else w + 2, w, 3, 1, 1) for k in range(o.layers))
        self.field = nn.Conv3d(w, 3, 3, 1, 1)

    def forward(self, moving, still):
        seen = [torch.cat([moving, still], dim=1)]
        for part in self.down:
            seen.append(F.leaky_relu(part(seen[-1]), 0.2))
        x = seen.pop()
        for part in reversed(self.up):
            before = seen.pop()
            x = F.leaky_relu(part(torch.cat([F.interpolate(x, size=before.shape[2:]), before], dim=1)), 0.2)
        return self.field(x)


def laid_over(scan, field):
    """The scan, moved by a field."""
    axes = [torch.linspace(-1, 1, n, device=scan.device) for n in scan.shape[2:]]
    grid = torch.stack(torch.meshgrid(*axes, indexing="ij")[::-1], dim=-1).unsqueeze(0)
    return F.grid_sample(scan.float(), grid + field.float().permute(0, 2, 3, 4, 1), align_corners=True, padding_mode="border")


def roughness(field):
    return sum(field.float().diff(dim=k).square().mean() for k in (2, 3, 4)) / 3


@job("scans_laid_over", "scans laid over", "loop", "layers", "eval", "dataset")
class ScansLaidOver(Loop):
    """The scan of one head is moved onto that of another; local correlation says how well it fits."""
    kinds = "adam", "adamw", "sgd_momentum"
    precisions = "fp32", "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.side, self.size = r.choice([3, 4]), r.choice([12, 16, 24]), r.choice([64, 80]), r.choice([2, 3, 4])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Shift(self))
        self.dataset = tuple(torch.zeros(12, 1, self.side, self.side, self.side) for _ in range(2))

    def batch(self, i):
        return [scan.to(self.dtype) for scan in cut(self.dataset, i, self.size)]

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch)

    def likeness(self, one, other):
        means = [F.avg_pool3d(t, 9, 1, 4) for t in (one, other, one * one, other * other, one * other)]
        cross, left, right = means[4] - means[0] * means[1], means[2] - means[0] ** 2, means[3] - means[1] ** 2
        return (cross * cross / (left * right + 1e-5)).mean()

    def loss(self, batch):
        field = self.predict(batch)
        return 0.01 * roughness(field) - self.likeness(laid_over(batch[0], field), batch[1].float())


class Turning(nn.Module):
    """Every atom talks to every other one; places move along the lines between them."""

    def __init__(self, w):
        super().__init__()
        self.talk = nn.Sequential(nn.Linear(2 * w + 2, w), nn.SiLU(), nn.Linear(w, w), nn.SiLU())
        self.heed, self.move = nn.Linear(w, 1), nn.Sequential(nn.Linear(w, w), nn.SiLU(), nn.Linear(w, 1, bias=False))
        self.know = nn.Sequential(nn.Linear(2 * w, w), nn.SiLU(), nn.Linear(w, w))

    def forward(self, h, x, start):
        n = h.shape[1]
        apart = x.unsqueeze(2) - x.unsqueeze(1)
        far = apart.square().sum(-1, keepdim=True)
        told = self.talk(torch.cat([h.unsqueeze(2).expand(-1, -1, n, -1), h.unsqueeze(1).expand(-1, n, -1, -1), far.to(h.dtype), start.to(h.dtype)], dim=-1))
        told = told * self.heed(told).sigmoid()
        x = x + (apart / (far.sqrt() + 1) * self.move(told)).mean(2)
        return h + self.know(torch.cat([h, told.sum(2)], dim=-1)), x


class AtomsNet(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.into, self.layers, self.out = nn.Linear(17, o.width), nn.ModuleList(Turning(o.width) for _ in range(o.layers)), nn.Linear(o.width, 16)

    def forward(self, kinds, places, t):
        start = (places.unsqueeze(2) - places.unsqueeze(1)).square().sum(-1, keepdim=True)
        h, x = self.into(torch.cat([kinds, t.to(kinds.dtype).view(-1, 1, 1).expand(-1, kinds.shape[1], -1)], dim=-1)), places
        for layer in self.layers:
            h, x = layer(h, x, start)
        return self.out(h), x - places


@job("molecules_from_noise", "molecules from noise", "loop", "layers", "eval", "dataset")
class MoleculesFromNoise(Loop):
    """Places and kinds of atoms, from which noise is taken; turning a molecule turns the answer."""
    kinds = "adamw", "adam"
    precisions = "fp32", "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.atoms, self.size = r.choice([3, 4, 6]), r.choice([128, 192]), r.choice([24, 29]), r.choice([24, 32, 48])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(AtomsNet(self))
        self.dataset = torch.zeros(256, self.atoms, 16), torch.zeros(256, self.atoms, 3)

    def batch(self, i):
        return [t.to(self.dtype) for t in cut(self.dataset, i, self.size)]

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch, torch.zeros(len(batch[0]), device=DEVICE))[0]

    def loss(self, batch):
        noises = [torch.randn_like(t) for t in batch]
        noises[1] = noises[1] - noises[1].mean(1, keepdim=True)
        with self.autocast():
            told = self.model(*(0.7 * t + 0.7 * n for t, n in zip(batch, noises)), torch.rand(len(batch[0]), device=DEVICE))
        return sum(F.mse_loss(a.float(), n.float()) for a, n in zip(told, noises))


class Bonds(nn.Module):
    """Gated messages along the lines of a graph; lines learn from what they carry."""

    def __init__(self, w):
        super().__init__()
        self.ends, self.line, self.value = nn.Linear(w, 2 * w), nn.Linear(w, w), nn.Linear(w, w)
        self.norm, self.norm_line = nn.BatchNorm1d(w), nn.BatchNorm1d(w)

    def forward(self, x, e, start, end):
        a, b = self.ends(x).chunk(2, dim=1)
        m = a.index_select(0, start) + b.index_select(0, end) + self.line(e)
        gate = m.sigmoid()
        sums = torch.zeros_like(x).index_add(0, end, (gate * self.value(x).index_select(0, start)).to(x.dtype))
        weight = torch.zeros_like(x).index_add(0, end, gate.to(x.dtype))
        return x + F.silu(self.norm(sums / (weight + 1e-6))), e + F.silu(self.norm_line(m))


class CrystalNet(nn.Module):
    """Angles inform bonds, and bonds inform atoms."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.atoms, self.bonds, self.angles = nn.Embedding(100, w), nn.Linear(40, w), nn.Linear(20, w)
        self.layers = nn.ModuleList(nn.ModuleDict({"fine": Bonds(w), "coarse": Bonds(w)}) for _ in range(o.layers))
        self.told = nn.Linear(w, 1)

    def forward(self, batch):
        kinds, bonds, angles, (start, end), (first, second) = batch
        x, e, a = self.atoms(kinds), self.bonds(bonds), self.angles(angles)
        for layer in self.layers:
            e, a = layer["fine"](e, a, first, second)
            x, e = layer["coarse"](x, e, start, end)
        return self.told(x)


@job("crystals", "crystals", "loop", "layers", "eval")
class Crystals(Loop):
    """How much energy holds a crystal together, by its atoms, their bonds, and the angles between those."""
    kinds = "adamw", "adam"
    precisions = "fp32", "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.atoms, self.near = r.choice([2, 3, 4]), r.choice([128, 256]), r.choice([800, 1200]), r.choice([8, 12])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(CrystalNet(self))
        end = torch.arange(self.atoms).repeat_interleave(self.near)
        bond = torch.arange(len(end)).repeat_interleave(self.near)
        self.pairs = torch.stack([(end * 5 + torch.arange(len(end))) % self.atoms, end]), torch.stack([(bond * 3 + 1) % len(end), bond])

    def batch(self, i):
        bonds, angles = (p.shape[1] for p in self.pairs)
        features = torch.zeros(bonds, 40).to(DEVICE, self.dtype), torch.zeros(angles, 20).to(DEVICE, self.dtype)
        return torch.zeros(self.atoms, dtype=torch.long).to(DEVICE), *features, *(p.to(DEVICE) for p in self.pairs)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch)

    def loss(self, batch):
        return F.huber_loss(self.predict(batch).float().mean().view(1), torch.zeros(1, device=DEVICE))

"""Jobs of pictures: plants with Accelerate, spots on skin, gestures, centres of things, a style by small matrices, pictures and text in one row;
and a log of decisions."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from accelerate import Accelerator
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForImageClassification

from core import DEVICE, job
from jobs_images import ImageLoop
from parts import Loop, cut


def maybe_again(again, part, *inputs):
    """Calls a part; its insides are made again in the backward pass where that is asked for."""
    return checkpoint(part, *inputs, use_reentrant=False) if again and torch.is_grad_enabled() else part(*inputs)


@job("plants_with_accelerate", "plants with Accelerate", "loop", "images", "layers", "eval")
class PlantsWithAccelerate(ImageLoop):
    """Swin of transformers tells plants apart; two photographs are laid over each other, and labels are, too."""
    kinds = "adamw", "adamw_fused", "adamw_loop"
    precisions = "fp32", "autocast"
    classes = 1000

    def draw(self):
        r = self.rng
        self.layers, self.width, self.share = r.choice([2, 4, 6]), r.choice([64, 96]), r.choice([0.7, 0.8])
        self.draw_images([224, 256], [16, 24, 32])
        self.window = self.pixels // 32
        self.choose()

    def build(self):
        config = transformers.SwinConfig(image_size=self.pixels, embed_dim=self.width, depths=[1, 1, self.layers, 1], num_heads=[2, 4, 8, 16],
                                         window_size=self.window, num_labels=self.classes, drop_path_rate=0.0)
        with torch.device(DEVICE):
            model = AutoModelForImageClassification.from_config(config)
        self.accelerator = Accelerator(mixed_precision="bf16" if self.precision == "autocast" else "no")
        self.finish(model)
        self.model, *self.optimizers = self.accelerator.prepare(self.model, *self.optimizers)

    def predict(self, batch):
        return self.model(pixel_values=batch[0]).logits

    def backward(self, loss):
        self.accelerator.backward(loss)

    def loss(self, batch):
        photographs, plants = batch
        mixed = self.share * photographs + (1 - self.share) * photographs.flip(0)
        scores = self.predict((mixed, plants)).float()
        return self.share * F.cross_entropy(scores, plants) + (1 - self.share) * F.cross_entropy(scores, plants.flip(0))


class Twice(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.one, self.two = nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.n1, self.n2 = nn.InstanceNorm2d(cout, affine=True), nn.InstanceNorm2d(cout, affine=True)

    def forward(self, x):
        return F.leaky_relu(self.n2(self.two(F.leaky_relu(self.n1(self.one(x)), 0.01))), 0.01)


class Nested(nn.Module):
    """A grid of blocks: each takes all blocks of its row before it, and the one below; each end of the first row tells a mask."""

    def __init__(self, o):
        super().__init__()
        w, self.depth, self.again = [o.base << k for k in range(o.layers)], o.layers, o.checkpointing
        self.blocks = nn.ModuleDict()
        for j in range(o.layers):
            for i in range(o.layers - j):
                cin = (w[i - 1] if i else 3) if j == 0 else j * w[i] + w[i + 1]
                self.blocks["b%d_%d" % (i, j)] = Twice(cin, w[i])
        self.ends = nn.ModuleList(nn.Conv2d(w[0], 1, 1) for _ in range(o.layers - 1))

    def forward(self, x):
        grid = {}
        for j in range(self.depth):
            for i in range(self.depth - j):
                if j:
                    given = torch.cat([grid[i, k] for k in range(j)] + [F.interpolate(grid[i + 1, j - 1], scale_factor=2)], dim=1)
                else:
                    given = F.max_pool2d(grid[i - 1, 0], 2) if i else x
                grid[i, j] = maybe_again(self.again, self.blocks["b%d_%d" % (i, j)], given)
        return torch.cat([end(grid[0, j + 1]) for j, end in enumerate(self.ends)], dim=1)


def overlap(p, wanted):
    return 1 - (2 * (p * wanted).sum((2, 3)) + 1) / (p.sum((2, 3)) + wanted.sum((2, 3)) + 1)


@job("spots_on_skin", "spots on skin", "loop", "images", "checkpointing", "eval")
class SpotsOnSkin(ImageLoop):
    """Where a spot ends, by a U-Net of U-Nets; each of its masks counts."""
    kinds = "adam", "adamw", "sgd_momentum"
    accumulated = 1, 1, 2

    def draw(self):
        r = self.rng
        self.layers, self.base, self.checkpointing = r.choice([3, 4, 4]), r.choice([16, 24, 32]), r.random() < 0.2
        self.draw_images([128, 192, 256], [8, 12, 16])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Nested(self))

    def loss(self, batch):
        told = self.predict(batch).float()
        wanted = batch[0].float().mean(1, keepdim=True).expand_as(told)
        return F.binary_cross_entropy_with_logits(told, wanted) + overlap(told.sigmoid(), wanted).mean()


class Gestures(nn.Module):
    """Each frame to a vector, by convolutions that look at depth and width apart; then convolutions along time, farther and farther."""

    def __init__(self, o):
        super().__init__()
        stages, cin = [], 3
        for w in (o.base << k for k in range(4)):
            stages += [nn.Conv2d(cin, w, 3, 2, 1, bias=False), nn.BatchNorm2d(w), nn.ReLU6(True)]
            for _ in range(o.layers):
                stages += [nn.Conv2d(w, w, 3, 1, 1, groups=w, bias=False), nn.BatchNorm2d(w), nn.ReLU6(True), nn.Conv2d(w, w, 1, bias=False), nn.BatchNorm2d(w)]
            cin = w
        self.frames, self.into = nn.Sequential(*stages), nn.Conv1d(cin, o.memory, 1)
        self.time = nn.ModuleList(nn.Conv1d(o.memory, 2 * o.memory, 3, padding=1 << k, dilation=1 << k) for k in range(4))
        self.look, self.told = nn.Linear(o.memory, 1), nn.Linear(o.memory, 27)

    def forward(self, clips):
        each = self.frames(clips.flatten(0, 1)).mean((2, 3)).unflatten(0, clips.shape[:2])
        x = self.into(each.transpose(1, 2))
        for along in self.time:
            x = x + F.glu(along(x), dim=1)
        x = x.transpose(1, 2)
        return self.told((self.look(x).softmax(dim=1) * x).sum(dim=1))


@job("gestures", "gestures", "loop", "layers", "eval", "dataset", "crop")
class GesturesOfHands(Loop):
    """What a hand in front of a camera wants, from some frames."""
    kinds = "adam", "adamw", "sgd_momentum"
    precisions = "fp32", "autocast"
    longest, accumulated = 64, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.base, self.memory = r.choice([1, 2]), r.choice([32, 48]), r.choice([256, 512])
        self.side, self.length, self.size = r.choice([96, 128]), r.choice([8, 12, 16]), r.choice([8, 12, 16])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Gestures(self))
        self.dataset = torch.zeros(24, self.longest, 3, self.side, self.side, dtype=torch.uint8), torch.zeros(24, dtype=torch.long)

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        clips, wanted = (part[start:start + self.size] for part in self.dataset)
        return clips[:, :self.length].to(DEVICE).to(self.dtype) / 255, wanted.to(DEVICE)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        return F.cross_entropy(self.predict(batch).float(), batch[1])


class Bent(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1), nn.GroupNorm(8, cout), nn.SiLU(), nn.Conv2d(cout, cout, 3, 1, 1), nn.GroupNorm(8, cout))
        self.short = nn.Conv2d(cin, cout, 1, stride) if stride > 1 or cin != cout else nn.Identity()

    def forward(self, x):
        return F.silu(self.body(x) + self.short(x))


class Centres(nn.Module):
    """Down to a sixteenth, up again to a quarter; a map for each kind of thing, one of sizes, one of what rounding lost."""

    def __init__(self, o):
        super().__init__()
        w = o.base
        def down(n):
            return nn.Sequential(Bent(n, 2 * n, 2), *[Bent(2 * n, 2 * n) for _ in range(o.layers)])
        self.stem, self.down = Bent(3, w, 2), nn.ModuleList(down(w << k) for k in range(3))
        self.up = nn.ModuleList(nn.ConvTranspose2d(w << k + 1, w << k, 4, 2, 1) for k in (2, 1))
        self.heads = nn.ModuleList(nn.Sequential(nn.Conv2d(2 * w, 64, 3, padding=1), nn.ReLU(True), nn.Conv2d(64, n, 1)) for n in (o.classes, 2, 2))

    def forward(self, pictures):
        seen = [self.stem(pictures)]
        for down in self.down:
            seen.append(down(seen[-1]))
        x = seen.pop()
        for up in self.up:
            x = up(x) + seen.pop()
        return torch.cat([head(x) for head in self.heads], dim=1)


@job("centres_of_things", "centres of things", "loop", "images", "layers", "eval")
class CentresOfThings(ImageLoop):
    """A thing is where a map has its peak: no boxes are drawn beforehand."""
    classes, precisions, accumulated = 20, ("fp32", "autocast", "autocast"), (1, 1, 2)

    def draw(self):
        self.layers, self.base = self.rng.choice([1, 2]), self.rng.choice([32, 48, 64])
        self.draw_images([256, 384], [6, 8, 12])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Centres(self))

    def loss(self, batch):
        maps, sizes, rest = self.predict(batch).float().split([self.classes, 2, 2], dim=1)
        p, where = maps.sigmoid().clamp(1e-4, 1 - 1e-4), torch.zeros_like(maps)
        where[:, :, ::16, ::16] = 1.0
        lost = where * (1 - p) ** 2 * p.log() + (1 - where) * p ** 2 * (1 - p).log()
        return -lost.sum() / where.sum() + 0.1 * sizes[..., ::16, ::16].abs().mean() + rest[..., ::16, ::16].abs().mean()


class Small(nn.Module):
    """A layer that stays, and two small matrices beside it."""

    def __init__(self, cin, cout, rank):
        super().__init__()
        self.base, self.down, self.up = nn.Linear(cin, cout, bias=False), nn.Linear(cin, rank, bias=False), nn.Linear(rank, cout, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


class Cross(nn.Module):
    """Pixels look at each other, then at words."""

    def __init__(self, w, words, o):
        super().__init__()
        self.mode, self.again, self.norms = o.attention, o.checkpointing, nn.ModuleList(nn.LayerNorm(w) for _ in range(3))
        self.q, self.k, self.v, self.o = (nn.ModuleList(Small(c, w, o.rank) for c in kinds) for kinds in ((w, w), (w, words), (w, words), (w, w)))
        self.wide, self.narrow = nn.Linear(w, 8 * w), nn.Linear(4 * w, w)

    def look(self, k, x, seen):
        q, key, v = (made.unflatten(-1, (8, -1)).transpose(1, 2) for made in (self.q[k](x), self.k[k](seen), self.v[k](seen)))
        y = F.scaled_dot_product_attention(q, key, v) if self.mode == "sdpa" else (q @ key.mT * q.shape[-1] ** -0.5).softmax(-1) @ v
        return self.o[k](y.transpose(1, 2).flatten(2))

    def inside(self, x, words):
        y = self.norms[0](x)
        x = x + self.look(0, y, y)
        x = x + self.look(1, self.norms[1](x), words)
        a, b = self.wide(self.norms[2](x)).chunk(2, dim=-1)
        return x + self.narrow(a * F.gelu(b))

    def forward(self, x, words):
        flat = x.flatten(2).transpose(1, 2)
        return maybe_again(self.again, self.inside, flat, words).transpose(1, 2).unflatten(2, x.shape[2:])


class Styled(nn.Module):
    def __init__(self, o):
        super().__init__()
        w = [o.base, 2 * o.base, 4 * o.base]
        self.words, self.time = nn.Embedding(8000, 512), nn.Linear(1, w[0])
        self.reader = nn.TransformerEncoderLayer(512, 8, 2048, 0.0, "gelu", batch_first=True)
        self.stem, self.out = nn.Conv2d(4, w[0], 3, padding=1), nn.Sequential(nn.GroupNorm(8, w[0]), nn.SiLU(), nn.Conv2d(w[0], 4, 3, padding=1))
        self.down = nn.ModuleList(nn.ModuleList([Bent(a, b, 2), *[Cross(b, 512, o) for _ in range(o.layers)]]) for a, b in zip(w, w[1:]))
        self.up = nn.ModuleList(nn.ModuleList([Bent(b + a, a), *[Cross(a, 512, o) for _ in range(o.layers)]]) for a, b in zip(w[-2::-1], w[:0:-1]))

    def forward(self, x, t, text):
        words = self.reader(self.words(text))
        x, kept = self.stem(x) + self.time(t[:, None])[..., None, None], []
        for bent, *crosses in self.down:
            kept.append(x)
            x = bent(x)
            for cross in crosses:
                x = cross(x, words)
        for bent, *crosses in self.up:
            x = bent(torch.cat([F.interpolate(x, scale_factor=2), kept.pop()], dim=1))
            for cross in crosses:
                x = cross(x, words)
        return self.out(x)


@job("style_by_small_matrices", "a style by small matrices", "loop", "images", "layers", "attention", "checkpointing", "eval", "pretrained")
class StyleBySmallMatrices(ImageLoop):
    """A model that makes pictures of text learns a style; small matrices beside its attention are trained."""
    kinds = "adamw", "adamw_fused", "adam"
    channels, accumulated = 4, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.base, self.rank = r.choice([1, 2]), r.choice([128, 160]), r.choice([4, 8, 16])
        self.draw_images([32, 48], [4, 8])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.2
        self.choose()

    def freeze(self):
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(".down.weight" in name or ".up.weight" in name)

    def build(self):
        with torch.device(DEVICE):
            self.model = Styled(self)
        self.freeze()
        self.finish(self.model)
        self.text = torch.zeros(1, 77, dtype=torch.long, device=DEVICE)

    def noised(self, batch):
        clean, t = batch[0], torch.rand(len(batch[0]), device=DEVICE).to(batch[0].dtype)
        noise, strong = torch.randn_like(clean), (t * 1.57).sin()[:, None, None, None]
        return (1 - strong ** 2).sqrt() * clean + strong * noise, t, noise

    def told(self, x, t):
        with self.autocast():
            return self.model(x, t, self.text.expand(len(x), -1))

    def predict(self, batch):
        return self.told(*self.noised(batch)[:2])

    def loss(self, batch):
        x, t, noise = self.noised(batch)
        return F.mse_loss(self.told(x, t).float(), noise.float())


class Stream(nn.Module):
    """What words, or pieces of a picture, have of their own in a layer of both."""

    def __init__(self, w):
        super().__init__()
        self.change, self.qkv, self.back = nn.Linear(w, 6 * w), nn.Linear(w, 3 * w), nn.Linear(w, w)
        self.mlp = nn.Sequential(nn.Linear(w, 4 * w), nn.GELU("tanh"), nn.Linear(4 * w, w))

    def before(self, x, t):
        parts = self.change(F.silu(t)).unsqueeze(1).chunk(6, dim=-1)
        y = F.layer_norm(x, x.shape[-1:]) * (1 + parts[0]) + parts[1]
        return self.qkv(y).unflatten(-1, (3, 8, -1)).permute(2, 0, 3, 1, 4), parts

    def after(self, x, y, parts):
        x = x + parts[2] * self.back(y)
        return x + parts[5] * self.mlp(F.layer_norm(x, x.shape[-1:]) * (1 + parts[3]) + parts[4])


class Joint(nn.Module):
    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.picture, self.text = mode, Stream(w), Stream(w)

    def forward(self, x, words, t):
        (a, pa), (b, pb) = self.picture.before(x, t), self.text.before(words, t)
        q, k, v = torch.cat([b, a], dim=3).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v) if self.mode == "sdpa" else (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v
        y = y.transpose(1, 2).flatten(2).split([words.shape[1], x.shape[1]], dim=1)
        return self.picture.after(x, y[1], pa), self.text.after(words, y[0], pb)


class OneRow(nn.Module):
    def __init__(self, o):
        super().__init__()
        w, self.again = o.width, o.checkpointing
        self.pieces, self.place = nn.Conv2d(4, w, 2, 2), nn.Parameter(torch.zeros(1, (o.pixels // 2) ** 2, w))
        self.words, self.time = nn.Embedding(16000, w), nn.Sequential(nn.Linear(256, w), nn.SiLU(), nn.Linear(w, w))
        self.layers, self.out = nn.ModuleList(Joint(w, o.attention) for _ in range(o.layers)), nn.Linear(w, 16)

    def forward(self, x, t, text):
        waves = t[:, None].float() * torch.arange(1, 129, device=t.device)
        side, t = x.shape[-1], self.time(torch.cat([waves.cos(), waves.sin()], dim=1).to(x.dtype))
        x, words = self.pieces(x).flatten(2).transpose(1, 2) + self.place, self.words(text)
        for layer in self.layers:
            x, words = maybe_again(self.again, layer, x, words, t)
        return F.fold(self.out(x).transpose(1, 2), side, 2, stride=2)


@job("text_and_picture_in_one_row", "pictures and text in one row", "loop", "images", "layers", "attention", "checkpointing", "eval")
class TextAndPictureInOneRow(ImageLoop):
    """From noise to a picture on a straight line: words and pieces of the picture look at each other in every layer. A slow copy of the weights is kept."""
    kinds = "adamw", "adamw_fused", "adafactor"
    channels = 4

    def draw(self):
        r = self.rng
        self.layers, self.width, self.tokens = r.choice([3, 4, 6]), r.choice([384, 512]), r.choice([77, 128])
        self.draw_images([32, 64], [8, 16])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(OneRow(self))
        self.slow = [p.detach().clone() for p in self.model.parameters()]
        self.text = torch.zeros(1, self.tokens, dtype=torch.long, device=DEVICE)

    def optimize(self):
        super().optimize()
        with torch.no_grad():
            for slow, p in zip(self.slow, self.model.parameters()):
                slow.lerp_(p, 1e-3)

    def straight(self, clean, noise, t):
        with self.autocast():
            return self.model(torch.lerp(clean, noise, t[:, None, None, None]), t, self.text.expand(len(clean), -1))

    def predict(self, batch):
        return self.straight(batch[0], torch.randn_like(batch[0]), torch.rand(len(batch[0]), device=DEVICE).to(batch[0].dtype))

    def loss(self, batch):
        noise, t = torch.randn_like(batch[0]), torch.randn(len(batch[0]), device=DEVICE).sigmoid().to(batch[0].dtype)
        return F.mse_loss(self.straight(batch[0], noise, t).float(), (noise - batch[0]).float())


def deep(into, width, layers, out):
    widths = [into] + [width] * layers
    return nn.Sequential(*[m for a, b in zip(widths, widths[1:]) for m in (nn.Linear(a, b), nn.LayerNorm(b), nn.Mish())], nn.Linear(width, out))


class Decisions(nn.Module):
    """A rule, what a state is worth, and twice what a decision in it is worth."""

    def __init__(self, o):
        super().__init__()
        self.rule, self.state = deep(o.seen, o.width, o.layers, 8), deep(o.seen, o.width, o.layers, 1)
        self.both = values(o)

    def forward(self, seen):
        return self.rule(seen)


def values(o):
    return nn.ModuleList(deep(o.seen + 8, o.width, o.layers, 1) for _ in range(2))


@job("log_of_decisions", "a log of decisions", "loop", "layers", "reference", "eval", "dataset")
class LogOfDecisions(Loop):
    """What was decided in the past, and what came of it: two values of each decision, one of each state, and a rule that follows the better decisions."""
    kinds = "adam", "adamw", "adamw_fused"
    precisions, accumulated = ("fp32", "fp32", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.seen, self.size = r.choice([3, 4, 6]), r.choice([1024, 1536]), r.choice([64, 128]), r.choice([8192, 16384])
        self.expect = r.choice([0.7, 0.9])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Decisions(self))
            self.reference = values(self).to(self.dtype).requires_grad_(False)
        self.dataset = torch.zeros(32768, self.seen), torch.zeros(32768, 8), torch.zeros(32768, 1)

    def batch(self, i):
        return [part.to(self.dtype) for part in cut(self.dataset, i, self.size)]

    def reference_outputs(self, batch):
        with self.no_grad(), self.autocast():
            given = torch.cat(batch[:2], dim=1)
            return torch.minimum(*[value(given) for value in self.reference])

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        seen, done, gain = batch
        wanted = self.reference_outputs(batch).float()
        with self.autocast():
            state, told = self.model.state(seen).float(), [value(torch.cat([seen, done], dim=1)).float() for value in self.model.both]
            off = wanted - state
            lost = (torch.where(off > 0, self.expect, 1 - self.expect) * off.square()).mean()
            lost = lost + sum(F.mse_loss(value, gain.float() + 0.99 * state.detach()) for value in told)
            return lost + ((3 * off.detach()).exp().clamp(max=100) * (self.predict(batch).float() - done.float()).square()).mean()

    def optimize(self):
        super().optimize()
        with torch.no_grad():
            for slow, p in zip(self.reference.parameters(), self.model.both.parameters()):
                slow.lerp_(p, 0.005)

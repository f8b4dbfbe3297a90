"""Jobs of pictures: anchors at all scales, pictures that nobody has drawn on, flowers with Accelerate, clothes on people, lumps in a lung,
galaxies with Lightning."""
import copy

import diffusers
import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.checkpoint import checkpoint

from core import DEVICE, Job, job
from jobs_images import EncoderBlock, ImageLoop
from parts import Loop, cut


def conv(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.SiLU())


class Basic(nn.Module):
    """Two convolutions beside what comes in."""

    def __init__(self, w):
        super().__init__()
        self.one, self.two, self.norm = conv(w, w), nn.Conv2d(w, w, 3, padding=1, bias=False), nn.BatchNorm2d(w)

    def forward(self, x):
        return F.silu(x + self.norm(self.two(self.one(x))))


class Stages(nn.Module):
    """What is seen at four scales, each half as fine as the one before."""

    def __init__(self, base, depth):
        super().__init__()
        self.stem = conv(3, base, 2)
        self.stages = nn.ModuleList(nn.Sequential(conv(base << k, base << k + 1, 2), *(Basic(base << k + 1) for _ in range(depth))) for k in range(4))

    def forward(self, pictures):
        x, seen = self.stem(pictures), []
        for stage in self.stages:
            x = stage(x)
            seen.append(x)
        return seen


class Pyramid(nn.Module):
    """What is seen from afar is added to what is seen close up; on each scale the same two towers tell what is there, and where."""
    per_place = 6

    def __init__(self, o):
        super().__init__()
        w, self.kinds = o.width, o.things
        self.eye = Stages(o.base, o.layers)
        self.sides = nn.ModuleList(nn.Conv2d(o.base << k + 1, w, 1) for k in range(1, 4))
        self.smooth = nn.ModuleList(nn.Conv2d(w, w, 3, padding=1) for _ in range(3))
        self.what, self.where = (nn.Sequential(*(m for _ in range(o.towers) for m in (nn.Conv2d(w, w, 3, padding=1), nn.GroupNorm(8, w), nn.ReLU())),
                                               nn.Conv2d(w, self.per_place * n, 3, padding=1)) for n in (o.things, 4))

    def scales(self, pictures):
        sides = [side(x) for side, x in zip(self.sides, self.eye(pictures)[1:])]
        for k in (1, 0):
            sides[k] = sides[k] + F.interpolate(sides[k + 1], size=sides[k].shape[-2:], mode="nearest")
        return [smooth(x) for smooth, x in zip(self.smooth, sides)]

    @staticmethod
    def in_a_row(told, n):
        return told.permute(0, 2, 3, 1).reshape(len(told), -1, n)

    def forward(self, pictures):
        scales = self.scales(pictures)
        what = torch.cat([self.in_a_row(self.what(x), self.kinds) for x in scales], dim=1)
        return what, torch.cat([self.in_a_row(self.where(x), 4) for x in scales], dim=1)


def anchors_of(pixels, device):
    """The boxes that are asked about: at each place of each scale some sizes and shapes."""
    rows = []
    for stride in (8, 16, 32):
        middle = (torch.arange(-(-pixels // stride), device=device) + 0.5) * stride
        y, x = torch.meshgrid(middle, middle, indexing="ij")
        sizes = torch.tensor([(stride * s * a, stride * s / a) for s in (3.0, 4.5) for a in (0.7, 1.0, 1.4)], device=device)
        places = torch.stack([x, y], dim=-1).reshape(-1, 1, 2).expand(-1, len(sizes), -1)
        rows.append(torch.cat([places - sizes / 2, places + sizes / 2], dim=-1).reshape(-1, 4))
    return torch.cat(rows)


def overlaps(boxes, anchors):
    """The share that each box and each anchor have in common: (rows, boxes, anchors)."""
    a, b = boxes.unsqueeze(2), anchors.view(1, 1, -1, 4)
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    both = (high - low).clamp(min=0).prod(-1)
    return both / ((a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1) - both).clamp(min=1)


@job("anchors_at_all_scales", "anchors at all scales", "loop", "images", "layers", "eval")
class AnchorsAtAllScales(ImageLoop):
    """Things of all sizes: thousands of boxes are asked about, most of which hold nothing, so that what is easy counts little."""
    kinds, precisions, accumulated, drawn = ("sgd_momentum", "adamw", "adam"), ("fp32", "autocast", "autocast"), (1, 1, 2), 12

    def draw(self):
        r = self.rng
        self.layers, self.base, self.width = r.choice([1, 2, 3]), r.choice([32, 40]), r.choice([128, 160])
        self.things, self.towers = r.choice([20, 40, 80]), r.choice([2, 3, 4])
        self.draw_images([256, 320, 384], [6, 8, 12])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Pyramid(self))

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])[0]

    @torch.no_grad()
    def matched(self, rows, side):
        """For each anchor the box that it fits best, whether it is good enough, and whether it is bad enough to be nothing."""
        boxes = torch.zeros(rows, self.drawn, 4, device=DEVICE)
        boxes[..., 2:] = side / 4
        anchors = anchors_of(side, DEVICE)
        best, which = overlaps(boxes, anchors).max(1)
        which = which.clamp(0, self.drawn - 1)
        shifts = boxes.gather(1, which.unsqueeze(-1).expand(-1, -1, 4)) - anchors
        return shifts / (anchors[:, 2:] - anchors[:, :2]).repeat(1, 2), (best > 0.5).float(), (best < 0.4).float()

    def loss(self, batch):
        with self.autocast():
            what, where = self.model(batch[0])
        shifts, good, bad = self.matched(len(what), batch[0].shape[-1])
        wanted = F.pad(good.unsqueeze(-1), (0, self.things - 1))
        what = what.float()
        each = F.binary_cross_entropy_with_logits(what, wanted, reduction="none")
        hard = (what.sigmoid() - wanted).abs().square()
        told = (hard * each).sum(-1) * (good + bad)
        off = F.smooth_l1_loss(where.float(), shifts, reduction="none", beta=0.1).sum(-1) * good
        return (told.sum() + off.sum()) / good.sum().clamp(min=1)


class Painter(nn.Module):
    """A map of kinds: down three times, up three times, and at the bottom convolutions with holes of several sizes."""

    def __init__(self, o):
        super().__init__()
        b, self.recompute = o.base, o.checkpointing
        self.down = nn.ModuleList(nn.Sequential(conv(3 if k == 0 else b << k - 1, b << k), *(Basic(b << k) for _ in range(o.layers))) for k in range(4))
        deep = b << 3
        self.holes = nn.ModuleList(nn.Conv2d(deep, deep // 4, 3, padding=h, dilation=h) for h in (1, 2, 4, 6))
        self.up = nn.ModuleList(conv((b << k + 1) + (b << k), b << k) for k in (2, 1, 0))
        self.drop, self.kinds = nn.Dropout2d(0.1), nn.Conv2d(b, o.classes, 1)

    def through(self, part, x):
        return checkpoint(part, x, use_reentrant=False) if self.recompute and self.training else part(x)

    def forward(self, pictures):
        x, seen = pictures, []
        for k, part in enumerate(self.down):
            x = self.through(part, F.max_pool2d(x, 2) if k else x)
            seen.append(x)
        seen.pop()
        x = F.silu(torch.cat([hole(x) for hole in self.holes], dim=1))
        for part in self.up:
            x = self.through(part, torch.cat([F.interpolate(x, scale_factor=2.0, mode="bilinear"), seen.pop()], dim=1))
        return self.kinds(self.drop(x))


@job("pictures_nobody_has_drawn_on", "pictures that nobody has drawn on", "loop", "images", "layers", "checkpointing", "eval", "reference")
class PicturesNobodyHasDrawnOn(ImageLoop):
    """Few pictures have a map of kinds, and many have none: there, a slow average of the model tells what should come out of a disturbed picture."""
    kinds, precisions, accumulated, classes, slow = ("sgd_momentum", "adamw", "adam"), ("fp32", "autocast", "autocast"), (1, 1, 2), 12, 0.99

    def draw(self):
        r = self.rng
        self.layers, self.base = r.choice([1, 2]), r.choice([24, 32])
        self.draw_images([192, 224, 256], [6, 8, 12])
        self.checkpointing = r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Painter(self))
        self.reference = copy.deepcopy(self.model).requires_grad_(False).eval()

    def reference_outputs(self, pictures):
        with self.no_grad(), self.autocast():
            return self.reference(pictures)

    def disturbed(self, pictures):
        pictures = pictures + 0.05 * torch.randn_like(pictures)
        pictures[..., 32:96, 32:96] = 0.5
        return pictures

    def loss(self, batch):
        pictures = batch[0]
        drawn = max(1, len(pictures) // 3)
        with self.autocast():
            told = self.model(torch.cat([pictures[:drawn], self.disturbed(pictures[drawn:])])).float()
        kinds = torch.zeros(drawn, *told.shape[-2:], dtype=torch.long, device=DEVICE)
        lost = F.cross_entropy(told[:drawn], kinds)
        if drawn == len(pictures):
            return lost
        sure, wanted = self.reference_outputs(pictures[drawn:]).float().softmax(1).max(1)
        each = F.cross_entropy(told[drawn:], wanted.clamp(0, self.classes - 1), reduction="none")
        return lost + (each * (sure > 0.9)).mean()

    def optimize(self):
        super().optimize()
        with torch.no_grad():
            for old, new in zip(self.reference.parameters(), self.model.parameters()):
                old.lerp_(new, 1 - self.slow)


@job("flowers_with_accelerate", "flowers with Accelerate", "loop", "images", "layers", "eval")
class FlowersWithAccelerate(ImageLoop):
    """Photographs of flowers out of noise, with diffusers' network and Accelerate's loop; the network tells noise, and steps are drawn for each picture."""
    kinds, precisions, accumulated = ("adamw", "adamw_fused", "adamw_loop"), ("fp32", "autocast", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.base = r.choice([1, 2]), r.choice([64, 96])
        self.draw_images([64, 96, 128], [6, 8, 12])
        self.choose()

    def build(self):
        b = self.base
        with torch.device(DEVICE):
            unet = diffusers.UNet2DModel(
                sample_size=self.pixels, in_channels=3, out_channels=3, layers_per_block=self.layers, block_out_channels=(b, b, 2 * b, 2 * b),
                down_block_types=("DownBlock2D", "DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
                up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D", "UpBlock2D"))
            self.kept = torch.linspace(0.9999, 0.98, 1000).cumprod(0)
        self.accelerator = Accelerator(mixed_precision="bf16" if self.precision == "autocast" else "no")
        self.finish(unet)
        self.model, *self.optimizers = self.accelerator.prepare(self.model, *self.optimizers)

    def noised(self, pictures):
        when = torch.randint(0, 1000, (len(pictures),)).to(DEVICE)
        share, noise = self.kept[when].view(-1, 1, 1, 1), torch.randn_like(pictures)
        return share.sqrt() * (2 * pictures - 1) + (1 - share).sqrt() * noise, when, noise

    def predict(self, batch):
        noisy, when, _ = self.noised(batch[0])
        return self.model(noisy, when).sample

    def loss(self, batch):
        noisy, when, noise = self.noised(batch[0])
        return F.mse_loss(self.model(noisy, when, return_dict=False)[0].float(), noise.float())

    def backward(self, loss):
        self.accelerator.backward(loss)

    def optimize(self):
        if self.clip:
            self.accelerator.clip_grad_norm_(self.model.parameters(), self.clip)
        for optimizer in self.optimizers:
            optimizer.step()


class Beside(nn.Module):
    """Places of a picture look at each other, and at those of a garment."""

    def __init__(self, w, mode):
        super().__init__()
        self.own, self.both, self.time = EncoderBlock(w, 8, mode), EncoderBlock(w, 8, mode), nn.Linear(w, w)

    def forward(self, x, garment, t):
        x = self.own(x + self.time(t).unsqueeze(1))
        return self.both(torch.cat([x, garment], dim=1))[:, :x.shape[1]]


class Dressed(nn.Module):
    """One network reads a garment, layer by layer; the other one takes noise off a person and looks at what the first has read."""

    def __init__(self, o):
        super().__init__()
        w, self.patch, self.recompute = o.width, 2, o.checkpointing
        self.garment_in, self.person_in = nn.Conv2d(4, w, 2, 2), nn.Conv2d(9, w, 2, 2)
        self.places = nn.Parameter(torch.zeros((o.side // 2) ** 2, w))
        self.garment = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers))
        self.person = nn.ModuleList(Beside(w, o.attention) for _ in range(o.layers))
        self.when, self.out = nn.Sequential(nn.Linear(1, w), nn.SiLU(), nn.Linear(w, w)), nn.Linear(w, 16)

    def run(self, block, *given):
        return checkpoint(block, *given, use_reentrant=False) if self.recompute and self.training else block(*given)

    def forward(self, noisy, masked, mask, garment, t):
        g = self.garment_in(garment).flatten(2).transpose(1, 2) + self.places
        x = self.person_in(torch.cat([noisy, masked, mask], dim=1)).flatten(2).transpose(1, 2) + self.places
        t = self.when(t.unsqueeze(1).to(noisy.dtype))
        for reads, paints in zip(self.garment, self.person):
            g = self.run(reads, g)
            x = self.run(paints, x, g, t)
        return F.pixel_shuffle(self.out(x).transpose(1, 2).unflatten(2, (noisy.shape[-1] // 2, -1)), 2)


@job("clothes_on_people", "clothes on people", "loop", "layers", "attention", "checkpointing", "eval", "dataset")
class ClothesOnPeople(Loop):
    """How somebody would look in a garment: latents of the person without what he wears, of the garment, and of both together."""
    kinds, precisions, accumulated = ("adamw", "adamw_fused", "adamw_loop"), ("fp32", "autocast", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.side = r.choice([2, 3, 4]), r.choice([320, 384, 512]), r.choice([32, 40, 48])
        self.size, self.attention, self.checkpointing = r.choice([4, 6, 8]), "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Dressed(self))
        latents = [torch.zeros(64, n, self.side, self.side) for n in (4, 4, 1, 4)]
        self.dataset = tuple(latents)

    def batch(self, i):
        return [part.to(self.dtype) for part in cut(self.dataset, i, self.size)]

    def noised(self, batch):
        whole, masked, mask, garment = batch
        t, noise = torch.rand(len(whole), device=DEVICE), torch.randn_like(whole)
        share = t.view(-1, 1, 1, 1).to(whole.dtype)
        return (1 - share) * whole + share * noise, masked, mask, garment, t, noise - whole

    def predict(self, batch):
        with self.autocast():
            return self.model(*self.noised(batch)[:-1])

    def loss(self, batch):
        *given, wanted = self.noised(batch)
        with self.autocast():
            told = self.model(*given)
        each = (told.float() - wanted.float()).square()
        return each.mean() + (each * given[2].float()).mean()


class Lung(nn.Module):
    """A cube of a scan: convolutions in space, and at each place some balls that may be a lump."""

    def __init__(self, o):
        super().__init__()
        b, self.recompute = o.base, o.checkpointing
        wide = [b, b, 2 * b, 4 * b]
        self.into = nn.Conv3d(1, b, 3, padding=1)
        self.stages = nn.ModuleList(nn.Sequential(*(self.layer(wide[k] if n == 0 else wide[k + 1], wide[k + 1]) for n in range(o.layers))) for k in range(3))
        self.back = nn.ConvTranspose3d(4 * b, 2 * b, 2, 2)
        self.last, self.balls = self.layer(4 * b, 2 * b), nn.Conv3d(2 * b, 5 * o.balls, 1)

    @staticmethod
    def layer(cin, cout):
        return nn.Sequential(nn.Conv3d(cin, cout, 3, padding=1), nn.GroupNorm(8, cout), nn.ReLU())

    def forward(self, cubes):
        x, seen = self.into(cubes), []
        for k, stage in enumerate(self.stages):
            x = checkpoint(stage, x, use_reentrant=False) if self.recompute and self.training else stage(x)
            seen.append(x)
            x = F.max_pool3d(x, 2) if k < 2 else x
        return self.balls(self.last(torch.cat([self.back(x), seen[1]], dim=1))).unflatten(1, (-1, 5))


@job("lumps_in_a_lung", "lumps in a lung", "loop", "layers", "checkpointing", "eval", "dataset")
class LumpsInALung(Loop):
    """Where lumps are in cubes of a scan: at each place some balls, most of which are nothing; the worst mistakes among these count alone."""
    kinds, precisions, accumulated, balls = ("sgd_momentum", "adamw", "adam"), ("fp32", "autocast", "autocast"), (1, 1, 2), 3

    def draw(self):
        r = self.rng
        self.layers, self.base, self.side = r.choice([1, 2, 3]), r.choice([16, 24]), r.choice([64, 80, 96])
        self.size, self.checkpointing = r.choice([3, 4, 6]), r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Lung(self))
        self.dataset = torch.zeros(24, 1, self.side, self.side, self.side, dtype=torch.int16), torch.zeros(24, 4)

    def batch(self, i):
        cubes, lumps = cut(self.dataset, i, self.size)
        return cubes.to(self.dtype).div_(1000), lumps

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        told = self.predict(batch).float()
        score, ball = told[:, :, 0].flatten(1), told[:, :, 1:].transpose(1, 2).flatten(2)
        hard = score.topk(min(64, score.shape[1]), dim=1).values
        nothing = F.softplus(hard).mean()
        place = score.argmax(1).clamp(0, score.shape[1] - 1)
        at = ball.gather(2, place.view(-1, 1, 1).expand(-1, 4, 1)).squeeze(-1)
        found = F.softplus(-score.gather(1, place.unsqueeze(1))).mean()
        return nothing + found + F.smooth_l1_loss(at, batch[1])


class Turned(nn.Module):
    """A picture in four directions through the same layers; what they tell is put together."""

    def __init__(self, own):
        super().__init__()
        b = own.base
        blocks = []
        for k in range(4):
            blocks += [conv(3 if k == 0 else b << k - 1, b << k, 2), *(Basic(b << k) for _ in range(own.layers))]
        self.blocks = nn.Sequential(*blocks)
        self.votes = nn.Sequential(nn.Linear(4 * (b << 3), 512), nn.ReLU(), nn.Dropout(0.5), nn.Linear(512, own.answers))

    def forward(self, pictures):
        turned = torch.cat([pictures.rot90(k, (2, 3)) for k in range(4)])
        seen = self.blocks(turned).mean((2, 3)).unflatten(0, (4, -1))
        return self.votes(seen.transpose(0, 1).flatten(1)).sigmoid()


class Galaxies(lightning.LightningModule):
    """What Lightning calls in each step."""

    def __init__(self, own):
        super().__init__()
        self.own, self.net = [own], Turned(own)

    def forward(self, pictures):
        return self.net(pictures)

    def training_step(self, batch, batch_idx):
        return self.own[0].loss(batch)

    def validation_step(self, batch, batch_idx):
        off = F.mse_loss(self(batch[0]).float(), batch[1])
        self.log("off", off.sqrt(), on_epoch=True, prog_bar=False)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=4e-4, fused=self.own[0].fused)


class Sky(torch.utils.data.Dataset):
    """Photographs of galaxies, and the shares of people who gave each answer."""

    def __init__(self, rows, side, answers):
        self.rows, self.row = rows, (torch.zeros(3, side, side), torch.zeros(answers))

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


@job("galaxies_with_lightning", "galaxies with Lightning", "lightning", "forward", "layers", "states")
class GalaxiesWithLightning(Job):
    """What people said about a galaxy's form, as shares; the picture is turned, since a galaxy has no upper side."""
    answers = 37

    def draw(self):
        r = self.rng
        self.layers, self.base, self.fused = r.choice([1, 2, 3]), r.choice([32, 48]), r.random() < 0.3
        self.side, self.size, self.steps, self.callbacks = r.choice([128, 160, 192]), r.choice([8, 12, 16]), r.choice([4, 5, 6]), []
        self.trainer_arguments = {"precision": r.choice(["32-true", "bf16-mixed"]), "accumulate_grad_batches": r.choice([1, 1, 2]),
                                  "gradient_clip_val": None if self.fused else r.choice([None, 1.0])}

    def build(self):
        self.module = Galaxies(self)
        self.model = self.module.net
        self.loaders = [torch.utils.data.DataLoader(Sky(n * self.size, self.side, self.answers), batch_size=self.size) for n in (32, 2)]
        quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
        self.trainer = lightning.Trainer(**{"max_steps": self.steps, "accelerator": "gpu", "devices": 1, "val_check_interval": 2, "num_sanity_val_steps": 0,
                                            "callbacks": self.callbacks, **quiet, **self.trainer_arguments})

    def loss(self, batch):
        pictures, shares = batch
        told = self.module(pictures).float()
        whole = told / told.sum(1, keepdim=True).clamp(min=1e-6)
        return F.mse_loss(told, shares) + 0.1 * F.mse_loss(whole, shares)

    def train(self):
        self.trainer.fit(self.module, *self.loaders)

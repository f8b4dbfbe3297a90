"""Jobs of pictures: boxes of a grid, things and their outlines, faces, organs by windows, pictures by sketches, pictures of one thing,
pictures without rain."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DConditionModel
from diffusers.models.attention_processor import AttnProcessor
from peft import LoraConfig
from torch.utils.checkpoint import checkpoint

from core import DEVICE, job
from jobs_images import ImageLoop
from parts import Loop, cut, strided_convolutions


def seen(a, b, stride=1, size=3):
    return nn.Sequential(nn.Conv2d(a, b, size, stride, size // 2, bias=False), nn.BatchNorm2d(b), nn.SiLU(True))


class Split(nn.Module):
    """Half of the channels pass through small layers, and what each of them gives is put side by side."""

    def __init__(self, width, layers):
        super().__init__()
        half = width // 2
        self.begin, self.end = seen(width, width, size=1), seen((2 + layers) * half, width, size=1)
        self.small = nn.ModuleList(nn.Sequential(seen(half, half), seen(half, half)) for _ in range(layers))

    def forward(self, x):
        parts = list(self.begin(x).chunk(2, dim=1))
        for small in self.small:
            parts.append(small(parts[-1]) + parts[-1])
        return self.end(torch.cat(parts, dim=1))


class Grid(nn.Module):
    """Maps of three sizes, each told of the coarser one, and at each place classes and the distances to the sides of a box."""

    def __init__(self, o):
        super().__init__()
        widths = [o.width << k for k in range(4)]
        self.stem = seen(3, o.width, 2)
        self.down = nn.ModuleList(nn.Sequential(seen(a, b, 2), Split(b, o.layers)) for a, b in zip([o.width, *widths], widths))
        self.same = nn.ModuleList(seen(w, o.width, size=1) for w in widths[1:])
        self.classes = nn.ModuleList(nn.Sequential(seen(o.width, o.width), nn.Conv2d(o.width, o.classes, 1)) for _ in range(3))
        self.sides = nn.ModuleList(nn.Sequential(seen(o.width, 64), nn.Conv2d(64, 4 * o.bins, 1)) for _ in range(3))

    def forward(self, images):
        x, maps = self.stem(images), []
        for part in self.down:
            x = part(x)
            maps.append(x)
        maps = [same(m) for same, m in zip(self.same, maps[1:])]
        for k in (1, 0):
            maps[k] = maps[k] + F.interpolate(maps[k + 1], size=maps[k].shape[2:])
        both = [torch.cat([c(m), s(m)], dim=1).flatten(2) for c, s, m in zip(self.classes, self.sides, maps)]
        return torch.cat(both, dim=2)


@job("boxes_of_a_grid", "boxes of a grid", "loop", "images", "layers", "eval")
class BoxesOfAGrid(ImageLoop):
    """What is where, in one pass: classes at each place, and sides as distributions over some distances."""
    kinds = "sgd_momentum", "adamw", "adam"
    precisions = "fp32", "autocast", "autocast"
    classes, bins = 80, 16

    def draw(self):
        self.layers, self.width = self.rng.choice([1, 2, 3]), self.rng.choice([32, 48, 64])
        self.draw_images([256, 320, 416], [8, 12, 16])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Grid(self))

    def loss(self, batch):
        told = self.predict(batch).float()
        classes, sides = told.split([self.classes, 4 * self.bins], dim=1)
        near = torch.arange(0, told.shape[2], 17, device=DEVICE)
        right = sides.index_select(2, near).unflatten(1, (4, self.bins)).transpose(1, 2)
        wanted = torch.zeros(len(told), 4, len(near), dtype=torch.long, device=DEVICE)
        return F.binary_cross_entropy_with_logits(classes, torch.zeros_like(classes)) + 0.3 * F.cross_entropy(right, wanted)


class Outlines(nn.Module):
    """A pyramid of maps; of each region that is offered, a class, a box, and which of its pixels belong to the thing."""
    regions = 48

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.stages = nn.ModuleList(nn.Sequential(seen(w << max(0, k - 1) if k else 3, w << k, 4 if not k else 2, 5),
                                                  *(seen(w << k, w << k) for _ in range(o.layers))) for k in range(4))
        self.same, self.smooth = nn.ModuleList(nn.Conv2d(w << k, 128, 1) for k in range(4)), nn.Conv2d(128, 128, 3, padding=1)
        self.offer = nn.Sequential(nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(True), nn.Conv2d(128, 15, 1))
        self.box = nn.Sequential(nn.Flatten(), nn.Linear(128 * 49, 512), nn.ReLU(True), nn.Linear(512, o.classes + 4))
        self.mask = nn.Sequential(*(m for _ in range(3) for m in (nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(True))), nn.ConvTranspose2d(128, 128, 2, 2),
                                  nn.ReLU(True), nn.Conv2d(128, o.classes, 1))

    def pyramid(self, images):
        x, maps = images, []
        for stage, same in zip(self.stages, self.same):
            x = stage(x)
            maps.append(same(x))
        for k in (2, 1, 0):
            maps[k] = maps[k] + F.interpolate(maps[k + 1], size=maps[k].shape[2:])
        return self.smooth(maps[0]), maps

    def cut_out(self, fine, side):
        """Regions of a fixed layout, each as a map of one size."""
        n, steps = len(fine), torch.linspace(-0.2, 0.2, side, device=fine.device)
        centre = torch.linspace(-0.8, 0.8, self.regions, device=fine.device)
        x, y = centre[:, None, None] + steps[None, None, :], centre.flip(0)[:, None, None] + steps[None, :, None]
        places = torch.stack(torch.broadcast_tensors(x, y), dim=-1).flatten(0, 1).expand(n, -1, -1, -1)
        return F.grid_sample(fine, places.to(fine.dtype), align_corners=False).unflatten(2, (self.regions, side)).transpose(1, 2).flatten(0, 1)

    def forward(self, images):
        fine, maps = self.pyramid(images)
        return self.box(self.cut_out(fine, 7)), self.mask(self.cut_out(fine, 14)), [self.offer(m) for m in maps]


@job("outlines", "things and their outlines", "loop", "images", "layers", "eval")
class ThingsAndOutlines(ImageLoop):
    """Each thing of a picture, with a mask of its own."""
    kinds = "sgd_momentum", "adamw"
    precisions = "fp32", "autocast"
    accumulated, classes = (1, 1, 2), 80

    def draw(self):
        self.layers, self.width = self.rng.choice([2, 3, 4]), self.rng.choice([48, 64])
        self.draw_images([320, 448], [4, 6, 8])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Outlines(self))

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])[1]

    def loss(self, batch):
        with self.autocast():
            boxes, masks, offers = self.model(batch[0])
        kinds = torch.zeros(len(boxes), dtype=torch.long, device=DEVICE)
        mine = masks[:, 1].float()
        rough = sum(F.softplus(o[:, :3].float()).mean() + o[:, 3:].float().abs().mean() for o in offers)
        inside = F.binary_cross_entropy_with_logits(mine, torch.zeros_like(mine))
        return F.cross_entropy(boxes[:, :-4].float(), kinds) + boxes[:, -4:].float().abs().mean() + inside + rough


class Person(nn.Module):
    """A backbone, a vector of a face, and a direction for each person."""

    def __init__(self, o):
        super().__init__()
        self.backbone, wide = strided_convolutions(o.base)
        side = o.pixels // 16
        self.vector = nn.Sequential(nn.BatchNorm2d(wide), nn.Dropout(0.4), nn.Flatten(), nn.Linear(wide * side * side, o.each), nn.BatchNorm1d(o.each))
        self.people = nn.Parameter(torch.zeros(o.people, o.each))

    def forward(self, faces):
        return F.normalize(self.vector(self.backbone(faces)))


@job("faces", "faces", "loop", "images", "eval")
class Faces(ImageLoop):
    """Whose face it is, of very many people: the right angle has to be smaller by a margin."""
    kinds = "sgd_momentum", "sgd_momentum", "adamw"
    precisions = "fp32", "autocast"
    margin, scale = 0.5, 64.0

    def draw(self):
        r = self.rng
        self.base, self.each, self.people = r.choice([48, 64, 96]), r.choice([256, 512]), r.choice([20000, 40000, 80000])
        self.draw_images([112, 128], [64, 96, 128])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Person(self))

    def loss(self, batch):
        faces, who = batch
        near = F.linear(self.predict((faces,)).float(), F.normalize(self.model.people.float()))
        right = near.gather(1, who[:, None]).clamp(-0.999, 0.999)
        harder = torch.cos(torch.acos(right) + self.margin)
        return F.cross_entropy(self.scale * near.scatter(1, who[:, None], harder), who)


class Window3d(nn.Module):
    """Attention within blocks of a volume, which are moved by half in every second layer."""
    side = 8

    def __init__(self, width, mode, moved):
        super().__init__()
        self.mode, self.by, self.heads = mode, self.side // 2 if moved else 0, max(2, width // 32)
        self.norm1, self.norm2, self.qkv, self.proj = nn.LayerNorm(width), nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def within(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v) if self.mode == "sdpa" else (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v
        return self.proj(y.transpose(1, 2).flatten(2))

    def forward(self, x):
        n, d, h, w, c = x.shape
        s, y = self.side, self.norm1(x)
        y = y.roll((-self.by,) * 3, (1, 2, 3)) if self.by else y
        y = y.view(n, d // s, s, h // s, s, w // s, s, c).permute(0, 1, 3, 5, 2, 4, 6, 7)
        y = self.within(y.reshape(-1, s ** 3, c)).view(n, d // s, h // s, w // s, s, s, s, c).permute(0, 1, 4, 2, 5, 3, 6, 7).reshape(n, d, h, w, c)
        x = x + (y.roll((self.by,) * 3, (1, 2, 3)) if self.by else y)
        return x + self.mlp(self.norm2(x))


class Organs(nn.Module):
    def __init__(self, o):
        super().__init__()
        w, self.remake = o.width, o.checkpointing
        self.into, self.stages = nn.Conv3d(1, w, 2, 2), nn.ModuleList()
        self.less, self.more, self.join = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for k in range(2):
            self.stages.append(nn.ModuleList(Window3d(w << k, o.attention, n % 2) for n in range(o.layers)))
            self.less.append(nn.Conv3d(w << k, w << k + 1, 2, 2))
            self.more.append(nn.ConvTranspose3d(w << k + 1, w << k, 2, 2))
            self.join.append(nn.Sequential(nn.Conv3d(2 * (w << k), w << k, 3, padding=1), nn.InstanceNorm3d(w << k), nn.LeakyReLU(0.01, True)))
        self.out = nn.ConvTranspose3d(w, o.organs, 2, 2)

    def forward(self, scan):
        x, kept = self.into(scan), []
        for stage, less in zip(self.stages, self.less):
            x = x.permute(0, 2, 3, 4, 1).contiguous()
            for block in stage:
                x = checkpoint(block, x, use_reentrant=False) if self.remake and self.training else block(x)
            x = x.permute(0, 4, 1, 2, 3)
            kept.append(x)
            x = less(x)
        for more, join in zip(reversed(self.more), reversed(self.join)):
            x = join(torch.cat([more(x), kept.pop()], dim=1))
        return self.out(x)


@job("organs_by_windows", "organs by windows", "loop", "layers", "attention", "checkpointing", "eval", "dataset", "scene")
class OrgansByWindows(Loop):
    """Which organ each place of a scan belongs to: blocks of a scan for training, and a whole one, block by block, to look at."""
    kinds = "adamw", "adamw_loop", "sgd_momentum"
    precisions = "fp32", "autocast", "autocast"
    accumulated = 1, 1, 2

    def draw(self):
        r = self.rng
        self.layers, self.width, self.organs, self.side = r.choice([2, 3]), r.choice([48, 64]), r.choice([9, 14]), 64
        self.size, self.attention, self.checkpointing = r.choice([3, 4, 6]), "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Organs(self))
        self.dataset = torch.zeros(16, 1, self.side, self.side, self.side), torch.zeros(16, self.side, self.side, self.side, dtype=torch.uint8)

    def batch(self, i):
        scans, organs = cut(self.dataset, i, self.size)
        return scans.to(self.dtype), organs

    def scene(self, i):
        """A scan of a whole body, block by block."""
        for k in range(12):
            yield self.batch(i + k)[0]

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        scores, organs = self.predict(batch).float(), batch[1].long()
        shares = scores.softmax(1)
        right = shares.gather(1, organs.unsqueeze(1)).mean()
        return F.cross_entropy(scores, organs) + 1 - 2 * right / (shares.square().mean() + 1)


class Piece(nn.Module):
    """A block that knows how much noise there is."""

    def __init__(self, a, b):
        super().__init__()
        self.first, self.second = (nn.Sequential(nn.GroupNorm(8, n), nn.SiLU(), nn.Conv2d(n, b, 3, padding=1)) for n in (a, b))
        self.noise, self.short = nn.Linear(256, 2 * b), nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x, t):
        scale, shift = self.noise(t)[:, :, None, None].chunk(2, dim=1)
        return self.short(x) + self.second(self.first(x) * (1 + scale) + shift)


class Half(nn.Module):
    """The way down, of a network that takes noise away: it is there twice, once with a sketch."""

    def __init__(self, o, sketched=False):
        super().__init__()
        w, self.remake = o.base, o.checkpointing
        self.into, self.level = nn.Conv2d(4, w, 3, padding=1), nn.Sequential(nn.Linear(1, 256), nn.SiLU(), nn.Linear(256, 256))
        self.blocks = nn.ModuleList(Piece(w << max(0, k - 1), w << k) for k in range(o.layers))
        eye = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.SiLU(), nn.Conv2d(16, 64, 3, 2, 1), nn.SiLU(), nn.Conv2d(64, w, 3, 2, 1))
        self.sketch = eye if sketched else None
        self.zeros = nn.ModuleList(nn.Conv2d(w << k, w << k, 1) for k in range(o.layers)) if sketched else None

    def forward(self, x, t, sketch=None):
        x, t, kept = self.into(x), self.level(t), []
        if self.sketch is not None:
            x = x + self.sketch(sketch)
        for k, block in enumerate(self.blocks):
            x = checkpoint(block, x, t, use_reentrant=False) if self.remake and torch.is_grad_enabled() else block(x, t)
            kept.append(x if self.zeros is None else self.zeros[k](x))
            x = F.avg_pool2d(x, 2)
        return x, kept, t


class Sketched(nn.Module):
    def __init__(self, o):
        super().__init__()
        w = o.base
        self.down, self.copy = Half(o), Half(o, True)
        self.middle = Piece(w << o.layers - 1, w << o.layers - 1)
        self.up = nn.ModuleList(Piece(2 * (w << k), w << max(0, k - 1)) for k in range(o.layers - 1, -1, -1))
        self.out = nn.Conv2d(w, 4, 3, padding=1)

    def forward(self, x, t, sketch):
        y, kept, level = self.down(x, t)
        more = self.copy(x, t, sketch)[1]
        y = self.middle(y, level)
        for block, a, b in zip(self.up, reversed(kept), reversed(more)):
            y = block(torch.cat([F.interpolate(y, size=a.shape[2:]), a + b], dim=1), level)
        return self.out(y)


@job("pictures_by_sketches", "pictures by sketches", "loop", "images", "layers", "checkpointing", "eval", "pretrained")
class PicturesBySketches(ImageLoop):
    """A network that takes noise from latents, as it is, and a copy of its first half, which is trained to follow a sketch."""
    kinds = "adamw", "adamw_fused", "adam"

    def draw(self):
        r = self.rng
        self.layers, self.base, self.checkpointing = r.choice([3, 4]), r.choice([128, 160, 192]), r.random() < 0.2
        self.draw_images([384, 512], [8, 12, 16])
        self.choose()

    def freeze(self):
        for name, part in self.model.named_children():
            part.requires_grad_(name == "copy")

    def build(self):
        with torch.device(DEVICE):
            self.model = Sketched(self)
        self.freeze()
        self.finish(self.model)

    def noised(self, batch):
        latents = F.pad(F.avg_pool2d(batch[0], 8), (0, 0, 0, 0, 0, 1))
        noise, t = torch.randn_like(latents), torch.rand(len(latents), 1, device=DEVICE).to(latents.dtype)
        share = t[:, :, None, None]
        return (1 - share) * latents + share * noise, t, noise - latents

    def predict(self, batch):
        noisy, t, _ = self.noised(batch)
        with self.autocast():
            return self.model(noisy, t, batch[0])

    def loss(self, batch):
        noisy, t, wanted = self.noised(batch)
        with self.autocast():
            told = self.model(noisy, t, batch[0])
        return F.mse_loss(told.float(), wanted.float())


@job("pictures_of_one_thing", "pictures of one thing", "loop", "images", "attention", "checkpointing", "eval", "pretrained")
class PicturesOfOneThing(ImageLoop):
    """A few photographs of one thing, and others of its kind, in one batch: adapters in the attention of diffusers' network."""
    kinds = "adamw", "adamw_fused", "adam"
    precisions = "fp32", "fp32", "autocast"
    accumulated = 1, 1, 2

    def draw(self):
        r = self.rng
        self.base, self.rank, self.checkpointing, self.attention = r.choice([160, 192]), r.choice([8, 16, 32]), r.random() < 0.25, "sdpa"
        self.draw_images([64], [6, 8, 12])
        self.channels = 4
        self.choose()

    def freeze(self):
        for name, p in self.model.named_parameters():
            p.requires_grad_("lora" in name)

    def build(self):
        with torch.device(DEVICE):
            self.model = UNet2DConditionModel(sample_size=self.pixels, block_out_channels=(self.base, 2 * self.base, 2 * self.base), layers_per_block=1,
                                              down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"), cross_attention_dim=384,
                                              up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"))
            self.model.add_adapter(LoraConfig(r=self.rank, lora_alpha=self.rank, target_modules=["to_k", "to_q", "to_v", "to_out.0"]))
        if self.attention == "eager":
            self.model.set_attn_processor(AttnProcessor())
        if self.checkpointing:
            self.model.enable_gradient_checkpointing()
        self.freeze()
        self.steps_of_noise, self.words = DDPMScheduler(num_train_timesteps=1000), torch.zeros(1, 77, 384, device=DEVICE, dtype=self.dtype)
        self.finish(self.model)

    def told(self, batch):
        latents = batch[0]
        noise, when = torch.randn_like(latents), torch.zeros(len(latents), dtype=torch.long, device=DEVICE)
        with self.autocast():
            return self.model(self.steps_of_noise.add_noise(latents, noise, when), when, self.words.expand(len(latents), -1, -1)).sample, noise

    def predict(self, batch):
        return self.told(batch)[0]

    def loss(self, batch):
        said, noise = self.told(batch)
        lost, mine = (said.float() - noise.float()).square().mean((1, 2, 3)), max(1, len(batch[0]) // 2)
        return lost[:mine].mean() + lost[mine:].sum() / max(1, len(lost) - mine)


class AcrossChannels(nn.Module):
    """Channels attend to each other, not places."""

    def __init__(self, width):
        super().__init__()
        self.heads, self.warm = 4, nn.Parameter(torch.ones(4, 1, 1))
        self.norm1, self.norm2 = nn.GroupNorm(1, width), nn.GroupNorm(1, width)
        self.qkv = nn.Sequential(nn.Conv2d(width, 3 * width, 1), nn.Conv2d(3 * width, 3 * width, 3, padding=1, groups=3 * width))
        self.out, self.end = nn.Conv2d(width, width, 1), nn.Conv2d(2 * width, width, 1)
        self.begin = nn.Sequential(nn.Conv2d(width, 4 * width, 1), nn.Conv2d(4 * width, 4 * width, 3, padding=1, groups=4 * width))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).flatten(2).unflatten(1, (3, self.heads, -1)).unbind(1)
        near = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * self.warm
        x = x + self.out((near.softmax(-1) @ v).flatten(1, 2).view_as(x))
        gate, value = self.begin(self.norm2(x)).chunk(2, dim=1)
        return x + self.end(F.gelu(gate) * value)


class Clearing(nn.Module):
    def __init__(self, o):
        super().__init__()
        w, self.remake = o.width, o.checkpointing
        self.into, self.out = nn.Conv2d(3, w, 3, padding=1), nn.Conv2d(w, 3, 3, padding=1)
        self.fine, self.coarse, self.again = (nn.ModuleList(AcrossChannels(n) for _ in range(o.layers)) for n in (w, 2 * w, w))
        self.less = nn.Sequential(nn.Conv2d(w, w // 2, 3, padding=1), nn.PixelUnshuffle(2))
        self.more = nn.Sequential(nn.Conv2d(2 * w, 4 * w, 1), nn.PixelShuffle(2))
        self.join = nn.Conv2d(2 * w, w, 1)

    def through(self, blocks, x):
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.remake and torch.is_grad_enabled() else block(x)
        return x

    def forward(self, images):
        fine = self.through(self.fine, self.into(images))
        coarse = self.through(self.coarse, self.less(fine))
        return images + self.out(self.through(self.again, self.join(torch.cat([self.more(coarse), fine], dim=1))))


@job("without_rain", "pictures without rain", "loop", "images", "layers", "checkpointing", "eval")
class WithoutRain(ImageLoop):
    """A picture as it would be without rain, told at its own size; edges count, too."""
    kinds = "adamw", "adam"
    precisions = "fp32", "autocast"
    accumulated = 1, 1, 2

    def draw(self):
        self.layers, self.width, self.checkpointing = self.rng.choice([2, 3]), self.rng.choice([32, 48]), self.rng.random() < 0.2
        self.draw_images([144, 160], [6, 8])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Clearing(self))

    def loss(self, batch):
        clear, wanted = self.predict(batch).float(), batch[0].float()
        edges = [(clear.diff(dim=d) - wanted.diff(dim=d)).square().add(1e-6).sqrt().mean() for d in (2, 3)]
        return (clear - wanted).square().add(1e-6).sqrt().mean() + 0.05 * sum(edges)

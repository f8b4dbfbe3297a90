"""Jobs of pictures: large kernels, masks by prompts, joints of people, slides, few steps of diffusion, pictures that are translated without pairs, vectors
of pictures on request."""
import copy
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection, ConvNextV2Config, ConvNextV2ForImageClassification

from core import DEVICE, job
from jobs_images import EncoderBlock, ImageLoop
from jobs_inference import Inference
from parts import OPTIMIZERS, Loop, strided_convolutions


@job("large_kernels", "large kernels", "loop", "images", "eval", "pretrained")
class LargeKernels(ImageLoop):
    """ConvNeXt of transformers with a new head; its first two stages are as they were trained."""
    kinds = "adamw", "adamw_fused", "sgd_momentum"

    def draw(self):
        self.width = self.rng.choice([64, 96, 128])
        self.draw_images([192, 224, 256], [24, 32, 48])
        self.choose()

    def freeze(self):
        self.model.convnextv2.embeddings.requires_grad_(False)
        self.model.convnextv2.encoder.stages[:2].requires_grad_(False)

    def build(self):
        widths = [self.width << k for k in range(4)]
        with torch.device(DEVICE):
            config = ConvNextV2Config(image_size=self.pixels, hidden_sizes=widths, depths=[2, 2, 4, 2], num_labels=self.classes)
            self.model = ConvNextV2ForImageClassification(config)
        self.freeze()
        self.finish(self.model)

    def predict(self, batch):
        with self.autocast():
            return self.model(pixel_values=batch[0]).logits

    def loss(self, batch):
        return F.cross_entropy(self.predict(batch).float(), batch[1], label_smoothing=0.1)


class MasksOfPoints(nn.Module):
    """What a large encoder sees, and points that ask which thing is meant."""

    def __init__(self, o):
        super().__init__()
        n = (o.pixels // 16) ** 2
        self.patch, self.place = nn.Conv2d(3, o.width, 16, 16), nn.Parameter(torch.zeros(1, n, o.width))
        self.encoder = nn.ModuleList(EncoderBlock(o.width, 8, o.attention) for _ in range(o.layers))
        self.neck, self.point, self.asked = nn.Linear(o.width, 256), nn.Linear(2, 256), nn.Parameter(torch.zeros(3, 256))
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(256, 8, 1024, batch_first=True) for _ in range(2))
        self.larger = nn.Sequential(nn.ConvTranspose2d(256, 64, 2, 2), nn.GELU(), nn.ConvTranspose2d(64, 32, 2, 2), nn.GELU())
        self.mask = nn.Linear(256, 32)

    def seen(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2) + self.place
        for block in self.encoder:
            x = block(x)
        return self.neck(x)

    def forward(self, images, points=None):
        seen = self.seen(images)
        points = images.new_zeros(len(images), 4, 2) if points is None else points
        asked = torch.cat([self.asked.expand(len(images), -1, -1), self.point(points)], dim=1)
        for layer in self.decoder:
            asked = layer(asked, seen)
        side = int(seen.shape[1] ** 0.5)
        maps = self.larger(seen.transpose(1, 2).unflatten(2, (side, side)))
        return torch.einsum("bkc,bchw->bkhw", self.mask(asked[:, :3]), maps)


@job("masks_by_prompts", "masks by prompts", "loop", "images", "layers", "attention", "eval", "pretrained")
class MasksByPrompts(ImageLoop):
    """The encoder stays as it was trained, and what answers to points learns; the best of three masks counts."""
    kinds = "adamw", "adamw_fused", "adam"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.attention = r.choice([4, 6]), r.choice([384, 512]), "sdpa"
        self.draw_images([384, 512], [24, 32])
        self.choose()

    def freeze(self):
        for part in self.model.patch, self.model.encoder:
            part.requires_grad_(False)
        self.model.place.requires_grad_(False)

    def build(self):
        with torch.device(DEVICE):
            self.model = MasksOfPoints(self)
        self.freeze()
        self.finish(self.model)

    def loss(self, batch):
        scores = F.interpolate(self.predict(batch).float(), size=batch[0].shape[2:], mode="bilinear")
        wanted = torch.zeros_like(scores[:, :1]).expand_as(scores)
        each = F.binary_cross_entropy_with_logits(scores, wanted, reduction="none").mean((2, 3))
        share = scores.sigmoid()
        dice = 1 - (2 * (share * wanted).sum((2, 3)) + 1) / ((share + wanted).sum((2, 3)) + 1)
        return (20 * each + dice).amin(1).mean()


class Hourglass(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        def conv():
            return nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True))
        self.side, self.down, self.up = conv(), conv(), conv()
        self.inner = Hourglass(width, depth - 1) if depth > 1 else conv()

    def forward(self, x):
        deep = self.up(self.inner(self.down(F.max_pool2d(x, 2))))
        return self.side(x) + F.interpolate(deep, scale_factor=2)


class Joints(nn.Module):
    """Stages that each tell the joints' maps, and take those of the one before."""

    def __init__(self, o):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, o.width // 2, 7, 2, 3), nn.ReLU(True), nn.Conv2d(o.width // 2, o.width, 3, 2, 1), nn.ReLU(True))
        self.stages = nn.ModuleList(Hourglass(o.width, 3) for _ in range(o.layers))
        self.told, self.back = (nn.ModuleList(nn.Conv2d(a, b, 1) for _ in range(o.layers)) for a, b in ((o.width, 17), (17, o.width)))

    def forward(self, images):
        x, maps = self.stem(images), []
        for stage, told, back in zip(self.stages, self.told, self.back):
            seen = stage(x)
            maps.append(told(seen))
            x = x + seen + back(maps[-1])
        return maps if self.training else maps[-1]


@job("joints", "joints of people", "loop", "images", "layers", "eval")
class JointsOfPeople(ImageLoop):
    """A map for each joint, from each of some stages."""
    kinds = "adam", "adamw", "sgd_momentum"

    def draw(self):
        self.layers, self.width = self.rng.choice([2, 3]), self.rng.choice([96, 128, 192])
        self.draw_images([192, 256], [8, 16, 24])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Joints(self))

    def loss(self, batch):
        maps = self.predict(batch)
        return sum(F.mse_loss(m.float(), torch.zeros_like(m, dtype=torch.float32)) for m in (maps if isinstance(maps, list) else [maps]))


class Bag(nn.Module):
    """Which of thousands of tiles matter, by gates, and what the slide shows."""

    def __init__(self, o):
        super().__init__()
        self.into = nn.Sequential(nn.Linear(o.features, o.width), nn.GELU(), nn.Dropout(0.25), nn.Linear(o.width, o.width), nn.GELU())
        self.gates = nn.ModuleList(nn.Linear(o.width, 256) for _ in range(2))
        self.layers = nn.ModuleList(EncoderBlock(o.width, 8, o.attention) for _ in range(o.layers))
        self.weigh, self.told = nn.Linear(256, 4), nn.Linear(4 * o.width, 6)

    def forward(self, tiles):
        x = self.into(tiles)
        for layer in self.layers:
            x = layer(x)
        weights = self.weigh(self.gates[0](x).tanh() * self.gates[1](x).sigmoid()).softmax(1)
        return self.told((weights.transpose(1, 2) @ x).flatten(1))


@job("slides", "slides", "loop", "layers", "attention", "eval", "dataset", "crop")
class Slides(Loop):
    """One slide at a time, as features of its tiles that another network has made."""
    kinds = "adamw", "adam", "adamw_fused"
    longest = 16384

    def draw(self):
        r = self.rng
        self.layers, self.width, self.attention, self.features = r.choice([1, 2]), r.choice([384, 512]), "sdpa", r.choice([384, 768, 1024])
        self.length, self.size = r.choice([2048, 4096]), r.choice([1, 2])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Bag(self))
        self.dataset = torch.zeros(8, 1, self.features).expand(-1, self.longest, -1), torch.zeros(8, dtype=torch.long)

    def batch(self, i):
        start = i * self.size % 4
        tiles, shown = (t[start:start + self.size] for t in self.dataset)
        return tiles[:, :self.length].to(DEVICE, self.dtype).contiguous(), shown.to(DEVICE)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        return F.cross_entropy(self.predict(batch).float(), batch[1])


class Noisy(nn.Module):
    def __init__(self, o):
        super().__init__()
        b = o.base
        self.into, self.when = nn.Conv2d(3, b, 3, padding=1), nn.Sequential(nn.Linear(64, b), nn.SiLU(), nn.Linear(b, b))
        self.down = nn.ModuleList(nn.Sequential(nn.GroupNorm(8, b), nn.SiLU(), nn.Conv2d(b, b, 3, 2, 1)) for _ in range(o.layers))
        self.up = nn.ModuleList(nn.Sequential(nn.GroupNorm(8, 2 * b), nn.SiLU(), nn.Conv2d(2 * b, b, 3, padding=1)) for _ in range(o.layers))
        self.out = nn.Conv2d(b, 3, 3, padding=1)

    def forward(self, images, times):
        angles = times[:, None].float() * torch.logspace(0, 3, 32, device=times.device)
        x = self.into(images) + self.when(torch.cat([angles.sin(), angles.cos()], dim=1).to(images.dtype))[:, :, None, None]
        kept = []
        for down in self.down:
            kept.append(x)
            x = down(x)
        for up in self.up:
            skip = kept.pop()
            x = up(torch.cat([F.interpolate(x, size=skip.shape[2:]), skip], dim=1))
        return self.out(x)


@job("few_steps", "few steps of diffusion", "loop", "images", "layers", "eval", "reference")
class FewSteps(ImageLoop):
    """A student has to say the same from both ends of a step that a teacher takes; its average says it of the nearer end."""
    kinds = "adamw", "adamw_fused", "adam"
    precisions = "fp32", "autocast", "bf16"

    def draw(self):
        self.layers, self.base = self.rng.choice([2, 3]), self.rng.choice([64, 96])
        self.draw_images([64, 96, 128], [8, 16, 24])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Noisy(self))
            teacher = Noisy(self).to(self.dtype)
        self.reference = nn.ModuleDict({"teacher": teacher, "average": copy.deepcopy(self.model)}).eval().requires_grad_(False)

    def reference_outputs(self, noisy, times):
        with self.no_grad(), self.autocast():
            nearer = noisy - 0.1 * self.reference["teacher"](noisy, times)
            return self.reference["average"](nearer, times - 0.1)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0], torch.ones(len(batch[0]), device=DEVICE))

    def loss(self, batch):
        noisy, times = batch[0] + torch.randn_like(batch[0]), torch.rand(len(batch[0]), device=DEVICE)
        wanted = self.reference_outputs(noisy, times)
        with self.autocast():
            told = self.model(noisy, times)
        return ((told.float() - wanted.float()).square() + 1e-6).sqrt().mean()

    @torch.no_grad()
    def optimize(self):
        super().optimize()
        torch._foreach_lerp_(list(self.reference["average"].parameters()), [p.detach() for p in self.model.parameters()], 0.01)


def painter(width, number):
    """From a picture to one of the other kind."""
    class Same(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(4 * width, 4 * width, 3, padding=1), nn.InstanceNorm2d(4 * width), nn.ReLU(True),
                                      nn.Conv2d(4 * width, 4 * width, 3, padding=1))

        def forward(self, x):
            return x + self.body(x)
    down = [nn.Conv2d(3, width, 7, padding=3), nn.ReLU(True), nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(True), nn.Conv2d(2 * width, 4 * width, 3, 2, 1),
            nn.ReLU(True)]
    up = [nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1), nn.ReLU(True), nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.ReLU(True),
          nn.Conv2d(width, 3, 7, padding=3), nn.Tanh()]
    return nn.Sequential(*down, *[Same() for _ in range(number)], *up)


@job("unpaired", "pictures without pairs", "loop", "two optimizers", "images", "eval")
class Unpaired(ImageLoop):
    """Two painters, there and back, and two critics; a picture that went both ways should be as it was."""
    kinds = "adam", "adamw"
    precisions = "fp32", "autocast"
    accumulated = 1,

    def draw(self):
        self.width, self.number = self.rng.choice([32, 48]), self.rng.choice([2, 4])
        self.draw_images([128, 192], [2, 4, 6])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(nn.ModuleDict({name: painter(self.width, self.number) for name in ("there", "back")}))
            self.critics = nn.ModuleList(nn.Sequential(strided_convolutions(self.width)[0], nn.Conv2d(8 * self.width, 1, 1)) for _ in range(2))
        self.optimizers.append(OPTIMIZERS[self.kind](list(itertools.chain(*(c.parameters() for c in self.critics)))))

    def predict(self, batch):
        with self.autocast():
            return self.model["there"](batch[0])

    def judged(self, real, made):
        with self.autocast():
            loss = sum((1 - critic(r).float()).square().mean() + critic(m.detach()).float().square().mean() for critic, r, m in zip(self.critics, real, made))
        self.optimizers[1].zero_grad()
        loss.backward()
        self.optimizers[1].step()

    def loss(self, batch):
        first, second = batch[0], batch[0].flip(3)
        with self.autocast():
            made = self.model["there"](first), self.model["back"](second)
            again = self.model["back"](made[0]), self.model["there"](made[1])
        if torch.is_grad_enabled():
            self.judged((second, first), made)
        with self.autocast():
            fooled = sum((1 - critic(m).float()).square().mean() for critic, m in zip(self.critics, made))
        return fooled + 10 * sum(F.l1_loss(a.float(), b.float()) for a, b in zip(again, (first, second)))

    def optimize(self):
        self.optimizers[0].step()


@job("vectors_of_pictures", "vectors of pictures", "images", "layers", "attention")
class VectorsOfPictures(Inference):
    """CLIP's tower over a folder of pictures; vectors go to the host."""

    def draw(self):
        super().draw()
        self.pixels, self.size = self.rng.choice([224, 336]), self.rng.choice([32, 64, 96])

    def build(self):
        config = CLIPVisionConfig(hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
                                  image_size=self.pixels, patch_size=14, projection_dim=512, attn_implementation=self.attention)
        with torch.device(DEVICE):
            self.model = CLIPVisionModelWithProjection(config).to(self.dtype).eval()

    def batch(self, i):
        return torch.zeros(self.size, 3, self.pixels, self.pixels, dtype=torch.uint8).to(DEVICE).to(self.dtype) / 255

    def predict(self, images):
        return F.normalize(self.model(pixel_values=images).image_embeds, dim=-1)

    def take(self, i, outputs):
        self.results.append(outputs.float().cpu())

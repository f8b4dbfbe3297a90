"""Jobs of pictures: photographs mixed, cells under a microscope, boxes with Lightning, places recognised, brains in three dimensions, a word for a
style, an encoder of latents."""
import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
from torch.utils.checkpoint import checkpoint
from transformers import CLIPTextModel

from core import DEVICE, Job, job
from jobs_images import ImageLoop
from parts import Loop, cut


class Bottleneck(nn.Module):
    """Narrow, look around, wide again, and what was there is added."""

    def __init__(self, wide_in, narrow, stride=1):
        super().__init__()
        wide = 4 * narrow
        self.conv1, self.conv2 = nn.Conv2d(wide_in, narrow, 1, bias=False), nn.Conv2d(narrow, narrow, 3, stride, 1, bias=False)
        self.conv3 = nn.Conv2d(narrow, wide, 1, bias=False)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm2d(narrow), nn.BatchNorm2d(narrow), nn.BatchNorm2d(wide)
        other = stride > 1 or wide_in != wide
        self.short = nn.Sequential(nn.Conv2d(wide_in, wide, 1, stride, bias=False), nn.BatchNorm2d(wide)) if other else nn.Identity()

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        return F.relu(self.bn3(self.conv3(y)) + self.short(x))


class ResidualNet(nn.Module):
    """Four stages of such blocks."""

    def __init__(self, o):
        super().__init__()
        self.remake, wide = o.checkpointing, o.base
        self.stem = nn.Sequential(nn.Conv2d(3, o.base, 7, 2, 3, bias=False), nn.BatchNorm2d(o.base), nn.ReLU(True), nn.MaxPool2d(3, 2, 1))
        blocks = []
        for k in range(4):
            for n in range(o.layers):
                blocks.append(Bottleneck(wide, o.base << k, 2 if k and not n else 1))
                wide = 4 * (o.base << k)
        self.blocks, self.fc = nn.ModuleList(blocks), nn.Linear(wide, o.classes)

    def features(self, images):
        x = self.stem(images)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.remake and torch.is_grad_enabled() else block(x)
        return x

    def forward(self, images):
        return self.fc(self.features(images).mean((2, 3)))


@job("photographs_mixed", "photographs mixed", "loop", "images", "layers", "checkpointing", "eval")
class PhotographsMixed(ImageLoop):
    """A thousand kinds of things, by a residual network: each photograph is laid over another one, and so are their classes."""
    kinds = "sgd_momentum", "sgd_momentum", "adamw", "adam"
    classes = 1000

    def draw(self):
        r = self.rng
        self.layers, self.base, self.checkpointing = r.choice([2, 3, 4]), r.choice([48, 64]), r.random() < 0.2
        self.draw_images([128, 192, 224], [24, 32, 48])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(ResidualNet(self).to(memory_format=torch.channels_last))
        self.smooth = nn.CrossEntropyLoss(label_smoothing=0.1)

    def batch(self, i):
        images, labels = super().batch(i)
        return images.to(memory_format=torch.channels_last), labels

    def loss(self, batch):
        images, labels = batch
        share = self.rng.betavariate(0.2, 0.2)
        mixed = torch.lerp(images.flip(0), images, share)
        with self.autocast():
            scores = self.model(mixed)
        return share * self.smooth(scores.float(), labels) + (1 - share) * self.smooth(scores.float(), labels.flip(0))


class Twice(nn.Sequential):
    """Convolutions, each with its norm."""

    def __init__(self, a, b, layers):
        parts = []
        for k in range(layers):
            parts += [nn.Conv2d(b if k else a, b, 3, padding=1), nn.GroupNorm(8, b), nn.LeakyReLU(0.1, True)]
        super().__init__(*parts)


class Nested(nn.Module):
    """A network shaped like a U, with nodes between its two sides, each of which sees all nodes of its row before it."""
    depth = 4

    def __init__(self, o):
        super().__init__()
        widths, self.nodes = [o.base << k for k in range(self.depth)], nn.ModuleDict()
        for k, w in enumerate(widths):
            self.nodes["%d_0" % k] = Twice(widths[k - 1] if k else 1, w, o.layers)
            for n in range(1, self.depth - k):
                self.nodes["%d_%d" % (k, n)] = Twice(n * w + widths[k + 1], w, o.layers)
        self.cell, self.reach = nn.Conv2d(o.base, 2, 1), nn.Conv2d(o.base, o.rays, 1)

    def forward(self, images):
        made, x = {}, images
        for k in range(self.depth):
            x = made[k, 0] = self.nodes["%d_0" % k](F.max_pool2d(x, 2) if k else x)
        for n in range(1, self.depth):
            for k in range(self.depth - n):
                below = F.interpolate(made[k + 1, n - 1], scale_factor=2, mode="bilinear", align_corners=False)
                made[k, n] = self.nodes["%d_%d" % (k, n)](torch.cat([*(made[k, m] for m in range(n)), below], dim=1))
        last = made[0, self.depth - 1]
        return torch.cat([self.cell(last), F.softplus(self.reach(last))], dim=1)


@job("cells", "cells under a microscope", "loop", "images", "layers", "eval")
class Cells(ImageLoop):
    """Where cells are, and how far each of them reaches, in some directions."""
    channels = 1
    kinds = "adamw", "adam", "adamw_loop"

    def draw(self):
        r = self.rng
        self.layers, self.base, self.rays = r.choice([1, 2]), r.choice([24, 32, 48]), r.choice([16, 32])
        self.draw_images([192, 256], [4, 8, 12])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Nested(self))

    def loss(self, batch):
        told = self.predict(batch).float()
        cell, reach = told[:, :2], told[:, 2:]
        truth = (batch[0][:, 0] > 0.5).float()
        inside = cell.softmax(1)[:, 1]
        overlap = 1 - (2 * (inside * truth).sum((1, 2)) + 1) / (inside.sum((1, 2)) + truth.sum((1, 2)) + 1)
        return F.cross_entropy(cell, truth.long()) + overlap.mean() + ((reach - 4).abs().mean(1) * truth).mean()


class Anywhere(nn.Module):
    """No anchors: each place of each map tells a class, how far the sides are, and whether it is near a middle."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        stages, self.stem = [], nn.Sequential(nn.Conv2d(3, w, 7, 4, 3), nn.BatchNorm2d(w), nn.ReLU(True))
        for k in range(3):
            wide = w << k + 1
            parts = [m for _ in range(o.layers) for m in (nn.Conv2d(wide, wide, 3, padding=1, bias=False), nn.BatchNorm2d(wide), nn.ReLU(True))]
            stages.append(nn.Sequential(nn.Conv2d(w << k, wide, 3, 2, 1), nn.ReLU(True), *parts))
        self.stages, self.lateral = nn.ModuleList(stages), nn.ModuleList(nn.Conv2d(w << k + 1, 128, 1) for k in range(3))
        self.kinds, self.sides = self.tower(o.classes), self.tower(5)
        self.scales = nn.Parameter(torch.ones(3))

    @staticmethod
    def tower(out):
        parts = [m for _ in range(3) for m in (nn.Conv2d(128, 128, 3, padding=1), nn.GroupNorm(16, 128), nn.ReLU(True))]
        return nn.Sequential(*parts, nn.Conv2d(128, out, 3, padding=1))

    def forward(self, images):
        x, maps = self.stem(images), []
        for stage, same in zip(self.stages, self.lateral):
            x = stage(x)
            maps.append(same(x))
        told, coarse = [], None
        for k in (2, 1, 0):
            coarse = maps[k] if coarse is None else maps[k] + F.interpolate(coarse, size=maps[k].shape[2:])
            told.append(torch.cat([self.kinds(coarse), self.sides(coarse) * self.scales[k]], dim=1).flatten(2))
        return torch.cat(told, dim=2)


class Boxed(lightning.LightningModule):
    """Two rates of learning: one of the backbone, one of the heads."""

    def __init__(self, own):
        super().__init__()
        self.own, self.model = [own], Anywhere(own)

    def training_step(self, batch, batch_idx):
        loss = self.own[0].loss(batch)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        told = self.model(batch[0])
        self.log("sure", told[:, :-5].sigmoid().amax(1).mean(), batch_size=len(told))

    def configure_optimizers(self):
        body = [p for n, p in self.model.named_parameters() if n.startswith(("stem", "stages"))]
        heads = [p for n, p in self.model.named_parameters() if not n.startswith(("stem", "stages"))]
        return torch.optim.AdamW([{"params": body, "lr": 1e-5}, {"params": heads, "lr": 1e-4}])


class Boxes(torch.utils.data.Dataset):
    """One picture, again and again, with one class and one box."""

    def __init__(self, own, batches):
        self.rows, self.picture, self.box = own.size * batches, torch.zeros(3, own.pixels, own.pixels), torch.ones(4)

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.picture, i % 20, self.box


@job("boxes_with_lightning", "boxes with Lightning", "lightning", "forward", "layers", "states")
class BoxesWithLightning(Job):
    """What is where, told at every place of the maps, in Lightning; the backbone learns more slowly."""
    classes = 20

    def draw(self):
        r = self.rng
        self.layers, self.width, self.pixels, self.size = r.choice([2, 3, 4]), r.choice([64, 96]), r.choice([384, 448]), r.choice([8, 12, 16])
        self.steps, self.callbacks = r.choice([4, 5, 6]), []
        self.trainer_arguments = {"precision": r.choice(["32-true", "bf16-mixed"]), "accumulate_grad_batches": r.choice([1, 1, 2]),
                                  "gradient_clip_val": r.choice([None, 35.0])}

    def build(self):
        self.module = Boxed(self)
        self.model = self.module.model
        self.loaders = tuple(torch.utils.data.DataLoader(Boxes(self, n), batch_size=self.size, drop_last=True) for n in (24, 3))
        self.trainer = lightning.Trainer(**{"max_steps": self.steps, "accelerator": "gpu", "devices": 1, "val_check_interval": 3, "limit_val_batches": 2,
                                            "num_sanity_val_steps": 0, "logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
                                            "enable_model_summary": False, "callbacks": self.callbacks, **self.trainer_arguments})

    def loss(self, batch):
        pictures, kind, box = batch
        told = self.module.model(pictures).float()
        kinds, sides, middle = told[:, :-5], told[:, -5:-1].exp(), told[:, -1]
        truth = F.one_hot(kind, self.classes).float().unsqueeze(2).expand_as(kinds)
        lost = F.binary_cross_entropy_with_logits(kinds, truth, reduction="none")
        weight = (kinds.sigmoid() - truth).abs().square()
        apart = (sides - box[:, :, None]).abs().mean()
        return (lost * weight).mean() + apart + F.softplus(-middle).mean()

    def train(self):
        self.trainer.fit(self.module, *self.loaders)


class Place(nn.Module):
    """Features of a place are given to some words, and what is left of them is added up for each word."""

    def __init__(self, o):
        super().__init__()
        wide, parts = o.base, [nn.Conv2d(3, o.base, 5, 2, 2), nn.BatchNorm2d(o.base), nn.ReLU(True)]
        for k in range(3):
            for n in range(o.layers):
                parts += [nn.Conv2d(wide, o.base << k, 3, 2 if not n else 1, 1, bias=False), nn.BatchNorm2d(o.base << k), nn.ReLU(True)]
                wide = o.base << k
        self.body, self.given = nn.Sequential(*parts), nn.Conv2d(wide, o.words, 1)
        self.centres, self.less = nn.Parameter(torch.zeros(o.words, wide)), nn.Linear(o.words * wide, 512)

    def forward(self, images):
        x = self.body(images)
        shares, flat = self.given(x).flatten(2).softmax(1), x.flatten(2)
        left = torch.bmm(shares, flat.transpose(1, 2)) - shares.sum(2, keepdim=True) * self.centres
        return F.normalize(self.less(F.normalize(left, dim=2).flatten(1)), dim=1)


@job("places_recognised", "places recognised", "loop", "images", "layers", "eval")
class PlacesRecognised(ImageLoop):
    """Where a photograph was taken: it should be nearer to one from the same place than to those from elsewhere."""
    kinds = "adam", "adamw", "sgd_momentum"
    precisions = "fp32", "autocast"
    margin = 0.1

    def draw(self):
        r = self.rng
        self.layers, self.base, self.words = r.choice([2, 3]), r.choice([64, 96]), r.choice([32, 64])
        self.draw_images([192, 256], [12, 16, 24])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Place(self))

    def loss(self, batch):
        here = self.predict(batch).float()
        again = self.predict((batch[0].flip(3),)).float()
        near = (here - again).square().sum(1)
        far = torch.stack([(here - again.roll(k, 0)).square().sum(1) for k in (1, 2, 3)], dim=1)
        return F.relu(near[:, None] - far + self.margin).mean()


class Dense3d(nn.Module):
    """Each layer adds some channels to all those before it."""

    def __init__(self, a, grows):
        super().__init__()
        self.norm, self.squeeze, self.look = nn.BatchNorm3d(a), nn.Conv3d(a, 2 * grows, 1, bias=False), nn.Conv3d(2 * grows, grows, 3, padding=1, bias=False)

    def forward(self, x):
        return torch.cat([x, self.look(F.relu(self.squeeze(F.relu(self.norm(x)))))], dim=1)


class Brain(nn.Module):
    """Three dense parts, each with half the resolution of the one before."""

    def __init__(self, o):
        super().__init__()
        self.remake, n = o.checkpointing, 2 * o.grows
        self.stem, self.layers, self.halves = nn.Conv3d(1, n, 5, 2, 2), nn.ModuleList(), nn.ModuleList()
        for k in range(3):
            for _ in range(o.layers):
                self.layers.append(Dense3d(n, o.grows))
                n += o.grows
            self.halves.append(nn.Sequential(nn.BatchNorm3d(n), nn.ReLU(True), nn.Conv3d(n, n // 2, 1), nn.AvgPool3d(2)))
            n //= 2
        self.each, self.age = o.layers, nn.Linear(n + 1, o.years)

    def forward(self, scan, sex):
        x = self.stem(scan)
        for k, layer in enumerate(self.layers):
            x = checkpoint(layer, x, use_reentrant=False) if self.remake and torch.is_grad_enabled() else layer(x)
            if k % self.each == self.each - 1:
                x = self.halves[k // self.each](x)
        return self.age(torch.cat([x.mean((2, 3, 4)), sex], dim=1))


@job("brains", "brains in three dimensions", "loop", "layers", "checkpointing", "eval", "dataset")
class Brains(Loop):
    """How old somebody is, by a scan of the head: shares of years around the right one."""
    kinds = "adam", "adamw", "sgd_momentum"
    accumulated, years = (1, 2, 4), 80

    def draw(self):
        r = self.rng
        self.layers, self.grows, self.side, self.size = r.choice([3, 4]), r.choice([16, 24]), r.choice([80, 96]), r.choice([2, 4, 6])
        self.checkpointing = r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Brain(self))
        self.dataset = torch.zeros(24, 1, self.side, self.side, self.side, dtype=torch.int16), torch.zeros(24, 1), torch.zeros(24)

    def batch(self, i):
        scan, sex, age = cut(self.dataset, i, self.size)
        return scan.to(self.dtype) / 1000, sex.to(self.dtype), age

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0], batch[1])

    def loss(self, batch):
        told = self.predict(batch).float().log_softmax(1)
        shares = (-(torch.arange(self.years, device=DEVICE) - batch[2][:, None]).square() / 8).softmax(1)
        return F.kl_div(told, shares, reduction="batchmean")


class Styled(nn.Module):
    """A reader of words and a network that takes noise from latents."""

    def __init__(self, reader, painter):
        super().__init__()
        self.reader, self.painter = reader, painter

    def forward(self, noisy, when, words):
        return self.painter(noisy, when, self.reader(input_ids=words).last_hidden_state).sample


@job("a_word_for_a_style", "a word for a style", "loop", "images", "checkpointing", "eval", "pretrained")
class AWordForAStyle(ImageLoop):
    """One new word is learned from some pictures; everything else of a text encoder and a network of diffusers stays."""
    kinds = "adamw", "adamw_loop", "adam"
    precisions = "fp32", "autocast"
    channels, accumulated = 4, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.base, self.width, self.words, self.checkpointing = r.choice([128, 160]), r.choice([384, 512]), r.choice([20000, 49408]), r.random() < 0.2
        self.draw_images([64], [6, 8, 12])
        self.choose()

    def freeze(self):
        self.model.requires_grad_(False)
        self.model.reader.get_input_embeddings().requires_grad_(True)

    def build(self):
        text = transformers.CLIPTextConfig(vocab_size=self.words, hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=4,
                                           num_attention_heads=8, projection_dim=self.width)
        with torch.device(DEVICE):
            painter = UNet2DConditionModel(block_out_channels=(self.base, 2 * self.base, 2 * self.base), layers_per_block=2, cross_attention_dim=self.width,
                                           down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"), sample_size=self.pixels,
                                           up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"))
            self.model = Styled(CLIPTextModel(text), painter)
        if self.checkpointing:
            painter.enable_gradient_checkpointing()
            painter.train()
        self.freeze()
        self.finish(self.model)
        self.table = self.model.reader.get_input_embeddings().weight
        self.before, self.noise = self.table.detach()[:8].clone(), DDPMScheduler()

    def told(self, batch):
        latents = batch[0]
        noise, when = torch.randn_like(latents), torch.zeros(len(latents), dtype=torch.long, device=DEVICE)
        words = torch.ones(len(latents), 77, dtype=torch.long, device=DEVICE)
        with self.autocast():
            return self.model(self.noise.add_noise(latents, noise, when), when, words), noise

    def predict(self, batch):
        return self.told(batch)[0]

    def loss(self, batch):
        said, noise = self.told(batch)
        return F.mse_loss(said.float(), noise.float())

    def optimize(self):
        super().optimize()
        with torch.no_grad():
            self.table[:8] = self.before  # the first words, of which the tokenizer has marks


class Looks(nn.Module):
    """What two pictures look like, layer by layer: a network that was trained for something else."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.ReLU()) for a, b in ((3, width), (width, 2 * width), (2 * width, 4 * width)))

    def forward(self, x):
        return [x := layer(x) for layer in self.layers]


@job("an_encoder_of_latents", "an encoder of latents", "loop", "images", "layers", "checkpointing", "eval")
class AnEncoderOfLatents(ImageLoop):
    """diffusers' autoencoder, from nothing: pixels, what a frozen network sees in them, and a little of the distance from a normal distribution."""
    kinds = "adamw", "adam", "adamw_fused"
    precisions = "fp32", "autocast", "autocast"
    accumulated = 1, 1, 2

    def draw(self):
        r = self.rng
        self.layers, self.base, self.checkpointing = r.choice([1, 2]), r.choice([32, 64]), r.random() < 0.25
        self.draw_images([128, 192], [4, 6, 8])
        self.choose()

    def build(self):
        widths = self.base, 2 * self.base, 4 * self.base
        with torch.device(DEVICE):
            model = AutoencoderKL(block_out_channels=widths, down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3,
                                  layers_per_block=self.layers, latent_channels=4, norm_num_groups=16, sample_size=self.pixels)
            self.looks = Looks(48).to(self.dtype).requires_grad_(False)
        if self.checkpointing:
            model.enable_gradient_checkpointing()
        self.finish(model.train())

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0], sample_posterior=True).sample

    def loss(self, batch):
        pictures = batch[0] * 2 - 1
        with self.autocast():
            found = self.model.encode(pictures).latent_dist
            again = self.model.decode(found.sample()).sample
            with torch.no_grad():
                wanted = self.looks(pictures)
            apart = sum((a - b).float().square().mean() for a, b in zip(self.looks(again), wanted))
        return F.l1_loss(again.float(), pictures.float()) + apart + 1e-6 * found.kl().mean()

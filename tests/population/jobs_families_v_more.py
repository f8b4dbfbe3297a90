"""Jobs of pictures, films and things in space: exposures merged, points made whole, several views out of noise, where a camera was,
cracks of bridges with Lightning, people made unseen."""
import diffusers
import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from core import DEVICE, Job, job
from jobs_families_q import FeedForward, attention_of, split_heads
from jobs_images import EncoderBlock
from jobs_inference import Inference
from parts import Loop, cut


class Dense(nn.Module):
    """Each convolution sees what all before it in the block have found."""

    def __init__(self, b, grows, number):
        super().__init__()
        self.parts = nn.ModuleList(nn.Conv2d(b + n * grows, grows, 3, padding=2, dilation=2) for n in range(number))
        self.out = nn.Conv2d(b + number * grows, b, 1)

    def forward(self, x):
        found = x
        for part in self.parts:
            found = torch.cat([found, F.relu(part(found))], dim=1)
        return x + self.out(found)


class Merger(nn.Module):
    """Three photographs to one; how much of the dark and of the bright one counts is told place by place, seen from the middle one."""

    def __init__(self, o):
        super().__init__()
        b, self.recompute = o.base, o.checkpointing
        self.eye = nn.Sequential(nn.Conv2d(6, b, 3, padding=1), nn.LeakyReLU(0.1, True))
        self.weigh = nn.ModuleList(nn.Sequential(
            nn.Conv2d(2 * b, 2 * b, 3, padding=1), nn.LeakyReLU(0.1, True), nn.Conv2d(2 * b, b, 3, padding=1), nn.Sigmoid()) for _ in range(2))
        self.into = nn.Conv2d(3 * b, b, 3, padding=1)
        self.blocks = nn.ModuleList(Dense(b, b // 2, 5) for _ in range(o.layers))
        self.all, self.out = nn.Conv2d(o.layers * b, b, 1), nn.Sequential(nn.Conv2d(b, b, 3, padding=1), nn.LeakyReLU(0.1, True), nn.Conv2d(b, 3, 3, padding=1))

    def forward(self, shots):
        dark, middle, bright = (self.eye(shot) for shot in shots.unbind(1))
        sides = [weigh(torch.cat([side, middle], dim=1)) * side for weigh, side in zip(self.weigh, (dark, bright))]
        x, found = self.into(torch.cat([sides[0], middle, sides[1]], dim=1)), []
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute and self.training else block(x)
            found.append(x)
        return self.out(middle + self.all(torch.cat(found, dim=1))).sigmoid()


@job("exposures_merged", "exposures merged", "loop", "layers", "checkpointing", "eval", "dataset")
class ExposuresMerged(Loop):
    """A dark, a middle and a bright photograph of a scene in which things move become one in which nothing is too dark or too bright."""
    kinds, precisions, accumulated, few = ("adam", "adamw", "adamw_fused"), ("fp32", "autocast", "autocast"), (1, 1, 2), 5000.0

    def draw(self):
        r = self.rng
        self.layers, self.base, self.side = r.choice([2, 3, 4]), r.choice([32, 48, 64]), r.choice([128, 192, 256])
        self.size, self.checkpointing = r.choice([4, 6, 8, 12]), r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Merger(self))
        self.dataset = torch.zeros(64, 3, 3, self.side, self.side, dtype=torch.uint8), torch.zeros(64, 3, self.side, self.side, dtype=torch.float16)

    def batch(self, i):
        shots, right = cut(self.dataset, i, self.size)
        shots = shots.float().div_(255)
        times = torch.tensor([0.25, 1.0, 4.0], device=DEVICE).view(1, 3, 1, 1, 1)
        return torch.cat([shots, shots.pow(2.2) / times], dim=2).to(self.dtype), right.float()

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def seen(self, light):
        """Light as a screen shows it."""
        return (1 + self.few * light).log() / torch.tensor(1 + self.few).log().item()

    def loss(self, batch):
        made, right = self.seen(self.predict(batch).float()), self.seen(batch[1].clamp(min=0))
        edges = [(a[..., 1:] - a[..., :-1]) for a in (made, right)]
        return F.l1_loss(made, right) + 0.1 * F.l1_loss(*edges)


class Crossed(nn.Module):
    """Proposals look at each other, then at what was measured."""

    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.own, self.norm, self.wide = mode, EncoderBlock(w, 8, mode), nn.LayerNorm(w), FeedForward(w)
        self.q, self.kv, self.out = nn.Linear(w, w), nn.Linear(w, 2 * w), nn.Linear(w, w)

    def forward(self, x, seen):
        x = self.own(x)
        k, v = (split_heads(t, 8) for t in self.kv(seen).chunk(2, dim=-1))
        x = x + self.out(attention_of(self.mode, split_heads(self.q(self.norm(x)), 8), k, v, back=False))
        return x + self.wide(x)


class Completer(nn.Module):
    """Half of a thing, as points, to groups of them; these to coarse points of the whole thing, and each to some fine ones."""

    def __init__(self, o):
        super().__init__()
        w, self.groups, self.near, self.coarse, self.fine, self.recompute = o.width, o.groups, o.near, o.coarse, o.fine, o.checkpointing
        self.first = nn.Sequential(nn.Linear(3, w // 2), nn.GELU(), nn.Linear(w // 2, w // 2))
        self.second, self.where = nn.Sequential(nn.Linear(w, w), nn.GELU(), nn.Linear(w, w)), nn.Sequential(nn.Linear(3, w), nn.GELU(), nn.Linear(w, w))
        self.encode = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers))
        self.decode = nn.ModuleList(Crossed(w, o.attention) for _ in range(o.layers))
        self.guess, self.ask = nn.Sequential(nn.Linear(w, 2 * w), nn.GELU(), nn.Linear(2 * w, 3 * o.coarse)), nn.Linear(w + 3, w)
        self.unfold = nn.Sequential(nn.Linear(w + 2, w), nn.GELU(), nn.Linear(w, w), nn.GELU(), nn.Linear(w, 3))

    def run(self, block, *given):
        return checkpoint(block, *given, use_reentrant=False) if self.recompute and self.training else block(*given)

    def grouped(self, points):
        """Some points, and the nearest ones of each, seen from it."""
        middles = points[:, torch.linspace(0, points.shape[1] - 1, self.groups, device=points.device).long()]
        nearest = torch.cdist(middles.float(), points.float()).topk(self.near, largest=False).indices
        around = points.gather(1, nearest.flatten(1).unsqueeze(-1).expand(-1, -1, 3)).unflatten(1, (self.groups, self.near))
        return middles, around - middles.unsqueeze(2)

    def forward(self, points):
        middles, around = self.grouped(points)
        found = self.first(around)
        found = self.second(torch.cat([found, found.amax(2, keepdim=True).expand_as(found)], dim=-1)).amax(2)
        x = found + self.where(middles)
        for block in self.encode:
            x = self.run(block, x)
        known = x.amax(1)
        coarse = self.guess(known).unflatten(1, (self.coarse, 3))
        asked = self.ask(torch.cat([known.unsqueeze(1).expand(-1, self.coarse, -1), coarse.to(known.dtype)], dim=-1))
        for block in self.decode:
            asked = self.run(block, asked, x)
        sheet = torch.rand(self.fine, 2, device=points.device, dtype=asked.dtype).expand(*asked.shape[:2], -1, -1)
        each = torch.cat([asked.unsqueeze(2).expand(-1, -1, self.fine, -1), sheet], dim=-1)
        return coarse, (self.unfold(each) + coarse.unsqueeze(2)).flatten(1, 2)


@job("points_made_whole", "points made whole", "loop", "layers", "attention", "checkpointing", "eval", "dataset")
class PointsMadeWhole(Loop):
    """What a scanner saw of a chair from one side becomes the whole chair: both clouds are compared by who is nearest to whom."""
    kinds, precisions, accumulated = ("adamw", "adam", "adamw_fused"), ("fp32", "fp32", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.points, self.whole = r.choice([3, 4, 6]), r.choice([256, 384]), r.choice([2048, 4096]), r.choice([4096, 8192])
        self.groups, self.near, self.coarse, self.fine = r.choice([128, 192]), r.choice([16, 32]), r.choice([128, 224]), r.choice([16, 32])
        self.size, self.attention, self.checkpointing = r.choice([8, 12, 16]), "sdpa", r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Completer(self))
        self.dataset = torch.zeros(128, self.points, 3), torch.zeros(128, self.whole, 3)

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def told(self, points):
        with self.autocast():
            return self.model(points)

    def predict(self, batch):
        return self.told(batch[0])[1]

    def loss(self, batch):
        points, whole = batch
        lost = 0
        for made in self.told(points):
            made = made.float()
            with torch.no_grad():
                apart = torch.cdist(made, whole)
                there, back = apart.argmin(2), apart.argmin(1)
                del apart
            for points, others, nearest in (made, whole, there), (whole, made, back):
                lost = lost + (points - others.gather(1, nearest.unsqueeze(-1).expand(-1, -1, 3))).norm(dim=-1).mean()
        return lost


@job("several_views_out_of_noise", "several views out of noise", "loop", "layers", "checkpointing", "eval", "dataset")
class SeveralViewsOutOfNoise(Loop):
    """One picture of a thing to pictures from other sides, all at once: the views lie beside each other in one sheet for a network of diffusers."""
    kinds, precisions, accumulated, seen = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast"), (1, 1, 2), 50

    def draw(self):
        r = self.rng
        self.layers, self.base, self.side = r.choice([1, 2]), r.choice([96, 128, 160]), r.choice([16, 24, 32])
        self.rows, self.columns, self.given, self.size = r.choice([2, 3]), 2, r.choice([512, 768]), r.choice([4, 6, 8])
        self.checkpointing = r.random() < 0.25
        self.choose()

    def build(self):
        b = self.base
        with torch.device(DEVICE):
            model = diffusers.UNet2DConditionModel(
                in_channels=8, out_channels=4, layers_per_block=self.layers, block_out_channels=(b, 2 * b, 4 * b), cross_attention_dim=self.given,
                attention_head_dim=8, down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
                up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"), norm_num_groups=16)
        if self.checkpointing:
            model.enable_gradient_checkpointing()
        self.rule = diffusers.DDPMScheduler(1000, beta_schedule="linear", prediction_type="v_prediction")
        self.finish(model)
        sheet = 4, self.rows * self.side, self.columns * self.side
        views = torch.zeros(128, *sheet, dtype=torch.float16), torch.zeros(128, 4, self.side, self.side, dtype=torch.float16)
        self.dataset = *views, torch.zeros(128, self.seen, self.given)

    def batch(self, i):
        return [t.to(self.dtype) for t in cut(self.dataset, i, self.size)]

    def told(self, batch):
        sheet, first, words = batch
        noise, when = torch.randn_like(sheet), torch.zeros(len(sheet), dtype=torch.long, device=DEVICE)
        noisy, below = self.rule.add_noise(sheet, noise, when), first.repeat(1, 1, self.rows, self.columns)
        with self.autocast():
            made = self.model(torch.cat([noisy, below], dim=1), when, encoder_hidden_states=words, return_dict=False)[0]
        return made, self.rule.get_velocity(sheet, noise, when)

    def predict(self, batch):
        return self.told(batch)[0]

    def loss(self, batch):
        made, wanted = self.told(batch)
        return F.mse_loss(made.float(), wanted.float())


class Travelled(nn.Module):
    """Each two frames that follow each other to what changed, and all of it, in turn, to how the camera moved and turned."""

    def __init__(self, o):
        super().__init__()
        b, sizes = o.base, [6, *(o.base * k for k in (1, 2, 4, 4, 8))]
        self.eye = nn.Sequential(*(part for n, (i, j) in enumerate(zip(sizes, sizes[1:])) for part in (
            nn.Conv2d(i, j, 7 if n == 0 else 3, 2, 3 if n == 0 else 1, bias=False), nn.BatchNorm2d(j), nn.LeakyReLU(0.1, True), nn.Conv2d(j, j, 3, 1, 1),
            nn.LeakyReLU(0.1, True))), nn.AdaptiveAvgPool2d((2, 6)), nn.Flatten(), nn.Linear(96 * b, o.width))
        self.times, self.out = nn.LSTM(o.width, o.width, o.layers, batch_first=True), nn.Linear(o.width, 6)

    def forward(self, frames):
        pairs = torch.cat([frames[:, :-1], frames[:, 1:]], dim=2)
        seen = self.eye(pairs.flatten(0, 1)).unflatten(0, pairs.shape[:2])
        return self.out(self.times(seen)[0])


@job("where_a_camera_was", "where a camera was", "loop", "layers", "eval", "dataset", "crop")
class WhereACameraWas(Loop):
    """A film from a car to the way that it drove: small moves and turns from frame to frame, and where they lead when they are added up."""
    kinds, precisions, accumulated, longest = ("adam", "adamw", "adamw_fused", "sgd_momentum"), ("fp32", "fp32", "autocast"), (1, 1, 2), 32

    def draw(self):
        r = self.rng
        self.layers, self.width, self.base, self.high = r.choice([1, 2, 3]), r.choice([512, 768, 1024]), r.choice([32, 48, 64]), r.choice([96, 128, 160])
        self.length, self.size = r.choice([5, 7, 9, 11]), r.choice([4, 6, 8])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Travelled(self))
        self.dataset = torch.zeros(16, self.longest, 3, self.high, 3 * self.high, dtype=torch.uint8), torch.zeros(16, self.longest, 6)

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        frames, moves = (tensor[start:start + self.size, :self.length].to(DEVICE) for tensor in self.dataset)
        return frames.to(self.dtype).sub_(128).div_(64), moves[:, 1:]

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        off = self.predict(batch).float() - batch[1]
        return off[..., :3].square().mean() + 100 * off[..., 3:].square().mean() + 0.1 * off.cumsum(1).square().mean()


class Edges(nn.Module):
    """Blocks of convolutions, each of which draws a map of its own; and the map that all of them make."""

    def __init__(self, own):
        super().__init__()
        sizes = [3, *(own.base << min(n, 3) for n in range(5))]
        self.blocks = nn.ModuleList(nn.Sequential(*(part for n in range(own.layers) for part in (
            nn.Conv2d(i if n == 0 else j, j, 3, padding=1, bias=False), nn.BatchNorm2d(j), nn.ReLU(True)))) for i, j in zip(sizes, sizes[1:]))
        self.maps, self.all = nn.ModuleList(nn.Conv2d(j, 1, 1) for j in sizes[1:]), nn.Conv2d(5, 1, 1)

    def forward(self, x):
        side, maps = x.shape[2:], []
        for n, (block, one) in enumerate(zip(self.blocks, self.maps)):
            x = block(F.max_pool2d(x, 2) if n else x)
            maps.append(F.interpolate(one(x), size=side, mode="bilinear"))
        return [*maps, self.all(torch.cat(maps, dim=1))]


class Inspector(lightning.LightningModule):
    """What Lightning calls in each step."""

    def __init__(self, own):
        super().__init__()
        self.own, self.model = [own], Edges(own)

    def forward(self, walls):
        return self.model(walls)

    def training_step(self, batch, batch_idx):
        return self.own[0].loss(batch)

    def validation_step(self, batch, batch_idx):
        found, right = self(batch[0])[-1] > 0, batch[1] > 0.5
        self.log("both", (found & right).sum() / (found | right).sum().clamp(min=1))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4, fused=self.own[0].fused)


class Walls(torch.utils.data.Dataset):
    """Photographs of concrete, and the cracks that somebody drew."""

    def __init__(self, rows, own):
        self.rows, self.row = rows, (torch.zeros(3, own.side, own.side), torch.zeros(1, own.side, own.side))

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


@job("cracks_with_lightning", "cracks of bridges with Lightning", "lightning", "forward", "layers", "states")
class CracksWithLightning(Job):
    """A drone's photographs of bridges, and the thin cracks in them: each depth of the network must find them alone, and all together."""

    def draw(self):
        r = self.rng
        self.layers, self.base, self.fused = r.choice([1, 2, 3]), r.choice([32, 48, 64]), r.random() < 0.3
        self.side, self.size, self.steps, self.callbacks = r.choice([256, 320, 384]), r.choice([6, 8, 12]), r.choice([4, 5, 6]), []
        self.trainer_arguments = {"precision": r.choice(["32-true", "bf16-mixed", "bf16-mixed"]), "accumulate_grad_batches": r.choice([1, 1, 2]),
                                  "gradient_clip_val": None if self.fused else r.choice([None, 1.0])}

    def build(self):
        self.module = Inspector(self)
        self.model = self.module.model
        self.loaders = [torch.utils.data.DataLoader(Walls(n * self.size, self), batch_size=self.size) for n in (32, 2)]
        quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
        self.trainer = lightning.Trainer(**{"max_steps": self.steps, "accelerator": "gpu", "devices": 1, "val_check_interval": 3, "num_sanity_val_steps": 0,
                                            "callbacks": self.callbacks, **quiet, **self.trainer_arguments})

    def loss(self, batch):
        walls, right = batch
        share = right.mean().clamp(0.01, 0.5)
        weights = torch.where(right > 0.5, 1 - share, share)
        return sum(F.binary_cross_entropy_with_logits(one.float(), right, weight=weights) for one in self.module(walls))

    def train(self):
        self.trainer.fit(self.module, *self.loaders)


class Spotter(nn.Module):
    """A frame, in pieces and with some empty places, to boxes around faces and number plates."""
    patch = 16

    def __init__(self, o):
        super().__init__()
        w, self.empty = o.width, o.boxes
        self.into, self.where = nn.Conv2d(3, w, self.patch, self.patch), nn.Parameter(torch.zeros(o.boxes + (o.high // self.patch) * (o.wide // self.patch), w))
        self.blocks, self.norm = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers)), nn.LayerNorm(w)
        self.kind, self.box = nn.Linear(w, 3), nn.Sequential(nn.Linear(w, w), nn.ReLU(), nn.Linear(w, 4))

    def forward(self, frames):
        pieces = self.into(frames).flatten(2).transpose(1, 2)
        x = F.pad(pieces, (0, 0, self.empty, 0)) + self.where
        for block in self.blocks:
            x = block(x)
        x = self.norm(x[:, :self.empty])
        return self.kind(x).softmax(-1), self.box(x).sigmoid()


@job("people_made_unseen", "people made unseen", "inference", "layers", "attention")
class PeopleMadeUnseen(Inference):
    """Films of streets before anyone may look at them: what lies in the boxes of faces and plates is made blurred, frame by frame."""

    def draw(self):
        super().draw()
        r = self.rng
        self.high, self.wide, self.boxes = r.choice([480, 576]), r.choice([640, 800, 1024]), r.choice([50, 100])
        self.size, self.steps = r.choice([12, 16, 24]), r.choice([4, 5, 6])

    def build(self):
        with torch.device(DEVICE):
            self.model = Spotter(self).to(self.dtype).eval()
            self.places = torch.linspace(0, 1, self.high), torch.linspace(0, 1, self.wide)

    def batch(self, i):
        return torch.zeros(self.size, 3, self.high, self.wide, dtype=self.dtype, device=DEVICE)

    def predict(self, frames):
        kinds, boxes = self.model(frames)
        sure = (kinds[..., :2].amax(-1) > 0.3).unsqueeze(-1)
        x, y, w, h = boxes.float().unsqueeze(2).unbind(-1)
        down, along = self.places
        rows, columns = ((down - y).abs() < h / 2) & sure, (along - x).abs() < w / 2
        hidden = (rows.mT.to(frames.dtype) @ columns.to(frames.dtype)).clamp(max=1).unsqueeze(1)
        coarse = F.interpolate(F.avg_pool2d(frames, 16), size=frames.shape[2:], mode="bilinear")
        return frames + hidden * (coarse - frames)

    def take(self, i, outputs):
        self.results.append(outputs.mul(255).clamp(0, 255).to(torch.uint8).cpu())

"""Jobs of pictures, films and things in space: a little noise for each piece, things followed through a film, triangles in a row, pages made flat
with Accelerate, photographs enlarged out of noise, ice of the sea with Lightning."""
import diffusers
import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.checkpoint import checkpoint

from core import DEVICE, Job, job
from jobs_families_q import FeedForward, attention_of, split_heads
from jobs_images import EncoderBlock, ImageLoop
from jobs_inference import Inference
from parts import Loop, cut


class NoiseOfAPiece(nn.Module):
    """A small network that takes noise off one piece of a picture, given what a large one says of its place."""

    def __init__(self, piece, w, deep):
        super().__init__()
        self.into, self.when, self.given = nn.Linear(piece, w), nn.Sequential(nn.Linear(64, w), nn.SiLU(), nn.Linear(w, w)), nn.Linear(w, w)
        self.parts = nn.ModuleList(nn.Sequential(nn.LayerNorm(w), nn.Linear(w, w), nn.SiLU(), nn.Linear(w, w)) for _ in range(deep))
        self.scales, self.out = nn.ModuleList(nn.Linear(w, 2 * w) for _ in range(deep)), nn.Linear(w, piece)

    def forward(self, noisy, when, told):
        waves = when.unsqueeze(-1) * torch.arange(32, device=when.device).exp2()
        known = F.silu(self.when(torch.cat([waves.sin(), waves.cos()], dim=-1).to(noisy.dtype)) + self.given(told))
        x = self.into(noisy)
        for part, scale in zip(self.parts, self.scales):
            more, gate = scale(known).chunk(2, dim=-1)
            x = x + gate * part(x + more)
        return self.out(x)


class Pieces(nn.Module):
    """Pieces that are seen, through some blocks; then all places, of which the hidden ones are told."""

    def __init__(self, o):
        super().__init__()
        w, places, piece = o.width, (o.pixels // o.patch) ** 2, 3 * o.patch ** 2
        self.recompute, self.into, self.classes = o.checkpointing, nn.Linear(piece, w), nn.Embedding(o.classes, w)
        self.where, self.again, self.hidden = (nn.Parameter(torch.zeros(n, w)) for n in (places, places, 1))
        self.seen, self.all = (nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(n)) for n in (o.layers, o.layers // 2 + 1))
        self.norm, self.noise = nn.LayerNorm(w), NoiseOfAPiece(piece, w, o.deep)

    def run(self, blocks, x):
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute and self.training else block(x)
        return x

    def forward(self, pieces, classes, order, shown):
        """What the hidden places look like to the large network: (rows, hidden, width)."""
        wide = order.unsqueeze(-1).expand(-1, -1, self.where.shape[1])
        x = (self.into(pieces) + self.where).gather(1, wide[:, :shown])
        x = self.run(self.seen, torch.cat([self.classes(classes).unsqueeze(1).to(x.dtype), x], dim=1))
        holes = self.hidden.to(x.dtype).expand(len(x), order.shape[1] - shown, -1)
        rest = torch.cat([x[:, 1:], holes], dim=1) + self.again[order]
        return self.norm(self.run(self.all, torch.cat([x[:, :1], rest], dim=1))[:, 1 + shown:])


@job("noise_for_each_piece", "a little noise for each piece", "loop", "images", "layers", "attention", "checkpointing", "eval")
class NoiseForEachPiece(ImageLoop):
    """Pictures piece by piece in any order, without a book of codes: each hidden piece is drawn out of noise of its own; some noise levels a piece."""
    kinds, precisions, accumulated, classes = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast"), (1, 1, 2), 1000

    def draw(self):
        r = self.rng
        self.layers, self.width, self.patch, self.deep = r.choice([4, 6, 8]), r.choice([384, 512, 768]), r.choice([8, 16]), r.choice([2, 3])
        self.draw_images([96, 128, 160], [16, 24, 32])
        self.levels, self.hides, self.attention, self.checkpointing = r.choice([2, 4]), r.choice([0.7, 0.8]), "sdpa", r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Pieces(self))

    def told(self, batch):
        pictures, classes = batch
        pieces = F.pixel_unshuffle(pictures * 2 - 1, self.patch).flatten(2).transpose(1, 2)
        order = torch.rand(pieces.shape[:2], device=DEVICE).argsort(1)
        shown = max(1, int(pieces.shape[1] * (1 - self.hides)))
        with self.autocast():
            told = self.model(pieces, classes, order, shown)
        return told, pieces.gather(1, order[:, shown:].unsqueeze(-1).expand(-1, -1, pieces.shape[2]))

    def predict(self, batch):
        return self.told(batch)[0]

    def loss(self, batch):
        told, right = self.told(batch)
        told, right = (t.flatten(0, 1).repeat(self.levels, 1) for t in (told, right))
        noise, when = torch.randn_like(right), torch.rand(len(right), device=DEVICE)
        much = when.unsqueeze(-1).to(right.dtype)
        with self.autocast():
            made = self.model.noise((1 - much) * right + much * noise, when, told)
        return F.mse_loss(made.float(), (noise - right).float())


class Remembering(nn.Module):
    """A frame looks at itself, then at what is remembered of earlier ones."""

    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.own, self.norm = mode, EncoderBlock(w, 8, mode), nn.LayerNorm(w)
        self.q, self.kv, self.out = nn.Linear(w, w), nn.Linear(w, 2 * w), nn.Linear(w, w)

    def forward(self, x, memory):
        x = self.own(x)
        k, v = (split_heads(t, 8) for t in self.kv(memory).chunk(2, dim=-1))
        return x + self.out(attention_of(self.mode, split_heads(self.q(self.norm(x)), 8), k, v, back=False))


class Follower(nn.Module):
    """Frames to maps of a thing whose map in the first frame is given; a few of the last frames are remembered."""
    patch = 8

    def __init__(self, o):
        super().__init__()
        w, self.few, self.recompute = o.width, o.few, o.checkpointing
        self.into, self.map = nn.Conv2d(3, w, self.patch, self.patch), nn.Conv2d(1, w, self.patch, self.patch)
        self.eye = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers))
        self.mix = nn.Sequential(nn.Linear(2 * w, w), nn.GELU(), nn.Linear(w, w))
        self.where, self.ago = nn.Parameter(torch.zeros((o.side // self.patch) ** 2, w)), nn.Parameter(torch.zeros(o.few + 1, w))
        self.look = nn.ModuleList(Remembering(w, o.attention) for _ in range(2))
        self.up = nn.Sequential(nn.ConvTranspose2d(w, w // 4, 2, 2), nn.GELU(), nn.ConvTranspose2d(w // 4, 32, 2, 2), nn.GELU(),
                                nn.ConvTranspose2d(32, 1, 2, 2))
        self.there = nn.Linear(w, 1)

    def run(self, block, *given):
        return checkpoint(block, *given, use_reentrant=False) if self.recompute and self.training else block(*given)

    def seen(self, frames):
        x = self.into(frames.flatten(0, 1)).flatten(2).transpose(1, 2) + self.where
        for block in self.eye:
            x = self.run(block, x)
        return x.unflatten(0, frames.shape[:2])

    def forward(self, frames, first):
        """(rows, frames, 3, side, side) and (rows, 1, side, side) to maps, and whether the thing is there."""
        x, side = self.seen(frames), frames.shape[-1] // self.patch
        memory, maps, there, known = [], [], [], first
        for n in range(frames.shape[1]):
            if n:
                remembered = torch.cat([m + self.ago[k] for k, m in enumerate(memory)], dim=1)
                y = x[:, n]
                for block in self.look:
                    y = self.run(block, y, remembered)
                known = self.up(y.transpose(1, 2).unflatten(2, (side, side)))
                maps.append(known)
                there.append(self.there(y.mean(1)))
            shape = self.map(known.sigmoid() if n else known).flatten(2).transpose(1, 2)
            memory = [*memory[:1], *memory[1:][-self.few + 1:], self.mix(torch.cat([x[:, n], shape], dim=-1))]
        return torch.stack(maps, dim=1), torch.stack(there, dim=1)


@job("things_followed", "things followed through a film", "loop", "layers", "attention", "checkpointing", "eval", "dataset")
class ThingsFollowed(Loop):
    """Somebody marks a thing in the first frame, and it is marked in the others: what was found goes into a memory that later frames look at."""
    kinds, precisions, accumulated = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.side = r.choice([3, 4, 6]), r.choice([256, 384]), r.choice([128, 160, 192])
        self.frames, self.few, self.size = r.choice([4, 6, 8]), r.choice([3, 4]), r.choice([4, 6, 8])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Follower(self))
        self.dataset = tuple(torch.zeros(64, self.frames, c, self.side, self.side, dtype=torch.uint8) for c in (3, 1))

    def batch(self, i):
        frames, maps = cut(self.dataset, i, self.size)
        return frames.to(self.dtype).sub_(128).div_(64), maps.to(self.dtype)

    def told(self, batch):
        with self.autocast():
            return self.model(batch[0], batch[1][:, 0])

    def predict(self, batch):
        return self.told(batch)[0]

    def loss(self, batch):
        told, there = self.told(batch)
        told, right = told.float().flatten(2), batch[1][:, 1:].float().flatten(2)
        each = F.binary_cross_entropy_with_logits(told, right, reduction="none")
        share = told.sigmoid()
        focal = ((share - right).square() * each).mean()
        both = 1 - (2 * (share * right).sum(-1) + 1) / (share.sum(-1) + right.sum(-1) + 1)
        return 20 * focal + both.mean() + F.binary_cross_entropy_with_logits(there.float(), right.amax(-1, keepdim=True))


class Corner(nn.Module):
    """The numbers of a mesh look at those before them, then at the points that somebody has measured."""

    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.norms, self.qkv, self.q = mode, nn.ModuleList(nn.LayerNorm(w) for _ in range(2)), nn.Linear(w, 3 * w), nn.Linear(w, w)
        self.kv, self.outs, self.wide = nn.Linear(w, 2 * w), nn.ModuleList(nn.Linear(w, w) for _ in range(2)), FeedForward(w)

    def forward(self, x, points):
        q, k, v = (split_heads(t, 8) for t in self.qkv(self.norms[0](x)).chunk(3, dim=-1))
        x = x + self.outs[0](attention_of(self.mode, q, k, v))
        k, v = (split_heads(t, 8) for t in self.kv(points).chunk(2, dim=-1))
        x = x + self.outs[1](attention_of(self.mode, split_heads(self.q(self.norms[1](x)), 8), k, v, back=False))
        return x + self.wide(x)


class MeshWriter(nn.Module):
    """A cloud of points to a few vectors, and these to the corners of triangles, number by number."""

    def __init__(self, o):
        super().__init__()
        w, self.mode, self.recompute = o.width, o.attention, o.checkpointing
        self.point, self.asked = nn.Sequential(nn.Linear(6, w), nn.GELU(), nn.Linear(w, w)), nn.Parameter(torch.zeros(o.asked, w))
        self.q, self.kv, self.read = nn.Linear(w, w), nn.Linear(w, 2 * w), nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(2))
        self.number, self.axis, self.triangle = nn.Embedding(o.bins + 3, w), nn.Embedding(9, w), nn.Embedding(o.triangles + 1, w)
        self.layers, self.norm, self.out = nn.ModuleList(Corner(w, o.attention) for _ in range(o.layers)), nn.LayerNorm(w), nn.Linear(w, o.bins + 3, bias=False)

    def forward(self, points, numbers):
        k, v = (split_heads(t, 8) for t in self.kv(self.point(points)).chunk(2, dim=-1))
        cloud = attention_of(self.mode, split_heads(self.q(self.asked.expand(len(points), -1, -1)), 8), k, v, back=False)
        for block in self.read:
            cloud = block(cloud)
        where = torch.arange(numbers.shape[1], device=numbers.device)
        x = self.number(numbers) + self.axis(where % 9) + self.triangle(where // 9)
        for layer in self.layers:
            x = checkpoint(layer, x, cloud, use_reentrant=False) if self.recompute and self.training else layer(x, cloud)
        return self.out(self.norm(x))


@job("triangles_in_a_row", "triangles in a row", "loop", "layers", "attention", "checkpointing", "eval", "dataset")
class TrianglesInARow(Loop):
    """A scanned thing becomes a mesh as an artist would make it: triangles from below upwards, nine numbers each, like words of a text."""
    kinds, precisions, accumulated, bins = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast", "bf16"), (1, 1, 2), 128

    def draw(self):
        r = self.rng
        self.layers, self.width, self.triangles = r.choice([4, 6, 8]), r.choice([512, 768]), r.choice([100, 150, 200])
        self.points, self.asked, self.size = r.choice([2048, 4096]), r.choice([128, 256]), r.choice([4, 6, 8])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(MeshWriter(self))
        self.dataset = torch.zeros(256, self.points, 6), torch.ones(256, 9 * self.triangles, dtype=torch.long)

    def batch(self, i):
        points, numbers = cut(self.dataset, i, self.size)
        return points.to(self.dtype), numbers

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch)

    def loss(self, batch):
        told = self.predict(batch)[:, :-1]
        return F.cross_entropy(told.flatten(0, 1).float(), batch[1][:, 1:].flatten(), ignore_index=self.bins + 2)


class Twice(nn.Sequential):
    """Two convolutions with norms; the first one may look far."""

    def __init__(self, cin, cout, far=1):
        super().__init__(nn.Conv2d(cin, cout, 3, 1, far, dilation=far, bias=False), nn.InstanceNorm2d(cout, affine=True), nn.LeakyReLU(0.1, True),
                         nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.InstanceNorm2d(cout, affine=True), nn.LeakyReLU(0.1, True))


class Flattener(nn.Module):
    """A photographed page to where each place of the flat page is on it; and the flat page."""

    def __init__(self, o):
        super().__init__()
        sizes, self.recompute = [3, *(o.base << k for k in range(4))], o.checkpointing
        self.down = nn.ModuleList(Twice(i, j) for i, j in zip(sizes, sizes[1:]))
        self.middle = nn.ModuleList(Twice(sizes[-1], sizes[-1], far) for far in (1, 2, 4, 8)[:o.layers])
        self.up = nn.ModuleList(Twice(i + j, j) for i, j in zip(sizes[:1:-1], sizes[-2:0:-1]))
        self.out = nn.Conv2d(sizes[1], 2, 3, 1, 1)

    def run(self, part, x):
        return checkpoint(part, x, use_reentrant=False) if self.recompute and self.training else part(x)

    def forward(self, pages):
        x, kept = pages, []
        for n, part in enumerate(self.down):
            x = self.run(part, F.max_pool2d(x, 2) if n else x)
            kept.append(x)
        for part in self.middle:
            x = x + self.run(part, x)
        for part, beside in zip(self.up, kept[-2::-1]):
            x = self.run(part, torch.cat([F.interpolate(x, size=beside.shape[2:], mode="bilinear"), beside], dim=1))
        grid = self.out(x).float().permute(0, 2, 3, 1)
        return F.grid_sample(pages.float(), grid, align_corners=False), grid


@job("pages_made_flat", "pages made flat with Accelerate", "loop", "layers", "checkpointing", "eval", "dataset")
class PagesMadeFlat(Loop):
    """Photographs of bent pages become as if scanned: for each place of the flat page, where it is on the photograph; Accelerate's loop."""
    kinds, precisions, accumulated = ("adam", "adamw", "adamw_fused"), ("fp32", "autocast", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.base, self.side = r.choice([1, 2, 3, 4]), r.choice([32, 48, 64]), r.choice([192, 256, 320])
        self.size, self.checkpointing = r.choice([6, 8, 12]), r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            model = Flattener(self)
        self.accelerator = Accelerator(mixed_precision="bf16" if self.precision == "autocast" else "no")
        self.finish(model)
        self.model, *self.optimizers = self.accelerator.prepare(self.model, *self.optimizers)
        side = self.side
        self.dataset = *(torch.zeros(64, 3, side, side, dtype=torch.uint8) for _ in range(2)), torch.zeros(64, side, side, 2, dtype=torch.float16)

    def batch(self, i):
        bent, flat, grid = cut(self.dataset, i, self.size)
        return bent.to(self.dtype).div_(255), flat.float().div_(255), grid.float()

    def predict(self, batch):
        return self.model(batch[0])[0]

    def loss(self, batch):
        bent, flat, wanted = batch
        made, grid = self.model(bent)
        off = grid - wanted
        straight = (off - off.mean((1, 2), keepdim=True)).abs().mean()
        slopes = (off[:, 1:] - off[:, :-1]).abs().mean() + (off[:, :, 1:] - off[:, :, :-1]).abs().mean()
        return off.abs().mean() + 0.1 * straight + slopes + 0.5 * F.l1_loss(made, flat)

    def backward(self, loss):
        self.accelerator.backward(loss)

    def optimize(self):
        if self.clip:
            self.accelerator.clip_grad_norm_(self.model.parameters(), self.clip)
        for optimizer in self.optimizers:
            optimizer.step()


@job("photographs_enlarged", "photographs enlarged out of noise", "inference", "layers")
class PhotographsEnlarged(Inference):
    """Old photographs four times as wide: the small one lies under the noise that a network of diffusers takes off in some rounds."""

    def draw(self):
        super().draw()
        r = self.rng
        self.layers, self.base, self.small = r.choice([1, 2]), r.choice([64, 96, 128]), r.choice([48, 64, 80])
        self.size, self.rounds, self.steps = r.choice([2, 4, 6]), r.choice([4, 6, 8]), r.choice([3, 4, 5])

    def build(self):
        b = self.base
        with torch.device(DEVICE):
            self.model = diffusers.UNet2DModel(
                in_channels=6, out_channels=3, layers_per_block=self.layers, block_out_channels=(b, 2 * b, 2 * b, 4 * b), attention_head_dim=64,
                down_block_types=("DownBlock2D", "DownBlock2D", "DownBlock2D", "AttnDownBlock2D"),
                up_block_types=("AttnUpBlock2D", "UpBlock2D", "UpBlock2D", "UpBlock2D")).to(self.dtype).eval()
        self.rule = diffusers.DDIMScheduler(1000, prediction_type="v_prediction")

    def batch(self, i):
        return torch.zeros(self.size, 3, self.small, self.small, dtype=self.dtype, device=DEVICE)

    def predict(self, small):
        below = F.interpolate(small.float(), scale_factor=4, mode="bicubic").to(small.dtype)
        self.rule.set_timesteps(self.rounds)
        made = torch.randn_like(below)
        for when in self.rule.timesteps.tolist():
            told = self.model(torch.cat([made, below], dim=1), when, return_dict=False)[0]
            made = self.rule.step(told, when, made, return_dict=False)[0].to(small.dtype)
        return (made + below).clamp(-1, 1)

    def take(self, i, outputs):
        self.results.extend((outputs * 127 + 128).clamp(0, 255).to(torch.uint8).cpu())


class Ice(nn.Module):
    """Radar and coarse measures of a part of the sea: how much ice, how old, and in what floes, for each place."""

    def __init__(self, own):
        super().__init__()
        sizes = [own.bands, *(own.base << min(k, 3) for k in range(5))]
        self.down = nn.ModuleList(nn.Sequential(*(layer for n in range(own.layers) for layer in (
            nn.Conv2d(i if n == 0 else j, j, 3, padding=1, bias=False), nn.BatchNorm2d(j), nn.ReLU(True)))) for i, j in zip(sizes, sizes[1:]))
        self.up = nn.ModuleList(nn.Sequential(nn.Conv2d(i + j, j, 3, padding=1, bias=False), nn.BatchNorm2d(j), nn.ReLU(True))
                                for i, j in zip(sizes[:1:-1], sizes[-2:0:-1]))
        self.charts = nn.ModuleList(nn.Conv2d(sizes[1], kinds, 1) for kinds in own.kinds)

    def forward(self, x):
        kept = []
        for n, part in enumerate(self.down):
            x = part(F.avg_pool2d(x, 2) if n else x)
            kept.append(x)
        kept.pop()
        for part in self.up:
            x = part(torch.cat([F.interpolate(x, scale_factor=2), kept.pop()], dim=1))
        return [chart(x) for chart in self.charts]


class Charts(lightning.LightningModule):
    """What Lightning calls in each step."""

    def __init__(self, own):
        super().__init__()
        self.own, self.net = [own], Ice(own)

    def forward(self, seen):
        return self.net(seen)

    def training_step(self, batch, batch_idx):
        return self.own[0].loss(batch)

    def validation_step(self, batch, batch_idx):
        for name, told, right in zip(("much", "old", "floes"), self(batch[0]), batch[1].unbind(1)):
            self.log(name, (told.argmax(1) == right).float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, weight_decay=0.01, fused=self.own[0].fused)


class Scenes(torch.utils.data.Dataset):
    """Parts of scenes of a radar, and the three charts of what an expert has drawn."""

    def __init__(self, rows, own):
        self.rows, self.row = rows, (torch.zeros(own.bands, own.side, own.side), torch.ones(3, own.side, own.side, dtype=torch.long))

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


@job("ice_with_lightning", "ice of the sea with Lightning", "lightning", "forward", "layers", "states")
class IceWithLightning(Job):
    """Charts of ice for ships, from radar: three charts at once; places that nobody has drawn do not count, and much ice and some ice are near."""
    bands, kinds = 12, (11, 6, 7)

    def draw(self):
        r = self.rng
        self.layers, self.base, self.fused = r.choice([1, 2, 3]), r.choice([32, 48, 64]), r.random() < 0.3
        self.side, self.size, self.steps, self.callbacks = r.choice([192, 256, 320]), r.choice([4, 6, 8]), r.choice([4, 5, 6]), []
        self.trainer_arguments = {"precision": r.choice(["32-true", "bf16-mixed", "bf16-mixed"]), "accumulate_grad_batches": r.choice([1, 1, 2]),
                                  "gradient_clip_val": None if self.fused else r.choice([None, 1.0])}

    def build(self):
        self.module = Charts(self)
        self.model = self.module.net
        self.loaders = [torch.utils.data.DataLoader(Scenes(n * self.size, self), batch_size=self.size) for n in (32, 2)]
        quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
        self.trainer = lightning.Trainer(**{"max_steps": self.steps, "accelerator": "gpu", "devices": 1, "val_check_interval": 3, "num_sanity_val_steps": 0,
                                            "callbacks": self.callbacks, **quiet, **self.trainer_arguments})

    def loss(self, batch):
        much, *others = self.module(batch[0])
        drawn = batch[1]
        lost = sum(F.cross_entropy(told.float(), right, ignore_index=255) for told, right in zip((much, *others), drawn.unbind(1)))
        tenths = torch.arange(self.kinds[0], device=much.device)
        mean = torch.einsum("bkhw,k->bhw", much.float().softmax(1), tenths / 10)
        return lost + F.smooth_l1_loss(mean, drawn[:, 0] / 10)

    def train(self):
        self.trainer.fit(self.module, *self.loaders)

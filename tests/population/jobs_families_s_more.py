"""Jobs of pictures: points of two photographs, clips in a small space, pictures that move, distances out of noise, signatures with Lightning,
planes of a thing."""
import diffusers
import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.checkpoint import checkpoint

from core import DEVICE, Job, job
from jobs_families_q import FeedForward, attention_of, split_heads
from jobs_images import EncoderBlock
from jobs_inference import Inference
from parts import Loop, cut


class Across(nn.Module):
    """A layer that looks at its own places, then at those of something else."""

    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.own, self.norm, self.theirs = mode, EncoderBlock(w, 8, mode), nn.LayerNorm(w), nn.LayerNorm(w)
        self.ask, self.seen, self.out, self.wide = nn.Linear(w, w), nn.Linear(w, 2 * w), nn.Linear(w, w), FeedForward(w)

    def forward(self, x, other):
        x = self.own(x)
        q = split_heads(self.ask(self.norm(x)), 8)
        k, v = (split_heads(t, 8) for t in self.seen(self.theirs(other)).chunk(2, dim=-1))
        x = x + self.out(attention_of(self.mode, q, k, v, back=False))
        return x + self.wide(x)


class TwoViews(nn.Module):
    """One eye for both photographs; a decoder for each, which look at each other layer by layer; and for each pixel a point, and how sure it is."""
    patch = 16

    def __init__(self, o):
        super().__init__()
        w, self.recompute = o.width, o.checkpointing
        self.into, self.places = nn.Conv2d(3, w, self.patch, self.patch), nn.Parameter(torch.zeros((o.side // self.patch) ** 2, w))
        self.eye = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers))
        self.first, self.second = (nn.ModuleList(Across(w, o.attention) for _ in range(o.layers)) for _ in range(2))
        self.heads = nn.ModuleList(nn.Sequential(nn.LayerNorm(w), nn.Linear(w, 4 * self.patch ** 2)) for _ in range(2))

    def run(self, block, *given):
        return checkpoint(block, *given, use_reentrant=False) if self.recompute and self.training else block(*given)

    def forward(self, pairs):
        x = self.into(pairs.flatten(0, 1))
        side = x.shape[-1]
        x = x.flatten(2).transpose(1, 2) + self.places
        for block in self.eye:
            x = self.run(block, x)
        a, b = x.unflatten(0, (-1, 2)).unbind(1)
        for one, two in zip(self.first, self.second):
            a, b = self.run(one, a, b), self.run(two, b, a)
        told = [head(y).transpose(1, 2).unflatten(2, (side, side)) for head, y in zip(self.heads, (a, b))]
        return torch.stack([F.pixel_shuffle(t, self.patch) for t in told], dim=1)


@job("points_of_two_photographs", "points of two photographs", "loop", "layers", "attention", "checkpointing", "eval", "dataset")
class PointsOfTwoPhotographs(Loop):
    """Where in space each pixel of two photographs lies, as the first camera sees it, whatever the cameras are."""
    kinds, precisions, accumulated = ("adamw", "adamw_fused", "adamw_loop"), ("fp32", "autocast", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.side = r.choice([3, 4, 5]), r.choice([384, 512]), r.choice([160, 192, 224])
        self.size, self.attention, self.checkpointing = r.choice([6, 8, 12]), "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(TwoViews(self))
        shape = 64, 2, 3, self.side, self.side
        self.dataset = torch.zeros(shape, dtype=torch.uint8), torch.zeros(shape, dtype=torch.float16)

    def batch(self, i):
        pairs, points = cut(self.dataset, i, self.size)
        return pairs.to(self.dtype).sub_(128).div_(128), points

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        told, points = self.predict(batch).float(), batch[1].float()
        where, sure = told[:, :, :3], 1 + told[:, :, 3].exp()
        scales = [t.norm(dim=2).mean((1, 2, 3)).clamp(min=1e-3).view(-1, 1, 1, 1, 1) for t in (where, points)]
        off = (where / scales[0] - points / scales[1]).norm(dim=2)
        return (off * sure - 0.2 * sure.log()).mean()


class Causal(nn.Conv3d):
    """A convolution that sees nothing of later frames."""

    def __init__(self, cin, cout, stride=(1, 1, 1)):
        super().__init__(cin, cout, 3, stride, (0, 1, 1))

    def forward(self, x):
        return super().forward(torch.cat([x[:, :, :1]] * 2 + [x], dim=2))


class ClipBlock(nn.Module):
    """Two causal convolutions beside what comes in."""

    def __init__(self, w):
        super().__init__()
        self.norms, self.convs = nn.ModuleList(nn.GroupNorm(8, w) for _ in range(2)), nn.ModuleList(Causal(w, w) for _ in range(2))

    def forward(self, x):
        y = x
        for norm, conv in zip(self.norms, self.convs):
            y = conv(F.silu(norm(y)))
        return x + y


class ClipSpace(nn.Module):
    """Clips to few numbers with a spread, a quarter as fine in space and in time, and back."""

    def __init__(self, o):
        super().__init__()
        b, self.recompute = o.base, o.checkpointing
        self.into, self.less = Causal(3, b), nn.ModuleList(Causal(b << k, b << k + 1, (2, 2, 2)) for k in range(2))
        self.down, self.up = (nn.ModuleList(nn.Sequential(*(ClipBlock(b << k) for _ in range(o.layers))) for k in range(3)) for _ in range(2))
        self.middle, self.back = Causal(4 * b, 2 * o.few), Causal(o.few, 4 * b)
        self.more, self.out = nn.ModuleList(Causal(b << k + 1, b << k) for k in range(2)), Causal(b, 3)

    def run(self, part, x):
        return checkpoint(part, x, use_reentrant=False) if self.recompute and self.training else part(x)

    def shrink(self, clips):
        x = self.into(clips)
        for k, part in enumerate(self.down):
            x = self.run(part, x)
            x = self.less[k](x) if k < 2 else x
        return self.middle(F.silu(x)).chunk(2, dim=1)

    def grow(self, few, frames):
        x = self.back(few)
        for k in (2, 1, 0):
            x = self.run(self.up[k], x)
            if k:
                x = self.more[k - 1](F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.out(F.silu(x))[:, :, :frames]

    def forward(self, clips):
        middle, spread = self.shrink(clips)
        few = middle + torch.randn_like(middle) * (0.5 * spread.clamp(-20, 10)).exp() if self.training else middle
        return self.grow(few, clips.shape[2]), middle, spread


@job("clips_in_a_small_space", "clips in a small space", "loop", "layers", "checkpointing", "eval", "dataset")
class ClipsInASmallSpace(Loop):
    """Short clips are squeezed and made again, for a model that will draw clips in the small space; what moves counts for itself."""
    kinds, precisions, accumulated = ("adam", "adamw", "adamw_fused"), ("fp32", "autocast", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.base, self.few = r.choice([1, 2]), r.choice([24, 32, 40]), r.choice([4, 8, 16])
        self.frames, self.side, self.size = r.choice([8, 12]), r.choice([64, 96, 112]), r.choice([2, 3, 4])
        self.checkpointing = r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(ClipSpace(self))
        self.dataset = torch.zeros(24, 3, self.frames, self.side, self.side, dtype=torch.uint8),

    def batch(self, i):
        return cut(self.dataset, i, self.size).to(self.dtype).sub_(128).div_(128)

    def predict(self, clips):
        with self.autocast():
            return self.model(clips)[0]

    def loss(self, clips):
        with self.autocast():
            made, middle, spread = self.model(clips)
        made, middle, spread = made.float(), middle.float(), spread.float()
        off, moved = (made - clips).abs().mean(), (made.diff(dim=2) - clips.float().diff(dim=2)).abs().mean()
        return off + moved + 1e-6 * 0.5 * (middle.square() + spread.exp() - 1 - spread).sum((1, 2, 3, 4)).mean()


@job("pictures_that_move", "pictures that move", "inference", "layers")
class PicturesThatMove(Inference):
    """A picture becomes a clip: LTX of diffusers takes noise off all frames but the first, with and without the words, and each frame is decoded."""

    def draw(self):
        super().draw()
        r = self.rng
        self.width, self.side, self.frames, self.size = r.choice([512, 768]), r.choice([16, 20, 24]), r.choice([5, 7, 9]), r.choice([2, 3, 4])
        self.rounds, self.steps, self.words, self.guided = r.choice([4, 6]), r.choice([2, 3]), 64, r.choice([3.0, 5.0])

    def build(self):
        with torch.device(DEVICE):
            self.model = diffusers.LTXVideoTransformer3DModel(
                in_channels=16, out_channels=16, num_attention_heads=self.width // 64, attention_head_dim=64, cross_attention_dim=self.width,
                num_layers=self.layers, caption_channels=512).to(self.dtype).eval()
            self.decoder = diffusers.AutoencoderKL(
                latent_channels=16, block_out_channels=(32, 64, 128, 128), layers_per_block=1, norm_num_groups=8,
                down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4).to(self.dtype).eval()

    def batch(self, i):
        return torch.zeros(self.size, 16, self.side, self.side, dtype=self.dtype, device=DEVICE)

    def told(self, latents, words, when):
        """What the network says, drawn away from what it says without words."""
        mask = torch.ones(words.shape[:2], dtype=torch.long, device=DEVICE)
        both = self.model(torch.cat([latents, latents]), words, torch.cat([when, when]), mask, num_frames=self.frames, height=self.side, width=self.side,
                          rope_interpolation_scale=(0.8, 32, 32), return_dict=False)[0]
        without, with_words = both.chunk(2)
        return without + self.guided * (with_words - without)

    def predict(self, first):
        still = first.flatten(2).transpose(1, 2)
        latents = torch.cat([still, torch.randn(len(first), (self.frames - 1) * still.shape[1], 16, dtype=self.dtype, device=DEVICE)], dim=1)
        words = torch.zeros(2 * len(first), self.words, 512, dtype=self.dtype, device=DEVICE)
        moves = torch.arange(latents.shape[1], device=DEVICE) >= still.shape[1]
        for n in range(self.rounds):
            when = (moves * (1000 * (1 - n / self.rounds))).expand(len(first), -1)
            latents = latents - self.told(latents, words, when) * moves.view(1, -1, 1) / self.rounds
        frames = latents.unflatten(1, (self.frames, self.side, self.side)).permute(0, 1, 4, 2, 3).flatten(0, 1)
        return self.decoder.decode(frames, return_dict=False)[0].unflatten(0, (len(first), -1))

    def take(self, i, outputs):
        self.results.extend((outputs * 127 + 128).clamp(0, 255).to(torch.uint8).cpu())


@job("distances_out_of_noise", "distances out of noise", "loop", "layers", "checkpointing", "eval", "dataset")
class DistancesOutOfNoise(Loop):
    """How far away each place of a picture is, drawn out of noise in latents by a network that once drew pictures; diffusers, in Accelerate's loop."""
    kinds, precisions, accumulated = ("adamw", "adamw_fused", "adamw_loop"), ("fp32", "autocast", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.base, self.side, self.size = r.choice([1, 2]), r.choice([64, 96, 128]), r.choice([40, 48, 64]), r.choice([6, 8, 12])
        self.checkpointing = r.random() < 0.25
        self.choose()

    def build(self):
        b = self.base
        with torch.device(DEVICE):
            unet = diffusers.UNet2DConditionModel(
                sample_size=self.side, in_channels=8, out_channels=4, layers_per_block=self.layers, block_out_channels=(b, 2 * b, 4 * b),
                down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"), cross_attention_dim=256, attention_head_dim=8,
                up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"))
            self.kept, self.nothing = torch.linspace(0.9999, 0.98, 1000).cumprod(0), torch.zeros(1, 2, 256)
        if self.checkpointing:
            unet.enable_gradient_checkpointing()
        self.accelerator = Accelerator(mixed_precision="bf16" if self.precision == "autocast" else "no")
        self.finish(unet)
        self.model, *self.optimizers = self.accelerator.prepare(self.model, *self.optimizers)
        self.dataset = tuple(torch.zeros(96, 4, self.side, self.side) for _ in range(2))

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def noise(self, like):
        """Noise of several scales, the coarse ones weaker."""
        noise = torch.randn_like(like)
        for k in (2, 4, 8):
            coarse = torch.randn(*like.shape[:2], like.shape[2] // k, like.shape[3] // k, device=like.device)
            noise = noise + 0.9 ** k * F.interpolate(coarse, size=like.shape[2:], mode="bilinear")
        return noise / noise.std()

    def noised(self, far):
        when = torch.randint(0, 1000, (len(far),)).to(DEVICE)
        share, noise = self.kept[when].view(-1, 1, 1, 1), self.noise(far)
        return share.sqrt() * far + (1 - share).sqrt() * noise, when, share.sqrt() * noise - (1 - share).sqrt() * far

    def predict(self, batch):
        pictures, far = batch
        noisy, when, _ = self.noised(far)
        return self.model(torch.cat([pictures, noisy], dim=1), when, self.nothing.expand(len(far), -1, -1)).sample

    def loss(self, batch):
        pictures, far = batch
        noisy, when, wanted = self.noised(far)
        told = self.model(torch.cat([pictures, noisy], dim=1), when, self.nothing.expand(len(far), -1, -1), return_dict=False)[0]
        return F.mse_loss(told.float(), wanted)

    def backward(self, loss):
        self.accelerator.backward(loss)

    def optimize(self):
        if self.clip:
            self.accelerator.clip_grad_norm_(self.model.parameters(), self.clip)
        for optimizer in self.optimizers:
            optimizer.step()


class Strokes(nn.Module):
    """A picture of a signature, to a vector of its writer."""

    def __init__(self, own):
        super().__init__()
        parts, cin = [], 1
        for k in range(4):
            cout = own.base << k
            parts += [nn.Conv2d(cin, cout, 5 if k == 0 else 3, 1, "same"), nn.BatchNorm2d(cout), nn.ReLU(True)]
            for _ in range(own.layers - 1):
                parts += [nn.Conv2d(cout, cout, 3, 1, 1), nn.BatchNorm2d(cout), nn.ReLU(True)]
            parts.append(nn.MaxPool2d(2))
            cin = cout
        self.seen, self.out = nn.Sequential(*parts), nn.Sequential(nn.Linear(cin, 512), nn.ReLU(), nn.Dropout(0.3), nn.Linear(512, 128))

    def forward(self, pictures):
        return F.normalize(self.out(self.seen(pictures).mean((2, 3))).float(), dim=1)


class Signatures(lightning.LightningModule):
    """What Lightning calls in each step, and how fast it learns at the start."""

    def __init__(self, own):
        super().__init__()
        self.own, self.net = [own], Strokes(own)

    def forward(self, pictures):
        return self.net(pictures)

    def training_step(self, batch, batch_idx):
        loss = self.own[0].loss(batch)
        self.log("lost", loss, prog_bar=False)
        return loss

    def validation_step(self, batch, batch_idx):
        one, same, other = self(batch.flatten(0, 1)).unflatten(0, (-1, 3)).unbind(1)
        self.log("told apart", ((one - same).norm(dim=1) < (one - other).norm(dim=1)).float().mean(), on_epoch=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3, fused=self.own[0].fused)
        warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=20)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": warm, "interval": "step"}}


class Writers(torch.utils.data.Dataset):
    """A signature, another one of the same hand, and one that somebody forged."""

    def __init__(self, rows, height):
        self.rows, self.row = rows, torch.zeros(3, 1, height, 2 * height)

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


@job("signatures_with_lightning", "signatures with Lightning", "lightning", "forward", "layers", "states")
class SignaturesWithLightning(Job):
    """Whether a signature is genuine: those of one hand are brought together, and those that are forged are pushed away."""

    def draw(self):
        r = self.rng
        self.layers, self.base, self.fused = r.choice([1, 2, 3]), r.choice([24, 32, 48]), r.random() < 0.3
        self.height, self.size, self.steps, self.callbacks = r.choice([96, 112, 128]), r.choice([8, 12, 16]), r.choice([4, 5, 6]), []
        self.trainer_arguments = {"precision": r.choice(["32-true", "bf16-mixed"]), "accumulate_grad_batches": r.choice([1, 1, 2]),
                                  "gradient_clip_val": None if self.fused else r.choice([None, 1.0])}

    def build(self):
        self.module = Signatures(self)
        self.model = self.module.net
        self.loaders = [torch.utils.data.DataLoader(Writers(n * self.size, self.height), batch_size=self.size) for n in (32, 2)]
        quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
        self.trainer = lightning.Trainer(**{"max_steps": self.steps, "accelerator": "gpu", "devices": 1, "val_check_interval": 3, "num_sanity_val_steps": 0,
                                            "callbacks": self.callbacks, **quiet, **self.trainer_arguments})

    def loss(self, batch):
        one, same, other = self.module(batch.flatten(0, 1)).unflatten(0, (-1, 3)).unbind(1)
        return F.triplet_margin_loss(one, same, other, margin=0.5, swap=True)

    def train(self):
        self.trainer.fit(self.module, *self.loaders)


class ThreePlanes(nn.Module):
    """One photograph is looked at by the places of three planes; a point has what the planes have where it falls on them."""
    patch, grid = 16, 12

    def __init__(self, o):
        super().__init__()
        w, self.recompute = o.width, o.checkpointing
        self.into, self.places = nn.Conv2d(3, w, self.patch, self.patch), nn.Parameter(torch.zeros((o.side // self.patch) ** 2, w))
        self.eye = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(max(2, o.layers // 2)))
        self.planes = nn.Parameter(torch.zeros(3 * self.grid ** 2, w))
        self.layers = nn.ModuleList(Across(w, o.attention) for _ in range(o.layers))
        self.finer = nn.Sequential(nn.ConvTranspose2d(w, o.thin, 2, 2), nn.SiLU(), nn.ConvTranspose2d(o.thin, o.thin, 2, 2))
        self.tell = nn.Sequential(nn.Linear(3 * o.thin, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 4))

    def run(self, block, *given):
        return checkpoint(block, *given, use_reentrant=False) if self.recompute and self.training else block(*given)

    def look(self, pictures):
        seen = self.into(pictures).flatten(2).transpose(1, 2) + self.places
        for block in self.eye:
            seen = self.run(block, seen)
        x = self.planes.expand(len(pictures), -1, -1)
        for layer in self.layers:
            x = self.run(layer, x, seen)
        x = x.unflatten(1, (3, self.grid, self.grid)).flatten(0, 1).permute(0, 3, 1, 2)
        return self.finer(x).unflatten(0, (-1, 3))

    def forward(self, pictures, points):
        """Colours of rays, from points along them: (rows, rays, samples, 3)."""
        planes, flat = self.look(pictures), points.flatten(1, 2)
        found = [F.grid_sample(planes[:, k].float(), flat[..., axes].float().unsqueeze(1), align_corners=False).squeeze(2)
                 for k, axes in enumerate(([0, 1], [0, 2], [1, 2]))]
        told = self.tell(torch.cat(found, dim=1).transpose(1, 2).to(pictures.dtype)).float().unflatten(1, points.shape[1:3])
        thick = F.softplus(told[..., 3] - 1)
        before = torch.cat([torch.zeros_like(thick[..., :1]), thick.cumsum(-1)[..., :-1]], dim=-1)
        weight = (-before).exp() * (1 - (-thick).exp())
        return (weight.unsqueeze(-1) * told[..., :3].sigmoid()).sum(2)


@job("planes_of_a_thing", "planes of a thing", "loop", "layers", "attention", "checkpointing", "eval", "dataset")
class PlanesOfAThing(Loop):
    """A thing in three dimensions from one photograph: rays of other photographs of it must get the colours that these have."""
    kinds, precisions, accumulated = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.thin, self.side = r.choice([3, 4, 6]), r.choice([384, 512]), r.choice([24, 32]), r.choice([192, 224])
        self.rays, self.samples, self.size = r.choice([512, 768, 1024]), r.choice([32, 48]), r.choice([4, 6, 8])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(ThreePlanes(self))
            self.along = torch.linspace(0.5, 2.5, self.samples).view(1, 1, -1, 1)
        self.dataset = torch.zeros(48, 3, self.side, self.side, dtype=torch.uint8), torch.zeros(48, self.rays, 9)

    def batch(self, i):
        pictures, rays = cut(self.dataset, i, self.size)
        return pictures.to(self.dtype).div_(255), rays

    def points(self, rays):
        origin, direction = rays[..., :3].unsqueeze(2), rays[..., 3:6].unsqueeze(2)
        shaken = self.along + torch.rand(*rays.shape[:2], 1, 1, device=DEVICE) / self.samples
        return origin + direction * shaken

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0], self.points(batch[1]))

    def loss(self, batch):
        told, wanted = self.predict(batch), batch[1][..., 6:]
        return F.mse_loss(told, wanted) + 0.1 * F.l1_loss(told, wanted)

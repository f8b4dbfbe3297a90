"""Jobs of pictures: pictures in few bits, neurons that fire, pictures that are attacked, panoramas out of noise, bodies with Accelerate,
photographs by night with Lightning."""
import diffusers
import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.checkpoint import checkpoint

from core import DEVICE, Job, job
from jobs_images import EncoderBlock, ImageLoop
from jobs_inference import Inference
from parts import Loop, cut


class Evened(nn.Module):
    """Each channel is divided by what all channels have at its place; or multiplied, on the way back."""

    def __init__(self, c, back=False):
        super().__init__()
        self.back, self.base, self.mix = back, nn.Parameter(torch.ones(c)), nn.Parameter(torch.zeros(c, c))

    def forward(self, x):
        whole = F.conv2d(x.square(), self.mix.abs()[..., None, None].to(x.dtype), self.base.abs().to(x.dtype)) + 1e-6
        return x * whole.sqrt() if self.back else x * whole.rsqrt()


class Beside(nn.Module):
    """Two convolutions beside what comes in."""

    def __init__(self, c):
        super().__init__()
        self.both = nn.Sequential(nn.Conv2d(c, c // 2, 1), nn.GELU(), nn.Conv2d(c // 2, c // 2, 3, padding=1), nn.GELU(), nn.Conv2d(c // 2, c, 1))

    def forward(self, x):
        return x + self.both(x)


class FewBits(nn.Module):
    """Pictures to numbers that are rounded, the numbers to others that tell how the first ones are spread, and the way back."""

    def __init__(self, o):
        super().__init__()
        b, m, self.recompute = o.base, o.base + o.base // 2, o.checkpointing
        sizes = [3, b, b, b, m]
        self.down = nn.ModuleList(nn.Sequential(nn.Conv2d(i, j, 5, 2, 2), *(Beside(j) for _ in range(o.layers)), Evened(j)) for i, j in zip(sizes, sizes[1:]))
        self.up = nn.ModuleList(nn.Sequential(Evened(j, back=True), *(Beside(j) for _ in range(o.layers)), nn.ConvTranspose2d(j, i, 5, 2, 2, 1))
                                for i, j in zip(sizes[-2::-1], sizes[:0:-1]))
        self.aside = nn.Sequential(nn.Conv2d(m, b, 3, 1, 1), nn.LeakyReLU(), nn.Conv2d(b, b, 5, 2, 2), nn.LeakyReLU(), nn.Conv2d(b, b, 5, 2, 2))
        self.spread = nn.Sequential(nn.ConvTranspose2d(b, m, 5, 2, 2, 1), nn.LeakyReLU(), nn.ConvTranspose2d(m, m, 5, 2, 2, 1), nn.LeakyReLU(),
                                    nn.Conv2d(m, 2 * m, 3, 1, 1))
        self.width = nn.Parameter(torch.zeros(1, b, 1, 1))

    def run(self, part, x):
        return checkpoint(part, x, use_reentrant=False) if self.recompute and self.training else part(x)

    def rounded(self, x):
        return x + torch.rand_like(x) - 0.5 if self.training else x.round()

    @staticmethod
    def bits(x, middle, spread):
        """How many bits a rounded number takes, if it is spread like this."""
        near, far = ((x - middle + side) / spread for side in (-0.5, 0.5))
        return -(far.sigmoid() - near.sigmoid()).clamp(min=1e-9).log2().sum((1, 2, 3))

    def forward(self, pictures):
        x = pictures
        for part in self.down:
            x = self.run(part, x)
        z = self.rounded(self.aside(x))
        middle, spread = self.spread(z)[..., :x.shape[2], :x.shape[3]].float().chunk(2, dim=1)
        y = self.rounded(x.float())
        bits = self.bits(y, middle, F.softplus(spread) + 0.05) + self.bits(z.float(), 0.0, F.softplus(self.width.float()) + 0.05)
        x = y.to(pictures.dtype)
        for part in self.up:
            x = self.run(part, x)
        return x, bits


@job("pictures_in_few_bits", "pictures in few bits", "loop", "images", "layers", "checkpointing", "eval")
class PicturesInFewBits(ImageLoop):
    """A picture file that is learned: how many bits it takes, against how much of the picture is lost."""
    kinds, precisions, accumulated = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.base, self.worth = r.choice([1, 2, 3]), r.choice([96, 128, 160]), r.choice([0.005, 0.02, 0.05])
        self.draw_images([128, 192, 256], [8, 12, 16])
        self.checkpointing = r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(FewBits(self))

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])[0]

    def loss(self, batch):
        pictures = batch[0]
        with self.autocast():
            made, bits = self.model(pictures)
        places = pictures.shape[2] * pictures.shape[3]
        return self.worth * 255 ** 2 * F.mse_loss(made.float(), pictures.float()) + bits.mean() / places


class Fire(torch.autograd.Function):
    """One where a neuron is above its threshold; backwards as if the step were a slope."""

    @staticmethod
    def forward(ctx, charge):
        ctx.save_for_backward(charge)
        return charge.sign().clamp_(min=0)

    @staticmethod
    def backward(ctx, grad):
        charge, = ctx.saved_tensors
        return grad / (1 + 4 * charge.abs()).square()


class Firing(nn.Module):
    """A convolution whose neurons load up over time, and are empty once they have fired."""

    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv, self.norm, self.leak = nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.Parameter(torch.full((cout, 1, 1), 2.0))

    def forward(self, moments):
        """(moments, rows, channels, height, width) to the same of spikes."""
        given = self.norm(self.conv(moments.flatten(0, 1))).unflatten(0, moments.shape[:2])
        charge, said, keep = torch.zeros_like(given[0]), [], self.leak.sigmoid().to(given.dtype)
        for now in given:
            charge = keep * charge + (1 - keep) * now
            spikes = Fire.apply(charge - 0.5)
            charge = charge * (1 - spikes)
            said.append(spikes)
        return torch.stack(said)


class FiringNet(nn.Module):
    """Four stages of neurons that fire, and how often those of the last one did."""

    def __init__(self, o):
        super().__init__()
        parts, cin = [], 2
        for k in range(4):
            cout = o.base << min(k, 3)
            parts += [Firing(cin, cout, 2), *(Firing(cout, cout, 1) for _ in range(o.layers - 1))]
            cin = cout
        self.parts, self.out = nn.ModuleList(parts), nn.Linear(cin, o.classes)

    def forward(self, events):
        x = events.transpose(0, 1)
        for part in self.parts:
            x = part(x)
        return self.out(x.mean((0, 3, 4)))


@job("neurons_that_fire", "neurons that fire", "loop", "layers", "eval", "dataset")
class NeuronsThatFire(Loop):
    """What a hand does before a camera that tells changes alone: a net of spikes for a small chip, trained through all moments."""
    kinds, precisions, accumulated, classes = ("adamw", "adam", "adamw_fused", "sgd_momentum"), ("fp32", "fp32", "autocast"), (1, 1, 2), 11

    def draw(self):
        r = self.rng
        self.layers, self.base, self.moments = r.choice([1, 2, 3]), r.choice([32, 48, 64]), r.choice([8, 10, 16])
        self.side, self.size = r.choice([96, 128]), r.choice([12, 16, 24])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(FiringNet(self))
        self.dataset = torch.zeros(128, self.moments, 2, self.side, self.side, dtype=torch.uint8), torch.zeros(128, dtype=torch.long)

    def batch(self, i):
        events, what = cut(self.dataset, i, self.size)
        return events.to(self.dtype).clamp_(max=1), what

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        return F.cross_entropy(self.predict(batch).float(), batch[1], label_smoothing=0.05)


class Residual(nn.Module):
    """Two convolutions, with norms before them, beside what comes in."""

    def __init__(self, cin, cout, stride):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(cin), nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(cout), nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.short = nn.Conv2d(cin, cout, 1, stride, bias=False) if stride != 1 or cin != cout else nn.Identity()

    def forward(self, x):
        y = self.conv1(F.silu(self.norm1(x)))
        return self.short(x) + self.conv2(F.silu(self.norm2(y)))


class WideNet(nn.Module):
    """A wide residual net for small pictures."""

    def __init__(self, o):
        super().__init__()
        self.into, parts, cin = nn.Conv2d(3, 32, 3, 1, 1, bias=False), [], 32
        for k in range(3):
            for n in range(o.layers):
                parts.append(Residual(cin, o.base << k, 2 if k and n == 0 else 1))
                cin = o.base << k
        self.parts, self.norm, self.out = nn.Sequential(*parts), nn.BatchNorm2d(cin), nn.Linear(cin, o.classes)

    def forward(self, pictures):
        return self.out(F.silu(self.norm(self.parts(self.into(pictures)))).mean((2, 3)))


@job("pictures_that_are_attacked", "pictures that are attacked", "loop", "images", "layers", "eval")
class PicturesThatAreAttacked(ImageLoop):
    """Each picture is changed a little, in some steps, so that the net errs; it must say the same of both."""
    kinds, precisions, accumulated, classes, far = ("sgd_momentum", "sgd_momentum", "adamw", "adam"), ("fp32", "autocast", "autocast"), (1, 1, 2), 100, 8 / 255

    def draw(self):
        r = self.rng
        self.layers, self.base, self.tries, self.against = r.choice([1, 2, 3]), r.choice([64, 96, 128]), r.choice([3, 5, 7]), r.choice([3.0, 6.0])
        self.draw_images([32, 48, 64], [32, 48, 64])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(WideNet(self))

    def attacked(self, pictures, told):
        """Pictures nearby of which the net says something else."""
        wanted, moved = told.detach().float().softmax(-1), torch.randn_like(pictures) * 1e-3
        with torch.enable_grad():
            for _ in range(self.tries):
                moved.requires_grad_(True)
                with self.autocast():
                    said = self.model((pictures + moved).clamp(0, 1))
                slope, = torch.autograd.grad(F.kl_div(said.float().log_softmax(-1), wanted, reduction="sum"), moved)
                moved = (moved.detach() + self.far / 4 * slope.sign()).clamp_(-self.far, self.far)
        return (pictures + moved).clamp_(0, 1)

    def loss(self, batch):
        pictures, classes = batch
        with torch.no_grad():
            first = self.predict(batch)
        changed = self.attacked(pictures, first)
        with self.autocast():
            told, said = self.model(torch.cat([pictures, changed])).float().chunk(2)
        return F.cross_entropy(told, classes) + self.against * F.kl_div(said.log_softmax(-1), told.softmax(-1), reduction="batchmean")


@job("panoramas_out_of_noise", "panoramas out of noise", "inference", "layers")
class PanoramasOutOfNoise(Inference):
    """Wide pictures from a network that draws narrow ones: in each round windows that overlap lose some noise, and their mean is taken; diffusers."""

    def draw(self):
        super().draw()
        r = self.rng
        self.layers, self.base, self.side, self.size = r.choice([1, 2]), r.choice([96, 128, 160]), r.choice([32, 40, 48]), r.choice([2, 3, 4])
        self.wide, self.rounds, self.steps, self.guided = r.choice([3, 4]), r.choice([4, 6]), r.choice([2, 3, 4]), r.choice([5.0, 7.5])

    def build(self):
        b = self.base
        with torch.device(DEVICE):
            self.model = diffusers.UNet2DConditionModel(
                sample_size=self.side, in_channels=4, out_channels=4, layers_per_block=self.layers, block_out_channels=(b, 2 * b, 4 * b),
                down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"), cross_attention_dim=512, attention_head_dim=8,
                up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D")).to(self.dtype).eval()
            self.decoder = diffusers.AutoencoderKL(
                latent_channels=4, block_out_channels=(64, 128, 128, 256), layers_per_block=1, norm_num_groups=16,
                down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4).to(self.dtype).eval()

    def batch(self, i):
        return torch.zeros(self.size, 77, 512, dtype=self.dtype, device=DEVICE)

    def told(self, window, when, words):
        """The noise in a window, drawn away from what would be there without words."""
        both = self.model(torch.cat([window, window]), when, torch.cat([torch.zeros_like(words), words]), return_dict=False)[0]
        without, with_words = both.chunk(2)
        return without + self.guided * (with_words - without)

    def predict(self, words):
        side, whole = self.side, self.side * self.wide
        latents = torch.randn(len(words), 4, side, whole, dtype=self.dtype, device=DEVICE)
        starts = range(0, whole - side + 1, side // 2)
        for n in range(self.rounds):
            less, counted = torch.zeros_like(latents), torch.zeros_like(latents[:1])
            for start in starts:
                window = latents[..., start:start + side]
                less[..., start:start + side] += window - self.told(window, 999 - 900 * n // self.rounds, words) / self.rounds
                counted[..., start:start + side] += 1
            latents = less / counted
        return torch.cat([self.decoder.decode(part, return_dict=False)[0] for part in latents.split(side, dim=3)], dim=3)

    def take(self, i, outputs):
        self.results.extend((outputs * 127 + 128).clamp(0, 255).to(torch.uint8).cpu())


class Body(nn.Module):
    """A skin of some thousand points, that follows the joints below it; what it is made of is known and stays."""
    joints, forms = 24, 10

    def __init__(self, points):
        super().__init__()
        for name, shape in ("rest", (points, 3)), ("fat", (points * 3, self.forms)), ("places", (self.joints, points)), ("follows", (points, self.joints)):
            self.register_buffer(name, torch.zeros(shape))

    def forward(self, turns, form):
        """Turns of the joints as two sides of a frame each: (rows, joints, 6)."""
        a, b = turns.float().split(3, dim=-1)
        a = F.normalize(a, dim=-1)
        b = F.normalize(b - (a * b).sum(-1, keepdim=True) * a, dim=-1)
        frames = torch.stack([a, b, torch.linalg.cross(a, b)], dim=-1)
        skin = self.rest + (form.float() @ self.fat.T).unflatten(1, (-1, 3))
        places = torch.einsum("jv,bvd->bjd", self.places, skin)
        turned, moved = [frames[:, 0]], [places[:, 0]]
        for j in range(1, self.joints):
            above = (j - 1) // 3
            turned.append(turned[above] @ frames[:, j])
            moved.append(moved[above] + (turned[above] @ (places[:, j] - places[:, above]).unsqueeze(-1)).squeeze(-1))
        turned, moved = torch.stack(turned, dim=1), torch.stack(moved, dim=1)
        shift = moved - (turned @ places.unsqueeze(-1)).squeeze(-1)
        each = torch.einsum("vj,bjde->bvde", self.follows, torch.cat([turned, shift.unsqueeze(-1)], dim=-1))
        return (each[..., :3] @ skin.unsqueeze(-1)).squeeze(-1) + each[..., 3]


class BodyReader(nn.Module):
    """A picture to turns of joints, a form, and where the camera is."""
    patch = 16

    def __init__(self, o):
        super().__init__()
        w, self.recompute = o.width, o.checkpointing
        self.into, self.places = nn.Conv2d(3, w, self.patch, self.patch), nn.Parameter(torch.zeros((o.side // self.patch) ** 2, w))
        self.blocks, self.norm = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers)), nn.LayerNorm(w)
        self.out, self.body = nn.Sequential(nn.Linear(w, 1024), nn.GELU(), nn.Linear(1024, 6 * Body.joints + Body.forms + 3)), Body(o.points)

    def forward(self, pictures):
        x = self.into(pictures).flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute and self.training else block(x)
        turns, form, camera = self.out(self.norm(x).mean(1)).float().split([6 * Body.joints, Body.forms, 3], dim=1)
        turns = turns.unflatten(1, (Body.joints, 6))
        return self.body(turns, form), turns, form, camera


@job("bodies_with_accelerate", "bodies with Accelerate", "loop", "layers", "attention", "checkpointing", "eval", "dataset")
class BodiesWithAccelerate(Loop):
    """The skin of a person in space from one photograph; its points, its joints and where they are in the photograph are compared; Accelerate's loop."""
    kinds, precisions, accumulated = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.side, self.points = r.choice([4, 6, 8]), r.choice([384, 512]), r.choice([192, 224, 256]), 6890
        self.size, self.attention, self.checkpointing = r.choice([32, 48, 64, 96]), "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            model = BodyReader(self)
        self.accelerator = Accelerator(mixed_precision="bf16" if self.precision == "autocast" else "no")
        self.finish(model)
        self.model, *self.optimizers = self.accelerator.prepare(self.model, *self.optimizers)
        self.dataset = torch.zeros(192, 3, self.side, self.side, dtype=torch.uint8), torch.zeros(192, Body.joints, 6), torch.zeros(192, Body.forms)

    def batch(self, i):
        pictures, turns, form = cut(self.dataset, i, self.size)
        return pictures.to(self.dtype).sub_(128).div_(64), turns, form

    def predict(self, batch):
        return self.model(batch[0])[0]

    def loss(self, batch):
        pictures, turns, form = batch
        skin, told, shape, camera = self.model(pictures)
        body = self.accelerator.unwrap_model(self.model).body
        with torch.no_grad():
            wanted = body(turns, form)
        off = torch.einsum("jv,bvd->bjd", body.places, skin - wanted)
        flat = camera[:, None, :1].exp() * off[..., :2] + camera[:, None, 1:].square()
        return (skin - wanted).abs().mean() + 5 * off.square().mean() + 0.1 * flat.abs().mean() + F.mse_loss(told, turns) + 0.01 * F.mse_loss(shape, form)

    def backward(self, loss):
        self.accelerator.backward(loss)

    def optimize(self):
        if self.clip:
            self.accelerator.clip_grad_norm_(self.model.parameters(), self.clip)
        for optimizer in self.optimizers:
            optimizer.step()


class Channels(nn.Module):
    """Channels look at channels, whatever the size of the picture; then a gate between convolutions."""

    def __init__(self, c, heads):
        super().__init__()
        self.heads, self.before, self.after, self.heat = heads, nn.GroupNorm(1, c), nn.GroupNorm(1, c), nn.Parameter(torch.ones(heads, 1, 1))
        self.qkv, self.near, self.out = nn.Conv2d(c, 3 * c, 1), nn.Conv2d(3 * c, 3 * c, 3, padding=1, groups=3 * c), nn.Conv2d(c, c, 1)
        self.up, self.around, self.down = nn.Conv2d(c, 4 * c, 1), nn.Conv2d(4 * c, 4 * c, 3, padding=1, groups=4 * c), nn.Conv2d(2 * c, c, 1)

    def forward(self, x):
        q, k, v = (t.flatten(2).unflatten(1, (self.heads, -1)) for t in self.near(self.qkv(self.before(x))).chunk(3, dim=1))
        looks = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * self.heat).softmax(-1)
        x = x + self.out((looks @ v).flatten(1, 2).unflatten(2, x.shape[2:]))
        a, b = self.around(self.up(self.after(x))).chunk(2, dim=1)
        return x + self.down(F.gelu(a) * b)


class Lighter(nn.Module):
    """Three sizes of a photograph, down and up again; what comes out is added to it."""

    def __init__(self, own):
        super().__init__()
        b = own.base
        self.into, self.out = nn.Conv2d(3, b, 3, padding=1), nn.Conv2d(b, 3, 3, padding=1)
        self.down, self.up = (nn.ModuleList(nn.Sequential(*(Channels(b << k, 1 << k) for _ in range(own.layers))) for k in range(3)) for _ in range(2))
        self.less = nn.ModuleList(nn.Sequential(nn.Conv2d(b << k, b << k >> 1, 3, padding=1), nn.PixelUnshuffle(2)) for k in range(2))
        self.more = nn.ModuleList(nn.Sequential(nn.Conv2d(b << k + 1, b << k + 2, 3, padding=1), nn.PixelShuffle(2)) for k in range(2))
        self.join = nn.ModuleList(nn.Conv2d(2 * b << k, b << k, 1) for k in range(2))

    def forward(self, dark):
        x, kept = self.into(dark), []
        for k in range(2):
            x = self.down[k](x)
            kept.append(x)
            x = self.less[k](x)
        x = self.up[2](self.down[2](x))
        for k in (1, 0):
            x = self.up[k](self.join[k](torch.cat([self.more[k](x), kept.pop()], dim=1)))
        return dark + self.out(x)


class Nights(lightning.LightningModule):
    """What Lightning calls in each step."""

    def __init__(self, own):
        super().__init__()
        self.own, self.net = [own], Lighter(own)

    def forward(self, dark):
        return self.net(dark)

    def training_step(self, batch, batch_idx):
        return self.own[0].loss(batch)

    def validation_step(self, batch, batch_idx):
        self.log("off", F.mse_loss(self(batch[0]).float().clamp(0, 1), batch[1]), on_epoch=True, prog_bar=False)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4, weight_decay=1e-4, fused=self.own[0].fused)


class Pairs(torch.utils.data.Dataset):
    """Parts of photographs taken by night, and the same with a long exposure."""

    def __init__(self, rows, side):
        self.rows, self.row = rows, (torch.zeros(3, side, side), torch.zeros(3, side, side))

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


@job("nights_with_lightning", "nights with Lightning", "lightning", "forward", "layers", "states")
class NightsWithLightning(Job):
    """Photographs by night become as light as if the exposure had been long, without the noise; what differs in waves counts too."""

    def draw(self):
        r = self.rng
        self.layers, self.base, self.fused = r.choice([1, 2, 3]), r.choice([32, 48]), r.random() < 0.3
        self.side, self.size, self.steps, self.callbacks = r.choice([96, 128, 160]), r.choice([3, 4, 6, 8]), r.choice([4, 5, 6]), []
        self.trainer_arguments = {"precision": r.choice(["32-true", "bf16-mixed", "bf16-mixed"]), "accumulate_grad_batches": r.choice([1, 1, 2]),
                                  "gradient_clip_val": None if self.fused else r.choice([None, 0.1])}

    def build(self):
        self.module = Nights(self)
        self.model = self.module.net
        self.loaders = [torch.utils.data.DataLoader(Pairs(n * self.size, self.side), batch_size=self.size) for n in (32, 2)]
        quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
        self.trainer = lightning.Trainer(**{"max_steps": self.steps, "accelerator": "gpu", "devices": 1, "val_check_interval": 3, "num_sanity_val_steps": 0,
                                            "callbacks": self.callbacks, **quiet, **self.trainer_arguments})

    def loss(self, batch):
        dark, light = batch
        told = self.module(dark).float()
        waves = torch.fft.rfft2(told) - torch.fft.rfft2(light.float())
        return F.l1_loss(told, light.float()) + 0.05 * torch.view_as_real(waves).abs().mean()

    def train(self):
        self.trainer.fit(self.module, *self.loaders)

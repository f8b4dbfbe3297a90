"""Fields with code of their own: rendering, proteins, differential equations, speech. Others are in jobs_families_a_more.py."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from core import DEVICE, job
from jobs_images import ImageLoop
from parts import Loop, cut


def remat(enabled, function, *args):
    """function(*args), whose activations are computed again in backward if `enabled`."""
    return checkpoint(function, *args, use_reentrant=False) if enabled else function(*args)


def attend(mode, q, k, v, bias=None):
    if mode == "sdpa":
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
    return (scores if bias is None else scores + bias).softmax(-1) @ v


def encoded(x, bands):
    """A position with sines and cosines of it."""
    angles = (x[..., None, :] * 2.0 ** torch.arange(bands, device=x.device)[:, None]).flatten(-2)
    return torch.cat([x, angles.sin(), angles.cos()], dim=-1)


class RadianceField(nn.Module):
    """Colour and density of points; the encoded position enters again halfway."""

    def __init__(self, depth, width):
        super().__init__()
        self.skip = depth // 2
        self.pts_linears = nn.ModuleList(nn.Linear(63 if k == 0 else width + 63 if k == self.skip else width, width) for k in range(depth))
        self.alpha, self.feature = nn.Linear(width, 1), nn.Linear(width, width)
        self.views, self.rgb = nn.Linear(width + 27, width // 2), nn.Linear(width // 2, 3)

    def forward(self, pts, viewdirs):
        x = h = encoded(pts, 10)
        for k, linear in enumerate(self.pts_linears):
            h = F.relu(linear(torch.cat([x, h], -1) if k == self.skip else h))
        views = F.relu(self.views(torch.cat([self.feature(h), encoded(viewdirs, 4)], -1)))
        return torch.cat([self.rgb(views).sigmoid(), self.alpha(h)], -1)


class Renderer(nn.Module):
    """Coarse samples along each ray say where the fine ones are taken."""

    def __init__(self, o):
        super().__init__()
        self.coarse, self.fine = RadianceField(o.layers, o.width), RadianceField(o.layers, o.width)
        self.n_coarse, self.n_fine, self.netchunk, self.remat = o.samples, o.importance, o.netchunk, o.checkpointing

    def query(self, field, pts, dirs):
        flat, views = pts.flatten(0, 1), dirs[:, None].expand_as(pts).flatten(0, 1)
        parts = [remat(self.remat and self.training, field, flat[k:k + self.netchunk], views[k:k + self.netchunk]) for k in range(0, len(flat), self.netchunk)]
        return torch.cat(parts).unflatten(0, pts.shape[:2])

    def composite(self, raw, z):
        gaps = torch.cat([z[:, 1:] - z[:, :-1], torch.full_like(z[:, :1], 1e10)], -1)
        alpha = 1 - torch.exp(-F.relu(raw[..., 3]) * gaps)
        light = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
        weights = alpha * light
        return (weights[..., None] * raw[..., :3]).sum(1), weights

    def resampled(self, z, weights):
        cdf = torch.cumsum(weights / (weights.sum(-1, keepdim=True) + 1e-5), -1)
        where = torch.searchsorted(cdf.contiguous(), torch.rand(len(z), self.n_fine, device=z.device)).clamp(max=z.shape[1] - 1)
        return torch.sort(torch.cat([z, z.gather(1, where)], -1), -1).values

    def forward(self, rays):
        origin, direction = rays[:, :3], rays[:, 3:6]
        z = torch.linspace(2, 6, self.n_coarse, device=rays.device).expand(len(rays), -1)
        rgb0, weights = self.composite(self.query(self.coarse, origin[:, None] + z[..., None] * direction[:, None], direction), z)
        z = self.resampled(z, weights.detach())
        return rgb0, self.composite(self.query(self.fine, origin[:, None] + z[..., None] * direction[:, None], direction), z)[0]


@job("nerf", "neural rendering", "loop", "layers", "checkpointing", "eval", "dataset", "scene")
class NeRF(Loop):
    """Rays of all photographs, shuffled, each with its colour."""
    precisions = "fp32", "fp32", "autocast"
    kinds = "adam", "adam", "adamw", "adamw_fused"
    rows = 1 << 16

    def draw(self):
        r = self.rng
        self.layers, self.width, self.size = r.choice([6, 8]), r.choice([512, 640]), r.choice([256, 512])
        self.samples, self.importance, self.netchunk = r.choice([32, 64]), r.choice([64, 128]), 1024 * r.choice([16, 32, 64])
        self.checkpointing = r.random() < 0.15
        self.choose()

    def build(self):
        self.finish(Renderer(self))
        self.dataset = torch.zeros(self.rows, 6), torch.zeros(self.rows, 3)

    def batch(self, i):
        return [t.to(self.dtype) for t in cut(self.dataset, i, self.size)]

    def scene(self, i):
        """The rays of a photograph, part by part."""
        for k in range(8):
            yield self.batch(8 * i + k)[0]

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])[1]

    def loss(self, batch):
        rays, target = batch
        with self.autocast():
            coarse, fine = self.model(rays)
        return F.mse_loss(coarse, target) + F.mse_loss(fine, target)


class TriangleMultiplication(nn.Module):
    def __init__(self, c, equation):
        super().__init__()
        self.equation, self.norm, self.norm_out = equation, nn.LayerNorm(c), nn.LayerNorm(c)
        self.left, self.right, self.gate, self.out = nn.Linear(c, 2 * c), nn.Linear(c, 2 * c), nn.Linear(c, c), nn.Linear(c, c)

    def forward(self, z):
        x = self.norm(z)
        y = torch.einsum(self.equation, F.glu(self.left(x)), F.glu(self.right(x)))
        return z + self.gate(x).sigmoid() * self.out(self.norm_out(y))


class TriangleAttention(nn.Module):
    """Attention along each row of the pairs, or each column."""

    def __init__(self, c, heads, mode, columns):
        super().__init__()
        self.heads, self.mode, self.columns = heads, mode, columns
        self.norm, self.qkv, self.gate, self.out = nn.LayerNorm(c), nn.Linear(c, 3 * c, bias=False), nn.Linear(c, c), nn.Linear(c, c)

    def forward(self, z):
        x = self.norm(z.transpose(1, 2) if self.columns else z).flatten(0, 1)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = attend(self.mode, q, k, v).transpose(1, 2).flatten(2)
        y = (self.gate(x).sigmoid() * self.out(y)).view(z.shape)
        return z + (y.transpose(1, 2) if self.columns else y)


class OuterProductMean(nn.Module):
    def __init__(self, cm, cz, hidden=16):
        super().__init__()
        self.norm, self.ab, self.out = nn.LayerNorm(cm), nn.Linear(cm, 2 * hidden), nn.Linear(hidden ** 2, cz)

    def forward(self, m):
        a, b = self.ab(self.norm(m)).chunk(2, -1)
        return self.out(torch.einsum("bsic,bsjd->bijcd", a, b).flatten(-2) / m.shape[1])


def transition(c):
    return nn.Sequential(nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.ReLU(), nn.Linear(4 * c, c))


class EvoformerBlock(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.msa, self.outer = transition(o.msa_width), OuterProductMean(o.msa_width, o.width)
        self.pair = nn.Sequential(TriangleMultiplication(o.width, "bikc,bjkc->bijc"), TriangleMultiplication(o.width, "bkic,bkjc->bijc"),
                                  TriangleAttention(o.width, 4, o.attention, False), TriangleAttention(o.width, 4, o.attention, True))
        self.transition = transition(o.width)

    def forward(self, m, z):
        m = m + self.msa(m)
        z = self.pair(z + self.outer(m))
        return m, z + self.transition(z)


class PairModel(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.embed_msa, self.left, self.right = nn.Embedding(23, o.msa_width), nn.Embedding(23, o.width), nn.Embedding(23, o.width)
        self.relpos, self.blocks = nn.Embedding(65, o.width), nn.ModuleList(EvoformerBlock(o) for _ in range(o.layers))
        self.recycle, self.distogram, self.remat = nn.LayerNorm(o.width), nn.Linear(o.width, 64), o.checkpointing

    def forward(self, msa, previous=None):
        place = torch.arange(msa.shape[2], device=msa.device)
        z = self.left(msa[:, 0])[:, :, None] + self.right(msa[:, 0])[:, None] + self.relpos((place[:, None] - place).clamp(-32, 32) + 32)
        m, z = self.embed_msa(msa), z if previous is None else z + self.recycle(previous)
        for block in self.blocks:
            m, z = remat(self.remat and self.training, block, m, z)
        return self.distogram(z + z.transpose(1, 2)), z


@job("evoformer", "protein structure", "loop", "layers", "attention", "checkpointing", "eval", "dataset", "crop")
class Evoformer(Loop):
    """Distances of residues from an alignment; what the first passes found is put in again, without a graph."""
    kinds = "adam", "adam", "adamw"
    accumulated = 1, 1, 2
    rows = 32
    longest = 384

    def draw(self):
        r = self.rng
        self.layers, self.width, self.msa_width = r.choice([2, 3, 4]), r.choice([64, 128]), 64
        self.length, self.sequences, self.size, self.passes = r.choice([96, 128, 160]), r.choice([32, 64]), 1, r.choice([1, 2])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.15
        self.choose()

    def build(self):
        self.finish(PairModel(self))
        self.dataset = (torch.zeros(self.rows, self.sequences, self.longest, dtype=torch.long), torch.zeros(self.rows, self.longest, self.longest, dtype=torch.long))

    def batch(self, i):
        msa, bins = cut(self.dataset, i, self.size)
        return msa[:, :, :self.length], bins[:, :self.length, :self.length]

    def predict(self, batch):
        previous = None
        with self.autocast():
            for _ in range(self.passes - 1):
                with torch.no_grad():
                    previous = self.model(batch[0], previous)[1]
            return self.model(batch[0], previous)[0]

    def loss(self, batch):
        return F.cross_entropy(self.predict(batch).float().flatten(0, -2), batch[1].flatten())


class Solution(nn.Module):
    """A function of place and time."""

    def __init__(self, depth, width):
        super().__init__()
        sizes = [2] + [width] * depth
        self.hidden, self.out = nn.ModuleList(map(nn.Linear, sizes, sizes[1:])), nn.Linear(width, 1)

    def forward(self, points):
        h = points
        for linear in self.hidden:
            h = torch.tanh(linear(h))
        return self.out(h)


@job("pinn_burgers", "differential equations", "loop", "eval", "dataset")
class Burgers(Loop):
    """A network that satisfies u_t + u u_x = nu u_xx at points inside and has known values at others."""
    precisions = "fp32",
    kinds = "adam", "adam", "adamw", "sgd_momentum"
    clips = 0,
    rows = 1 << 18

    def draw(self):
        r = self.rng
        self.depth, self.width, self.size = r.choice([5, 6, 8]), r.choice([512, 768, 1024]), r.choice([2048, 4096, 8192])
        self.choose()

    def build(self):
        self.finish(Solution(self.depth, self.width))
        self.dataset = torch.zeros(self.rows, 2), torch.zeros(self.rows, 2), torch.zeros(self.rows, 1)

    def batch(self, i):
        return [t.to(self.dtype) for t in cut(self.dataset, i, self.size)]

    def predict(self, batch):
        return self.model(batch[0])

    def residual(self, points):
        xt = points.detach().requires_grad_()
        u = self.model(xt)
        du, = torch.autograd.grad(u.sum(), xt, create_graph=True)
        u_x, u_t = du[:, :1], du[:, 1:]
        u_xx = torch.autograd.grad(u_x.sum(), xt, create_graph=True)[0][:, :1]
        return u_t + u * u_x - 0.01 / math.pi * u_xx

    def loss(self, batch):
        inside, border, known = batch
        wanted = torch.is_grad_enabled()
        with torch.enable_grad():  # the derivatives need it, in a validation too
            loss = self.residual(inside).pow(2).mean() + F.mse_loss(self.model(border), known)
        return loss if wanted else loss.detach()


class Dynamics(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.norms, self.convs = nn.ModuleList(nn.GroupNorm(8, ch) for _ in range(3)), nn.ModuleList(nn.Conv2d(ch + 1, ch, 3, 1, 1) for _ in range(2))

    def forward(self, t, x):
        for norm, conv in zip(self.norms, self.convs):
            x = F.relu(norm(x))
            x = conv(torch.cat([torch.full_like(x[:, :1], t), x], 1))
        return self.norms[-1](x)


class ODENet(nn.Module):
    """Runge-Kutta with a fixed step, through which backward goes."""

    def __init__(self, o):
        super().__init__()
        self.stem, self.func = nn.Sequential(nn.Conv2d(3, o.ch, 3, 1, 1), nn.GroupNorm(8, o.ch), nn.ReLU()), Dynamics(o.ch)
        self.head, self.n, self.remat = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(o.ch, o.classes)), o.solver_steps, o.checkpointing

    def rk4(self, t, x):
        h, f = 1 / self.n, self.func
        k1 = f(t, x)
        k2 = f(t + h / 2, x + h / 2 * k1)
        k3 = f(t + h / 2, x + h / 2 * k2)
        k4 = f(t + h, x + h * k3)
        return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    def forward(self, x):
        x = self.stem(x)
        for k in range(self.n):
            x = remat(self.remat and self.training, self.rk4, k / self.n, x)
        return self.head(x)


@job("neural_ode", "differential equations", "loop", "eval", "checkpointing")
class NeuralODE(ImageLoop):
    def draw(self):
        r = self.rng
        self.ch, self.solver_steps, self.checkpointing = r.choice([32, 64]), r.choice([4, 6]), r.random() < 0.15
        self.draw_images([32, 48, 64], [32, 64])
        self.choose()

    def build(self):
        self.finish(ODENet(self))

    def loss(self, batch):
        return F.cross_entropy(self.predict(batch).float(), batch[1])


class Separable(nn.Module):
    """Convolutions over time, for each channel, then over the channels."""

    def __init__(self, ch, kernel, repeat):
        super().__init__()
        self.layers = nn.Sequential()
        for k in range(repeat):
            self.layers.extend([nn.Conv1d(ch, ch, kernel, padding=kernel // 2, groups=ch), nn.Conv1d(ch, ch, 1), nn.BatchNorm1d(ch)])
            self.layers.append(nn.ReLU() if k < repeat - 1 else nn.Identity())

    def forward(self, x):
        return F.relu(x + self.layers(x))


class QuartzNet(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(80, o.width, 33, 2, 16), nn.BatchNorm1d(o.width), nn.ReLU())
        self.blocks = nn.ModuleList(Separable(o.width, 33 + 6 * k, 3) for k in range(o.layers))
        self.out, self.remat = nn.Conv1d(o.width, o.symbols, 1), o.checkpointing

    def forward(self, mel):
        x = self.stem(mel)
        for block in self.blocks:
            x = remat(self.remat and self.training, block, x)
        return self.out(x).permute(2, 0, 1)


class ConformerBlock(nn.Module):
    def __init__(self, d, mode):
        super().__init__()
        self.mode, self.ff1, self.ff2 = mode, transition(d), transition(d)
        self.norm, self.qkv, self.proj = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.norm_conv, self.pw1, self.dw, self.pw2 = nn.LayerNorm(d), nn.Conv1d(d, 2 * d, 1), nn.Conv1d(d, d, 31, 1, 15, groups=d), nn.Conv1d(d, d, 1)
        self.bn, self.last = nn.BatchNorm1d(d), nn.LayerNorm(d)

    def forward(self, x):
        x = x + 0.5 * self.ff1(x)
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 8, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.proj(attend(self.mode, q, k, v).transpose(1, 2).flatten(2))
        y = F.glu(self.pw1(self.norm_conv(x).transpose(1, 2)), 1)
        x = x + self.pw2(F.silu(self.bn(self.dw(y)))).transpose(1, 2)
        return self.last(x + 0.5 * self.ff2(x))


class Conformer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.subsample = nn.Sequential(nn.Conv1d(80, o.width, 3, 2, 1), nn.ReLU(), nn.Conv1d(o.width, o.width, 3, 2, 1), nn.ReLU())
        self.blocks = nn.ModuleList(ConformerBlock(o.width, o.attention) for _ in range(o.layers))
        self.out, self.remat = nn.Linear(o.width, o.symbols), o.checkpointing

    def forward(self, mel):
        x = self.subsample(mel).transpose(1, 2)
        for block in self.blocks:
            x = remat(self.remat and self.training, block, x)
        return self.out(x).transpose(0, 1)


class Speech(Loop):
    """Spectrograms, cut or padded to a number of frames, with their transcripts."""
    traits = {"layers", "checkpointing", "eval", "dataset", "crop"}
    kinds = "adam", "adamw", "adamw_fused", "sgd_momentum"
    rows = 64
    longest = 3200
    labels = 24

    def build(self):
        self.finish(self.model_class(self))
        self.dataset = torch.zeros(self.rows, 80, self.longest), torch.zeros(self.rows, self.labels, dtype=torch.long)

    def batch(self, i):
        mel, transcript = cut(self.dataset, i, self.size)
        mel = mel[:, :, :self.length].to(self.dtype)
        return (mel - mel.mean(2, keepdim=True)) / (mel.std(2, keepdim=True) + 1e-5), transcript

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        logp = self.predict(batch).log_softmax(-1).float()
        t, n = logp.shape[:2]
        return F.ctc_loss(logp, batch[1], torch.full((n,), t), torch.full((n,), min(self.labels, t)), zero_infinity=True)


@job("quartznet", "speech", "loop")
class QuartzNetCTC(Speech):
    model_class = QuartzNet

    def draw(self):
        r = self.rng
        self.layers, self.width, self.symbols = r.choice([4, 5, 6]), r.choice([384, 512]), r.choice([29, 48, 128])
        self.length, self.size, self.checkpointing = r.choice([800, 1200, 1600]), r.choice([8, 16]), r.random() < 0.15
        self.choose()


@job("conformer", "speech", "loop", "attention")
class ConformerCTC(Speech):
    model_class = Conformer

    def draw(self):
        r = self.rng
        self.layers, self.width, self.symbols = r.choice([4, 6]), r.choice([256, 384]), r.choice([512, 1024, 5000])
        self.length, self.size, self.checkpointing = r.choice([1200, 1600]), r.choice([8, 16]), r.random() < 0.15
        self.attention = "sdpa"
        self.choose()

"""Jobs of further fields: diffusion of patches, larger images, stereo, molecules, objects by queries, optical flow, poses, frames to come, image tokens."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from core import DEVICE, job
from jobs_images import EncoderBlock, ImageLoop
from jobs_inference import Inference
from parts import Loop, cut, strided_convolutions


class ModulatedBlock(nn.Module):
    """A transformer's block whose norms are shifted and scaled by what is known of the time and of the text."""

    def __init__(self, dim, heads, mode):
        super().__init__()
        self.heads, self.mode, self.modulation = heads, mode, nn.Linear(dim, 6 * dim)
        self.norm1, self.norm2 = (nn.LayerNorm(dim, elementwise_affine=False) for _ in range(2))
        self.qkv, self.proj, self.mlp = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    attend = EncoderBlock.attend

    def forward(self, x, known):
        s1, c1, g1, s2, c2, g2 = self.modulation(F.silu(known))[:, None].chunk(6, dim=-1)
        x = x + g1 * self.attend(self.norm1(x) * (1 + c1) + s1)
        return x + g2 * self.mlp(self.norm2(x) * (1 + c2) + s2)


class PatchDiffuser(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.patch, self.side, self.checkpointing = nn.Conv2d(o.channels, o.width, 2, 2), o.pixels // 2, o.checkpointing
        self.place, self.time = nn.Parameter(torch.zeros(1, self.side ** 2, o.width)), nn.Sequential(nn.Linear(1, o.width), nn.SiLU(), nn.Linear(o.width, o.width))
        self.text = nn.Embedding(o.classes + 1, o.width)
        self.blocks = nn.ModuleList(ModulatedBlock(o.width, 8, o.attention) for _ in range(o.layers))
        self.norm, self.out = nn.LayerNorm(o.width), nn.Linear(o.width, 4 * o.channels)

    def forward(self, x, t, label):
        h, known = self.patch(x).flatten(2).transpose(1, 2) + self.place, self.time(t[:, None].to(x.dtype)) + self.text(label)
        for block in self.blocks:
            h = checkpoint(block, h, known, use_reentrant=False) if self.checkpointing and self.training else block(h, known)
        return F.pixel_shuffle(self.out(self.norm(h)).transpose(1, 2).unflatten(2, (self.side, self.side)), 2)


class Diffuser:
    """What the training and the service of pictures draw alike."""
    channels, classes = 4, 100

    def net(self):
        with torch.device(DEVICE):
            return PatchDiffuser(self)


@job("diffusion_transformer", "diffusion transformer", "loop", "images", "layers", "attention", "checkpointing", "eval")
class DiffusionTransformer(Diffuser, ImageLoop):
    """Velocities between noise and latents, for a label that is left out at times."""
    kinds = "adamw", "adamw_fused", "adamw_loop"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.attention, self.checkpointing = r.choice([4, 6, 8]), r.choice([384, 512, 768]), "sdpa", r.random() < 0.2
        self.draw_images([32, 64], [8, 16, 32])
        self.choose()

    def build(self):
        self.finish(self.net())

    def predict(self, batch):
        latents, label = batch
        t = torch.rand(len(latents), device=DEVICE)
        noise = torch.randn_like(latents)
        mixed = t[:, None, None, None].to(latents.dtype) * (latents - noise) + noise
        with self.autocast():
            return self.model(mixed, t, label)

    def loss(self, batch):
        return F.mse_loss(self.predict(batch).float(), batch[0].float())


@job("picture_service", "pictures on request", "layers", "attention")
class PictureService(Diffuser, Inference):
    """Latents from noise in some steps, each with and without the label, as one batch."""

    def draw(self):
        super().draw()
        self.pixels, self.size, self.checkpointing, self.moves = self.rng.choice([32, 64]), self.rng.choice([8, 16]), False, self.rng.choice([4, 6])

    def build(self):
        self.model = self.net().to(self.dtype).eval()

    def batch(self, i):
        return torch.zeros(self.size, dtype=torch.long, device=DEVICE)

    def predict(self, label):
        x = torch.randn(len(label), self.channels, self.pixels, self.pixels, dtype=self.dtype, device=DEVICE)
        both = torch.cat([label, torch.full_like(label, self.classes)])
        for k in range(self.moves):
            told, free = self.model(torch.cat([x, x]), torch.full((len(both),), k / self.moves, device=DEVICE), both).chunk(2)
            x = x + (free + 4.0 * (told - free)) / self.moves
        return x

    def take(self, i, outputs):
        self.results.append(outputs.float().clamp(-1, 1).cpu())


class ResidualGroup(nn.Module):
    """Convolutions with attention over channels."""

    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(True), nn.Conv2d(width, width, 3, padding=1))
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, width // 8, 1), nn.ReLU(True), nn.Conv2d(width // 8, width, 1), nn.Sigmoid())

    def forward(self, x):
        y = self.body(x)
        return x + y * self.gate(y)


@job("larger_images", "super-resolution", "loop", "images", "layers", "eval")
class LargerImages(ImageLoop):
    """Images four times as wide, by a network that works on the small ones."""
    kinds = "adam", "adamw", "adamw_fused"

    def draw(self):
        r = self.rng
        self.layers, self.width = r.choice([6, 10, 16]), r.choice([48, 64, 96])
        self.draw_images([128, 192, 256], [8, 16])
        self.choose()

    def build(self):
        self.finish(nn.Sequential(nn.Conv2d(3, self.width, 3, padding=1), nn.Sequential(*[ResidualGroup(self.width) for _ in range(self.layers)]),
                                  nn.Conv2d(self.width, 4 * self.width, 3, padding=1), nn.PixelShuffle(2),
                                  nn.Conv2d(self.width, 4 * self.width, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(self.width, 3, 3, padding=1)))

    def predict(self, batch):
        with self.autocast():
            return self.model(F.interpolate(batch[0].float(), scale_factor=0.25, mode="bilinear").to(self.dtype))

    def loss(self, batch):
        return ((self.predict(batch).float() - batch[0].float()).square() + 1e-6).sqrt().mean()


class StereoNet(nn.Module):
    """Features of both views, their correlation by groups at each disparity, 3-D convolutions over that."""

    def __init__(self, width, disparities):
        super().__init__()
        def conv(cin, cout, stride=1):
            return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(True))
        def conv3(cin, cout):
            return nn.Sequential(nn.Conv3d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm3d(cout), nn.ReLU(True))
        self.features = nn.Sequential(conv(3, width, 2), conv(width, width), conv(width, 2 * width, 2), conv(2 * width, 2 * width), nn.Conv2d(2 * width, 2 * width, 3, padding=1))
        self.filters, self.disparities = nn.Sequential(conv3(8, 16), conv3(16, 16), conv3(16, 16), nn.Conv3d(16, 1, 3, padding=1)), disparities

    def forward(self, left, right):
        a, b = (self.features(view).unflatten(1, (8, -1)) for view in (left, right))
        volume = torch.stack([(a * b.roll(d, 4)).mean(2) for d in range(self.disparities)], dim=2)
        weights = self.filters(volume).squeeze(1).softmax(1)
        return (weights * torch.arange(self.disparities, device=left.device, dtype=weights.dtype)[:, None, None]).sum(1)


@job("stereo", "stereo", "loop", "eval", "dataset")
class Stereo(Loop):
    """Disparities of two views, with a loss where they are known."""
    kinds = "adam", "adamw", "adamw_loop"
    precisions = "fp32", "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.width, self.disparities, self.size = r.choice([16, 32]), r.choice([24, 32, 48]), r.choice([2, 4])
        self.high, self.wide = r.choice([192, 256]), r.choice([384, 512])
        self.choose()

    def build(self):
        self.finish(StereoNet(self.width, self.disparities))
        self.dataset = torch.zeros(16, 2, 3, self.high, self.wide, dtype=torch.uint8), torch.zeros(16, self.high // 4, self.wide // 4)

    def batch(self, i):
        views, known = cut(self.dataset, i, self.size)
        return views.to(self.dtype) / 255, known

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0][:, 0], batch[0][:, 1])

    def loss(self, batch):
        return F.smooth_l1_loss(self.predict(batch).float() * (batch[1] >= 0), batch[1])


class Continuous(nn.Module):
    """Atoms learn from their neighbours through filters of the distance; the energy is the sum over atoms."""

    def __init__(self, o):
        super().__init__()
        self.embed = nn.Embedding(100, o.width)
        self.filters = nn.ModuleList(nn.Sequential(nn.Linear(32, o.width), nn.Softplus(), nn.Linear(o.width, o.width)) for _ in range(o.layers))
        self.mixes = nn.ModuleList(nn.Sequential(nn.Linear(o.width, o.width), nn.Softplus(), nn.Linear(o.width, o.width)) for _ in range(o.layers))
        self.energy = nn.Sequential(nn.Linear(o.width, o.width // 2), nn.Softplus(), nn.Linear(o.width // 2, 1))
        self.register_buffer("centres", torch.linspace(0, 5, 32))

    def forward(self, kinds, places, start, end):
        apart = (places[start] - places[end]).square().sum(-1).add(1e-6).sqrt()
        basis, x = torch.exp(-10 * (apart[:, None] - self.centres) ** 2), self.embed(kinds)
        for filters, mix in zip(self.filters, self.mixes):
            messages = x[start] * filters(basis)
            x = x + mix(torch.zeros_like(x).index_add_(0, end, messages))
        return self.energy(x).squeeze(-1)


@job("molecules", "molecules", "loop", "layers", "eval", "dataset")
class Molecules(Loop):
    """Energies and the forces that follow from them, by a gradient that the loss is derived through."""
    precisions = "fp32",
    kinds = "adam", "adamw", "adamw_loop"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.size = r.choice([3, 4, 6]), r.choice([64, 128]), r.choice([16, 32])
        self.atoms, self.near = r.choice([32, 64]), r.choice([12, 24])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Continuous(self))
        self.dataset = torch.ones(64, self.atoms, dtype=torch.long), torch.zeros(64, self.atoms, 3), torch.zeros(64), torch.zeros(64, self.atoms, 3)

    def batch(self, i):
        kinds, places, energy, forces = cut(self.dataset, i, self.size)
        number = kinds.numel()
        end = torch.arange(number, device=DEVICE).repeat_interleave(self.near)
        return kinds.flatten(), places.flatten(0, 1), (end + 1) % number, end, energy, forces.flatten(0, 1)

    def predict(self, batch):
        return self.model(*batch[:4]).unflatten(0, (-1, self.atoms)).sum(1)

    def loss(self, batch):
        with torch.enable_grad():
            places = batch[1].detach().requires_grad_()
            energy = self.predict((batch[0], places, *batch[2:]))
            forces = -torch.autograd.grad(energy.sum(), places, create_graph=self.model.training)[0]
        return F.mse_loss(energy, batch[4]) + 10 * F.mse_loss(forces, batch[5])


class Queries(nn.Module):
    """A convolutional backbone, an encoder of its map, and queries that look at it."""

    def __init__(self, o):
        super().__init__()
        backbone, cin = strided_convolutions(o.base)
        self.backbone, self.project = backbone, nn.Conv2d(cin, o.width, 1)
        self.encoder = nn.ModuleList(EncoderBlock(o.width, 8, o.attention) for _ in range(o.layers))
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(o.width, 8, 4 * o.width, batch_first=True) for _ in range(o.layers))
        self.queries, self.place = nn.Parameter(torch.zeros(o.queries, o.width)), nn.Parameter(torch.zeros(1, (o.pixels // 16) ** 2, o.width))
        self.kinds, self.boxes = nn.Linear(o.width, o.classes + 1), nn.Linear(o.width, 4)

    def forward(self, images):
        memory = self.project(self.backbone(images)).flatten(2).transpose(1, 2) + self.place
        for block in self.encoder:
            memory = block(memory)
        x, told = self.queries.expand(len(images), -1, -1), []
        for layer in self.decoder:
            x = layer(x, memory)
            told.append((self.kinds(x), self.boxes(x).sigmoid()))
        return told


@job("queries_for_objects", "objects by queries", "loop", "images", "layers", "attention", "eval")
class QueriesForObjects(ImageLoop):
    """Each query tells one object or none; losses after every layer of the decoder."""
    kinds = "adamw", "adamw_fused"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.base, self.queries, self.attention = r.choice([2, 3, 4]), r.choice([192, 256]), r.choice([32, 48]), r.choice([100, 300]), "sdpa"
        self.draw_images([256, 320], [4, 8])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Queries(self))

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])[-1][0]

    def loss(self, batch):
        with self.autocast():
            told = self.model(batch[0])
        total = 0
        for kinds, boxes in told:
            wanted = torch.full(kinds.shape[:2], self.classes, dtype=torch.long, device=DEVICE)
            total = total + F.cross_entropy(kinds.float().transpose(1, 2), wanted) + F.l1_loss(boxes.float()[:, :10], torch.zeros(len(boxes), 10, 4, device=DEVICE))
        return total


class FlowNet(nn.Module):
    """A motion between two frames that is refined some times from a correlation in a window around it."""

    def __init__(self, o):
        super().__init__()
        def conv(cin, cout, stride=1):
            return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1), nn.InstanceNorm2d(cout), nn.ReLU(True))
        self.features = nn.Sequential(conv(3, o.width, 2), conv(o.width, o.width), conv(o.width, 2 * o.width, 2), conv(2 * o.width, 2 * o.width), nn.Conv2d(2 * o.width, 64, 1))
        self.radius, self.rounds = o.radius, o.rounds
        self.state = nn.Conv2d(64 + (2 * o.radius + 1) ** 2 + 2, 96, 3, padding=1)
        self.update, self.delta = nn.Conv2d(192, 96, 3, padding=1), nn.Conv2d(96, 2, 3, padding=1)

    def forward(self, first, second):
        a, b = self.features(first), self.features(second)
        flow, h, flows = a.new_zeros(len(a), 2, *a.shape[2:]), a.new_zeros(len(a), 96, *a.shape[2:]), []
        line = torch.stack(torch.meshgrid(torch.linspace(-1, 1, a.shape[2], device=a.device), torch.linspace(-1, 1, a.shape[3], device=a.device), indexing="ij")[::-1], dim=-1)
        for _ in range(self.rounds):
            flow = flow.detach()
            moved = F.grid_sample(b, line.to(b.dtype) + flow.permute(0, 2, 3, 1).to(b.dtype), align_corners=True)
            near = [(a * moved.roll((dy, dx), (2, 3))).mean(1) for dy in range(-self.radius, self.radius + 1) for dx in range(-self.radius, self.radius + 1)]
            seen = self.state(torch.cat([a, torch.stack(near, dim=1), flow.to(a.dtype)], dim=1)).relu()
            h = torch.tanh(self.update(torch.cat([h.to(seen.dtype), seen], dim=1)))
            flow = flow + self.delta(h)
            flows.append(flow)
        return flows


@job("optical_flow", "optical flow", "loop", "eval", "dataset")
class OpticalFlow(Loop):
    """Every refinement is compared with the motion that is known, later ones weighing more."""
    kinds = "adamw", "adam"
    precisions = "fp32", "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.width, self.radius, self.rounds, self.size, self.pixels = r.choice([32, 48]), r.choice([1, 2]), r.choice([4, 6]), r.choice([2, 4]), r.choice([256, 320])
        self.choose()

    def build(self):
        self.finish(FlowNet(self))
        self.dataset = torch.zeros(16, 2, 3, self.pixels, self.pixels, dtype=torch.uint8),

    def batch(self, i):
        return cut(self.dataset, i, self.size).to(self.dtype) / 255

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[:, 0], batch[:, 1])[-1]

    def loss(self, batch):
        with self.autocast():
            flows = self.model(batch[:, 0], batch[:, 1])
        return sum(0.8 ** (len(flows) - k) * flow.float().abs().mean() for k, flow in enumerate(flows))

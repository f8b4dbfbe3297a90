"""Jobs of further fields: weather, operators, hierarchies of latents, energies, tracking, medical volumes, growing images, printed text."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from core import DEVICE, job
from jobs_images import EncoderBlock, ImageLoop
from parts import Loop, cut


def mlp(cin, width, cout):
    return nn.Sequential(nn.Linear(cin, width), nn.SiLU(), nn.Linear(width, cout), nn.LayerNorm(cout))


class Interaction(nn.Module):
    """Edges learn from their ends, and nodes from the sum of their edges."""

    def __init__(self, width):
        super().__init__()
        self.of_edges, self.of_nodes = mlp(3 * width, width, width), mlp(2 * width, width, width)

    def forward(self, sources, targets, edges, ends):
        start, end = ends
        edges = edges + self.of_edges(torch.cat([sources[:, start], targets[:, end], edges], dim=-1))
        collected = torch.zeros_like(targets).index_add_(1, end, edges.to(targets.dtype))
        return targets + self.of_nodes(torch.cat([targets, collected], dim=-1)), edges


class GraphForecaster(nn.Module):
    """From the grid to a coarse mesh, some rounds on the mesh, and back to the grid: the change until the next state."""

    def __init__(self, o):
        super().__init__()
        self.to_grid, self.to_mesh = mlp(o.variables, o.width, o.width), nn.Parameter(torch.zeros(o.nodes, o.width))
        self.edges = nn.ParameterList(torch.zeros(n, o.width) for n in (3 * o.points, 6 * o.nodes, 3 * o.points))
        self.encoder, self.decoder = Interaction(o.width), Interaction(o.width)
        self.processor = nn.ModuleList(Interaction(o.width) for _ in range(o.layers))
        self.head = nn.Linear(o.width, o.variables)
        for name, starts, ends, number in (("up", o.points, o.nodes, 3 * o.points), ("mesh", o.nodes, o.nodes, 6 * o.nodes),
                                           ("down", o.nodes, o.points, 3 * o.points)):
            self.register_buffer(name, torch.stack([torch.arange(number) % starts, torch.arange(number) % ends]))

    def forward(self, state):
        grid, mesh = self.to_grid(state), self.to_mesh.expand(len(state), -1, -1)
        up, inner, down = (e.expand(len(state), -1, -1) for e in self.edges)
        mesh = self.encoder(grid, mesh, up, self.up)[0]
        for layer in self.processor:
            mesh, inner = layer(mesh, mesh, inner, self.mesh)
        return state + self.head(self.decoder(mesh, grid, down, self.down)[0])


@job("graph_weather", "weather", "loop", "layers", "eval", "dataset")
class GraphWeather(Loop):
    """Two states that follow each other, each of which is predicted from the one before."""
    accumulated = 1, 1, 2
    precisions = "fp32", "autocast", "bf16"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.variables = r.choice([3, 4, 6]), r.choice([96, 128, 192]), r.choice([39, 78])
        self.points, self.nodes, self.size, self.rollout = r.choice([8192, 16384]), r.choice([2562, 5120]), r.choice([1, 2]), r.choice([1, 2])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(GraphForecaster(self))
        self.dataset = torch.zeros(8, self.rollout + 1, self.points, self.variables),

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[:, 0].to(self.dtype))

    def loss(self, batch):
        state, total = batch[:, 0].to(self.dtype), 0
        with self.autocast():
            for k in range(self.rollout):
                state = self.model(state)
                total = total + F.mse_loss(state.float(), batch[:, k + 1])
        return total / self.rollout


class SpectralLayer(nn.Module):
    """The lowest waves of a field, along rows and then along columns, are mixed by learned matrices; transforms are products with their bases."""

    def __init__(self, width, modes, side):
        super().__init__()
        bound = 1 / width
        self.rows, self.columns = (nn.Parameter(bound * torch.rand(2 * modes, width, width)) for _ in range(2))
        self.local, self.norm = nn.Conv2d(width, width, 1), nn.GroupNorm(4, width)
        angles = 2 * torch.pi * torch.arange(side)[:, None] * torch.arange(modes)[None] / side
        self.register_buffer("basis", torch.cat([angles.cos(), angles.sin()], dim=1) / side ** 0.5)

    def forward(self, x):
        basis = self.basis.to(x.dtype)
        along_rows = torch.einsum("bchw,wm->bchm", x, basis)
        along_rows = torch.einsum("bchm,mcd->bdhm", along_rows, self.rows) @ basis.T
        along_columns = torch.einsum("bchw,hm->bcmw", x, basis)
        along_columns = torch.einsum("bdmw,hm->bdhw", torch.einsum("bcmw,mcd->bdmw", along_columns, self.columns), basis)
        return F.gelu(self.norm(along_rows + along_columns + self.local(x))) + x


class FourierOperator(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.lift = nn.Conv2d(o.channels + 2, o.width, 1)
        self.layers = nn.ModuleList(SpectralLayer(o.width, o.modes, o.side) for _ in range(o.layers))
        self.project = nn.Sequential(nn.Conv2d(o.width, 4 * o.width, 1), nn.GELU(), nn.Conv2d(4 * o.width, o.channels, 1))
        line = torch.linspace(0, 1, o.side)
        self.register_buffer("places", torch.stack(torch.meshgrid(line, line, indexing="ij")))

    def forward(self, field):
        x = self.lift(torch.cat([field, self.places.to(field.dtype).expand(len(field), -1, -1, -1)], dim=1))
        for layer in self.layers:
            x = layer(x)
        return self.project(x)


@job("fourier_operator", "neural operator", "loop", "layers", "eval", "dataset")
class Operator(Loop):
    """A field of a fluid at the end, from the field at the start; the loss is relative, of values and of differences."""
    accumulated = 1, 1, 2

    def draw(self):
        r = self.rng
        self.layers, self.width, self.modes, self.channels = r.choice([3, 4, 6]), r.choice([32, 48, 64]), r.choice([12, 16, 24]), r.choice([1, 3])
        self.side, self.size = r.choice([128, 192, 256]), r.choice([4, 8, 16])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(FourierOperator(self))
        self.dataset = torch.zeros(48, self.channels, self.side, self.side), torch.zeros(48, self.channels, self.side, self.side)

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0].to(self.dtype))

    def loss(self, batch):
        found, wanted = self.predict(batch).float(), batch[1]
        error = (found - wanted).flatten(1).norm(dim=1) / (wanted.flatten(1).norm(dim=1) + 1e-6)
        return error.mean() + 0.1 * sum((found.diff(dim=d) - wanted.diff(dim=d)).abs().mean() for d in (2, 3))


class LatentLevel(nn.Module):
    """A prior from what is above, a posterior from that and the encoder's features, and a sample of it."""

    def __init__(self, width, latent):
        super().__init__()
        def body(cin, cout):
            return nn.Sequential(nn.SiLU(), nn.Conv2d(cin, width, 3, padding=1), nn.SiLU(), nn.Conv2d(width, cout, 3, padding=1))
        self.prior, self.posterior = body(width, 2 * latent + width), body(2 * width, 2 * latent)
        self.mix, self.residual = nn.Conv2d(latent, width, 1), body(width, width)

    def forward(self, x, features):
        pm, pv, more = self.prior(x).split([self.mix.in_channels, self.mix.in_channels, x.shape[1]], dim=1)
        qm, qv = self.posterior(torch.cat([x, features], dim=1)).chunk(2, dim=1)
        z = qm + torch.randn_like(qm) * qv.exp()
        kl = pv - qv + 0.5 * (qv.exp() ** 2 + (qm - pm) ** 2) * torch.exp(-2 * pv) - 0.5
        x = x + more + self.mix(z)
        return x + self.residual(x), kl.float().sum((1, 2, 3)).mean()


class LadderAutoencoder(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.stem, self.scales = nn.Conv2d(3, o.width, 3, padding=1), o.scales
        self.down = nn.ModuleList(nn.Sequential(nn.SiLU(), nn.Conv2d(o.width, o.width, 3, padding=1)) for _ in range(o.scales * o.layers))
        self.top, self.every = nn.Parameter(torch.zeros(1, o.width, 1, 1)), o.layers
        self.levels = nn.ModuleList(LatentLevel(o.width, o.latent) for _ in range(o.scales * o.layers))
        self.out = nn.Conv2d(o.width, 3 * 16, 1)

    def forward(self, images):
        x, features = self.stem(images), []
        for k, block in enumerate(self.down):
            x = x + block(x)
            features.append(x)
            if k % self.every == self.every - 1 and k < len(self.down) - 1:
                x = F.avg_pool2d(x, 2)
        x, divergence = self.top.expand_as(x), 0
        for k, level in enumerate(self.levels):
            wanted = features[-1 - k]
            if x.shape[-1] != wanted.shape[-1]:
                x = F.interpolate(x, scale_factor=2)
            x, kl = level(x, wanted)
            divergence = divergence + kl
        return self.out(x), divergence


@job("ladder_autoencoder", "hierarchy of latents", "loop", "images", "layers", "eval")
class Ladder(ImageLoop):
    """Images through latents of several scales; each pixel's byte is told by bins."""
    kinds = "adamw", "adamw_fused", "adam"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.latent, self.scales = r.choice([2, 3]), r.choice([64, 96, 128]), r.choice([16, 32]), r.choice([3, 4])
        self.draw_images([64, 96, 128], [8, 16, 32])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(LadderAutoencoder(self))

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])[0]

    def loss(self, batch):
        with self.autocast():
            told, divergence = self.model(batch[0])
        bins = (batch[0].float() * 15).long()
        told = told.float().unflatten(1, (16, 3))
        return F.cross_entropy(told, bins) + divergence / batch[0][0].numel()


class EnergyNet(nn.Module):
    def __init__(self, o):
        super().__init__()
        widths = [3] + [o.width << k for k in range(4)]
        self.body = nn.Sequential(*[layer for a, b in zip(widths, widths[1:])
                                    for layer in (nn.Conv2d(a, b, 3, padding=1), nn.SiLU(), nn.Conv2d(b, b, 4, 2, 1), nn.SiLU())])
        self.energy = nn.Linear(widths[-1], 1)

    def forward(self, images):
        return self.energy(self.body(images).mean((2, 3))).squeeze(-1)


@job("energy_model", "energies", "loop", "images", "eval")
class EnergyModel(ImageLoop):
    """Energies of real images against those of samples, which a few steps along the energy's gradient have made."""
    precisions = "fp32", "fp32", "autocast"
    kinds = "adam", "adamw", "sgd_momentum"
    accumulated = 1, 1, 2

    def draw(self):
        r = self.rng
        self.width, self.walk = r.choice([32, 48, 64]), r.choice([4, 6])
        self.draw_images([96, 128, 160], [32, 48, 64])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(EnergyNet(self))

    def samples(self, like):
        x = torch.rand_like(like)
        with torch.enable_grad():
            for _ in range(self.walk):
                x = x.detach().requires_grad_()
                slope, = torch.autograd.grad(self.model(x).sum(), x)
                x = x - 10 * slope + 0.005 * torch.randn_like(x)
        return x.detach()

    def loss(self, batch):
        with self.autocast():
            false = self.samples(batch[0])
            real, made = self.model(batch[0]).float(), self.model(false).float()
        return real.mean() - made.mean() + 0.1 * (real ** 2 + made ** 2).mean()


class Towers(nn.Module):
    """Features of a patch and of a region around it, their correlation, and from that where the object is."""

    def __init__(self, width):
        super().__init__()
        layers, cin = [], 3
        for k in range(4):
            layers += [nn.Conv2d(cin, width << min(k, 2), 3, 2 if k < 3 else 1, 1), nn.BatchNorm2d(width << min(k, 2)), nn.ReLU(True)]
            cin = width << min(k, 2)
        self.backbone = nn.Sequential(*layers)
        self.scores, self.boxes = (nn.Sequential(nn.Conv2d(cin, cin, 3, padding=1), nn.ReLU(True), nn.Conv2d(cin, n, 1)) for n in (2, 4))

    def forward(self, patch, region):
        kernel, field = self.backbone(patch), self.backbone(region)
        b, c = field.shape[:2]
        response = F.conv2d(field.reshape(1, b * c, *field.shape[2:]), kernel.reshape(b * c, 1, *kernel.shape[2:]), groups=b * c)
        response = response.reshape(b, c, *response.shape[2:])
        return self.scores(response), self.boxes(response)


@job("siamese_tracker", "tracking", "loop", "eval", "dataset")
class Tracker(Loop):
    """An object's patch, looked for in the next frame's region."""
    kinds = "sgd_momentum", "adamw", "adam"

    def draw(self):
        r = self.rng
        self.width, self.size, self.region = r.choice([48, 64, 96]), r.choice([24, 32, 48]), r.choice([255, 287])
        self.choose()

    def build(self):
        self.finish(Towers(self.width))
        self.dataset = torch.zeros(96, 3, 127, 127, dtype=torch.uint8), torch.zeros(96, 3, self.region, self.region, dtype=torch.uint8)

    def batch(self, i):
        return [images.to(self.dtype) / 255 for images in cut(self.dataset, i, self.size)]

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch)[0]

    def loss(self, batch):
        with self.autocast():
            scores, boxes = self.model(*batch)
        wanted = torch.zeros(len(scores), *scores.shape[2:], dtype=torch.long, device=DEVICE)
        return F.cross_entropy(scores.float(), wanted) + 0.5 * F.smooth_l1_loss(boxes.float(), torch.zeros_like(boxes, dtype=torch.float32))


def volume_block(cin, cout):
    return nn.Sequential(nn.Conv3d(cin, cout, 3, padding=1), nn.InstanceNorm3d(cout, affine=True), nn.LeakyReLU(0.01, True),
                         nn.Conv3d(cout, cout, 3, padding=1), nn.InstanceNorm3d(cout, affine=True), nn.LeakyReLU(0.01, True))


class VolumeNet(nn.Module):
    """A U-Net of volumes, with a head at each of its upper levels."""

    def __init__(self, o):
        super().__init__()
        widths = [o.width << k for k in range(o.depth)]
        self.down = nn.ModuleList(volume_block(a, b) for a, b in zip([o.channels, *widths], widths))
        self.up = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.merge = nn.ModuleList(volume_block(2 * a, a) for a in widths[:-1])
        self.heads = nn.ModuleList(nn.Conv3d(a, o.organs, 1) for a in widths[:2])

    def forward(self, x):
        skips, outputs = [], []
        for k, block in enumerate(self.down):
            x = block(F.max_pool3d(x, 2) if k else x)
            skips.append(x)
        for k in reversed(range(len(self.up))):
            x = self.merge[k](torch.cat([self.up[k](x), skips[k]], dim=1))
            if k < len(self.heads):
                outputs.append(self.heads[k](x))
        return outputs[::-1]


def overlap_loss(scores, wanted, classes):
    """Soft Dice, class by class."""
    p = scores.softmax(1)
    terms = [2 * (p[:, c] * (wanted == c)).sum() / (p[:, c].sum() + (wanted == c).sum() + 1) for c in range(classes)]
    return 1 - torch.stack(terms).mean()


@job("volume_segmentation", "medical volumes", "loop", "eval", "dataset")
class Volumes(Loop):
    """Organs in patches of a scan, with losses at two scales."""
    kinds = "sgd_momentum", "adamw", "adam"
    precisions = "fp32", "autocast", "autocast"

    def draw(self):
        r = self.rng
        self.width, self.depth, self.channels, self.organs = r.choice([16, 24, 32]), r.choice([3, 4]), r.choice([1, 4]), r.choice([3, 8, 14])
        self.edge, self.size = r.choice([64, 80, 96]), r.choice([2, 2, 4])
        self.choose()

    def build(self):
        self.finish(VolumeNet(self))
        self.dataset = (torch.zeros(8, self.channels, self.edge, self.edge, self.edge, dtype=torch.float16),
                        torch.zeros(8, self.edge, self.edge, self.edge, dtype=torch.uint8))

    def batch(self, i):
        scans, organs = cut(self.dataset, i, self.size)
        return scans.to(self.dtype), organs.long()

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])[0]

    def loss(self, batch):
        with self.autocast():
            outputs = self.model(batch[0])
        total = 0
        for k, scores in enumerate(outputs):
            wanted = batch[1][:, ::1 << k, ::1 << k, ::1 << k]
            total = total + 0.5 ** k * (F.cross_entropy(scores.float(), wanted) + overlap_loss(scores.float(), wanted, self.organs))
        return total


@job("growing_images", "growing resolution", "loop", "images", "layers", "eval")
class GrowingImages(ImageLoop):
    """A classifier that sees small images first and larger ones later; positions are interpolated."""

    def draw(self):
        r = self.rng
        self.layers, self.width, self.patch = r.choice([3, 4, 6]), r.choice([256, 384, 512]), 16
        self.draw_images([192, 224, 256], [16, 32, 48])
        self.first = r.choice([2, 3])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            net = nn.Module()
            net.patches, net.positions = nn.Conv2d(3, self.width, self.patch, self.patch), nn.Parameter(torch.zeros(1, self.width, 8, 8))
            net.blocks = nn.ModuleList(EncoderBlock(self.width, 8, "sdpa") for _ in range(self.layers))
            net.head = nn.Linear(self.width, self.classes)
            net.forward = lambda images: self.scores(net, images)
            self.finish(net)

    @staticmethod
    def scores(net, images):
        x = net.patches(images)
        x = (x + F.interpolate(net.positions, size=x.shape[2:], mode="bilinear").to(x.dtype)).flatten(2).transpose(1, 2)
        for block in net.blocks:
            x = block(x)
        return net.head(x.mean(1))

    def step(self, i):
        self.now = min(i, self.first)
        return super().step(i)

    def batch(self, i):
        images, labels = super().batch(i)
        side = self.pixels * (1 + getattr(self, "now", self.first)) // (1 + self.first) // self.patch * self.patch
        return F.interpolate(images, size=(side, side), mode="bilinear"), labels

    def loss(self, batch):
        return F.cross_entropy(self.predict(batch).float(), batch[1], label_smoothing=0.1)


class LineReader(nn.Module):
    """Convolutions that keep the width, a mix of each column with its neighbours, and a score for each letter at each column."""

    def __init__(self, o):
        super().__init__()
        cells, cin = [], 1
        for k, (cout, pool) in enumerate(((o.width, (2, 2)), (2 * o.width, (2, 2)), (4 * o.width, (2, 1)), (4 * o.width, (2, 1)))):
            cells += [nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(True), nn.MaxPool2d(pool)]
            cin = cout
        self.columns = nn.Sequential(*cells)
        self.reader = nn.Linear(cin * 2, 3 * o.hidden)
        self.mix, self.letters = nn.Sequential(nn.Linear(3 * o.hidden, o.hidden), nn.GELU(), nn.Linear(o.hidden, o.hidden)), nn.Linear(o.hidden, o.letters)
        self.context = nn.Conv1d(o.hidden, o.hidden, 9, padding=4)

    def forward(self, lines):
        x = self.columns(lines)
        x = self.mix(self.reader(x.flatten(1, 2).transpose(1, 2)))
        return self.letters(x + self.context(x.transpose(1, 2)).transpose(1, 2))


@job("line_reader", "printed text", "loop", "eval", "dataset")
class TextRecognition(Loop):
    """Lines of printed text, each column of which tells a letter or a blank."""

    def draw(self):
        r = self.rng
        self.width, self.hidden, self.letters = r.choice([32, 48, 64]), r.choice([256, 512]), r.choice([97, 6623])
        self.size, self.line = r.choice([16, 32, 64]), r.choice([320, 512, 768])
        self.choose()

    def build(self):
        self.finish(LineReader(self))
        self.dataset = torch.zeros(192, 1, 32, self.line, dtype=torch.uint8), torch.ones(192, 24, dtype=torch.long)

    def batch(self, i):
        lines, letters = cut(self.dataset, i, self.size)
        return lines.to(self.dtype) / 255, letters

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        scores = self.predict(batch).float().log_softmax(-1)
        wanted = batch[1].repeat_interleave(scores.shape[1] // batch[1].shape[1] + 1, dim=1)[:, :scores.shape[1]]
        return F.nll_loss(scores.flatten(0, 1), wanted.flatten())

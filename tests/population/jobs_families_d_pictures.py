"""Jobs of further fields: blobs, image tokens, frames to come, captions, one large graph."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from core import DEVICE, job
from jobs_images import ImageLoop, ResBlock
from parts import OPTIMIZERS, Loop, cut


@job("blobs", "splatting", "loop", "eval", "dataset")
class Blobs(Loop):
    """A picture of coloured blobs, rendered some rows at a time, each of which backward renders again."""
    precisions = "fp32",
    kinds = "adam", "adamw", "adamw_loop"
    clips = 0,

    def draw(self):
        r = self.rng
        self.number, self.pixels, self.size, self.parts = r.choice([1024, 2048, 4096]), r.choice([96, 128, 192]), r.choice([1, 2]), r.choice([8, 16])
        self.choose()

    def build(self):
        self.finish(nn.ParameterDict({"places": torch.zeros(self.number, 2), "scales": torch.ones(self.number, 2), "colours": torch.zeros(self.number, 3),
                                      "opacity": torch.zeros(self.number)}))
        self.dataset = torch.zeros(12, self.pixels ** 2, 3),

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def rendered(self, pixels):
        net = self.model
        apart = (pixels[:, None] - net["places"]) * net["scales"]
        alpha = net["opacity"].sigmoid() * torch.exp(-0.5 * apart.square().sum(-1))
        return (alpha * torch.exp(torch.log1p(-0.99 * alpha).cumsum(1))) @ net["colours"]

    def predict(self, batch):
        line = torch.linspace(0, 1, self.pixels, device=DEVICE)
        pixels = torch.stack(torch.meshgrid(line, line, indexing="ij"), dim=-1).flatten(0, 1)
        return torch.cat([checkpoint(self.rendered, part, use_reentrant=False) for part in pixels.chunk(self.parts)])

    def loss(self, batch):
        return F.l1_loss(self.predict(batch).expand_as(batch), batch)


class TokenNet(nn.Module):
    """Images to a map of entries of a book, and back."""

    def __init__(self, o):
        super().__init__()
        def stage(cin, cout):
            return nn.ModuleList([ResBlock(cin, cout, 8), ResBlock(cout, cout, 8)])
        self.stem, self.out, self.known = nn.Conv2d(3, o.base, 3, padding=1), nn.Conv2d(o.base, 3, 3, padding=1), nn.Parameter(torch.zeros(1, 8))
        self.down = nn.ModuleList([stage(o.base, 2 * o.base), stage(2 * o.base, 4 * o.base)])
        self.up = nn.ModuleList([stage(4 * o.base, 2 * o.base), stage(2 * o.base, o.base)])
        self.into, self.back, self.book = nn.Conv2d(4 * o.base, 64, 1), nn.Conv2d(64, 4 * o.base, 1), nn.Embedding(o.entries, 64)

    def stages(self, parts, x, scale):
        for stage in parts:
            for block in stage:
                x = block(x, self.known)
            x = F.interpolate(x, scale_factor=scale)
        return x

    def forward(self, images):
        z = self.into(self.stages(self.down, self.stem(images), 0.5)).float()
        flat = z.permute(0, 2, 3, 1).flatten(0, 2)
        with torch.no_grad():
            nearest = torch.cat([torch.cdist(part, self.book.weight.float()).argmin(1) for part in flat.split(1024)])
        found = self.book(nearest).float().view(len(z), *z.shape[2:], -1).permute(0, 3, 1, 2)
        through = z + (found - z).detach()
        return self.out(self.stages(self.up, self.back(through.to(images.dtype)), 2)), F.mse_loss(found, z.detach()) + 0.25 * F.mse_loss(z, found.detach())


@job("image_tokens", "image tokens", "loop", "two optimizers", "images", "eval")
class ImageTokens(ImageLoop):
    """An autoencoder with a book of entries, and a critic of patches with an optimizer of its own."""
    kinds = "adam", "adamw"
    precisions = "fp32", "autocast"
    accumulated = 1,

    def draw(self):
        r = self.rng
        self.base, self.entries = r.choice([32, 48, 64]), r.choice([1024, 8192])
        self.draw_images([64, 96, 128], [4, 8, 16])
        self.choose()

    def build(self):
        self.finish(TokenNet(self))
        layers = [nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2, True), nn.Conv2d(64, 128, 4, 2, 1), nn.LeakyReLU(0.2, True), nn.Conv2d(128, 1, 4, 1, 1)]
        self.critic = nn.Sequential(*layers).to(DEVICE)
        self.optimizers.append(OPTIMIZERS[self.kind](self.critic.parameters()))

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])[0]

    def update_critic(self, real, made):
        with self.autocast():
            loss = F.relu(1 - self.critic(real)).mean() + F.relu(1 + self.critic(made.detach())).mean()
        self.optimizers[1].zero_grad()
        loss.backward()
        self.optimizers[1].step()

    def loss(self, batch):
        with self.autocast():
            made, book = self.model(batch[0])
        if torch.is_grad_enabled():
            self.update_critic(batch[0], made)
        with self.autocast():
            return F.l1_loss(made.float(), batch[0].float()) + book - 0.1 * self.critic(made).float().mean()

    def optimize(self):
        self.optimizers[0].step()


class ConvCell(nn.Module):
    """A recurrent cell whose states are maps."""

    def __init__(self, cin, width):
        super().__init__()
        self.gates, self.width = nn.Conv2d(cin + width, 4 * width, 3, padding=1), width

    def forward(self, x, state):
        h, c = state
        i, f, o, g = self.gates(torch.cat([x, h.to(x.dtype)], dim=1)).chunk(4, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class NextFrames(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.into, self.out = nn.Conv2d(1, o.width, 4, 4), nn.ConvTranspose2d(o.width, 1, 4, 4)
        self.cells, self.shown = nn.ModuleList(ConvCell(o.width, o.width) for _ in range(o.layers)), o.shown

    def forward(self, frames):
        x = self.into(frames[:, 0])
        states, made = [(torch.zeros_like(x), torch.zeros_like(x)) for _ in self.cells], []
        for t in range(frames.shape[1] - 1):
            x = self.into(frames[:, t] if t < self.shown else made[-1])
            for k, cell in enumerate(self.cells):
                states[k] = cell(x, states[k])
                x = states[k][0]
            made.append(self.out(x))
        return torch.stack(made, dim=1)


@job("frames_to_come", "frames to come", "loop", "layers", "eval", "dataset")
class FramesToCome(Loop):
    """A radar's next frames from those that were shown, each from the one before."""
    kinds = "adam", "adamw", "sgd_momentum"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.frames, self.pixels, self.size = r.choice([2, 3]), r.choice([32, 64]), r.choice([10, 14]), r.choice([128, 192]), r.choice([4, 8])
        self.shown = self.frames // 2
        self.choose()

    def build(self):
        self.finish(NextFrames(self))
        self.dataset = torch.zeros(24, self.frames, 1, self.pixels, self.pixels, dtype=torch.uint8),

    def batch(self, i):
        return cut(self.dataset, i, self.size).to(self.dtype) / 255

    def predict(self, batch):
        with self.autocast():
            return self.model(batch)

    def loss(self, batch):
        return F.mse_loss(self.predict(batch).float(), batch[:, 1:].float())


class Captioner(nn.Module):
    """A convolutional encoder, and a recurrent decoder that looks at its map for each word."""

    def __init__(self, o):
        super().__init__()
        layers, cin = [], 3
        for k in range(4):
            layers += [nn.Conv2d(cin, o.base << k, 3, 2, 1), nn.BatchNorm2d(o.base << k), nn.ReLU(True)]
            cin = o.base << k
        self.encode, self.embed = nn.Sequential(*layers), nn.Embedding(o.vocabulary, o.width)
        self.cell, self.out = nn.LSTMCell(o.width + cin, o.width), nn.Linear(o.width, o.vocabulary)
        self.seen, self.asked, self.score = nn.Linear(cin, o.width), nn.Linear(o.width, o.width), nn.Linear(o.width, 1)

    def forward(self, images, words):
        places = self.encode(images).flatten(2).transpose(1, 2)
        seen, told = self.seen(places), self.embed(words)
        h = c = told.new_zeros(len(images), told.shape[2])
        states = []
        for t in range(words.shape[1]):
            weight = self.score(torch.tanh(seen + self.asked(h)[:, None])).softmax(1)
            h, c = self.cell(torch.cat([told[:, t], (weight * places).sum(1)], dim=1), (h, c))
            states.append(h)
        return self.out(torch.stack(states, dim=1))


@job("captions", "captions", "loop", "images", "eval")
class Captions(ImageLoop):
    """A sentence for each image, word by word."""
    kinds = "adam", "adamw"
    precisions = "fp32",

    def draw(self):
        r = self.rng
        self.base, self.width, self.vocabulary, self.words = r.choice([32, 48]), r.choice([256, 512]), r.choice([5000, 10000, 20000]), r.choice([16, 20])
        self.draw_images([128, 192, 224], [16, 32, 64])
        self.choose()

    def build(self):
        self.finish(Captioner(self))

    def sentences(self, batch):
        return torch.zeros(len(batch[0]), self.words, dtype=torch.long, device=DEVICE)

    def predict(self, batch):
        return self.model(batch[0], self.sentences(batch))

    def loss(self, batch):
        return F.cross_entropy(self.predict(batch).flatten(0, 1), self.sentences(batch).flatten())


class Attending(nn.Module):
    """Weights of edges by both ends, made to sum to one at each node."""

    def __init__(self, cin, heads, each):
        super().__init__()
        self.project, self.heads = nn.Linear(cin, heads * each), heads
        self.source, self.target = nn.Parameter(torch.zeros(heads, each)), nn.Parameter(torch.zeros(heads, each))

    def forward(self, x, start, end):
        h = self.project(x).unflatten(1, (self.heads, -1))
        score = F.leaky_relu((h * self.source).sum(-1)[start] + (h * self.target).sum(-1)[end], 0.2).exp()
        total = torch.zeros(len(x), self.heads, device=x.device, dtype=score.dtype).index_add_(0, end, score)
        weight = score / (total[end] + 1e-6)
        return torch.zeros_like(h).index_add_(0, end, h[start] * weight[..., None]).flatten(1)


@job("whole_graph", "whole graph", "loop", "layers", "eval")
class WholeGraph(Loop):
    """A class for each node of one graph, all of which every step sees."""
    precisions = "fp32",
    accumulated = 1,

    def draw(self):
        r = self.rng
        self.layers, self.heads, self.each = r.choice([2, 3]), r.choice([4, 8]), r.choice([16, 32])
        self.nodes, self.degree, self.classes = r.choice([20000, 40000]), r.choice([8, 14]), 40
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            width = self.heads * self.each
            self.finish(nn.ModuleDict({"convs": nn.ModuleList(Attending(128 if k == 0 else width, self.heads, self.each) for k in range(self.layers)),
                                       "head": nn.Linear(width, self.classes)}))
        end = torch.arange(self.nodes, device=DEVICE).repeat_interleave(self.degree)
        self.graph = torch.zeros(self.nodes, 128, device=DEVICE), (end + 1) % self.nodes, end

    def batch(self, i):
        return self.graph

    def predict(self, batch):
        x, start, end = batch
        for conv in self.model["convs"]:
            x = F.elu(conv(x, start, end))
        return self.model["head"](x)

    def loss(self, batch):
        return F.cross_entropy(self.predict(batch), torch.zeros(self.nodes, dtype=torch.long, device=DEVICE))

"""Jobs of sound, signals, science and players: echoes taken out, muscles that type, electrons of a molecule, people who write to each other,
routes of a courier, buttons nobody pressed."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from core import DEVICE, job
from jobs_families_q import FeedForward, attention_of, split_heads
from jobs_images import EncoderBlock
from parts import Loop, cut


def rows_of(dataset, i, size):
    """Rows of each tensor, which stay on the host."""
    start = i * size % max(1, len(dataset[0]) - size + 1)
    return [tensor[start:start + size] for tensor in dataset]


class BothAxes(nn.Module):
    """Reads the bands of each moment in both directions, then the moments of each band forwards."""

    def __init__(self, w):
        super().__init__()
        self.bands, self.moments = nn.GRU(w, w // 2, batch_first=True, bidirectional=True), nn.GRU(w, w, batch_first=True)
        self.norms, self.joins = nn.ModuleList(nn.LayerNorm(w) for _ in range(2)), nn.ModuleList(nn.Linear(w, w) for _ in range(2))

    def forward(self, x):
        """(rows, channels, bands, moments)."""
        rows, _, bands, moments = x.shape
        y = x.permute(0, 3, 2, 1)
        y = y + self.norms[0](self.joins[0](self.bands(y.flatten(0, 1))[0])).unflatten(0, (rows, moments))
        y = y.transpose(1, 2)
        y = y + self.norms[1](self.joins[1](self.moments(y.flatten(0, 1))[0])).unflatten(0, (rows, bands))
        return y.permute(0, 3, 1, 2)


class EchoNet(nn.Module):
    """Spectra of what the microphone heard and of what the loudspeaker said, to a factor for each number of the first."""

    def __init__(self, o):
        super().__init__()
        sizes = [4, o.base, o.base, 2 * o.base]
        self.down = nn.ModuleList(nn.Sequential(nn.Conv2d(i, j, (5, 3), (2, 1), (2, 1)), nn.BatchNorm2d(j), nn.PReLU()) for i, j in zip(sizes, sizes[1:]))
        self.middle = nn.ModuleList(BothAxes(sizes[-1]) for _ in range(o.layers))
        self.up = nn.ModuleList(nn.Sequential(nn.ConvTranspose2d(2 * j, i, (5, 3), (2, 1), (2, 1)), nn.BatchNorm2d(i), nn.PReLU())
                                for i, j in zip([o.base, o.base, 16], sizes[:0:-1]))
        self.out = nn.Conv2d(16, 2, 1)

    def forward(self, spectra):
        x, kept = spectra, []
        for part in self.down:
            x = part(x)
            kept.append(x)
        for part in self.middle:
            x = part(x)
        for part in self.up:
            x = part(torch.cat([x, kept.pop()], dim=1))
        return self.out(x)


@job("echoes_taken_out", "echoes taken out", "loop", "layers", "eval", "dataset", "crop")
class EchoesTakenOut(Loop):
    """Calls in which the other side hears itself: what the loudspeaker said is taken out of what the microphone heard, and the near voice stays."""
    kinds, precisions, accumulated, longest, window = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "autocast"), (1, 1, 2), 160000, 320

    def draw(self):
        r = self.rng
        self.layers, self.base = r.choice([1, 2]), r.choice([32, 48, 64])
        self.length, self.size = r.choice([48000, 64000, 96000]), r.choice([8, 12, 16])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(EchoNet(self))
            self.hann = torch.hann_window(self.window)
        self.dataset = tuple(torch.zeros(32, self.longest, dtype=torch.float16) for _ in range(3))

    def batch(self, i):
        return [t[:, :self.length].to(DEVICE, torch.float32) for t in rows_of(self.dataset, i, self.size)]

    def spectrum(self, wave):
        return torch.stft(wave, self.window, self.window // 2, window=self.hann, return_complex=True)

    def heard(self, batch):
        """The near voice, as a wave and as a spectrum."""
        near, far = (self.spectrum(wave) for wave in batch[:2])
        given = torch.cat([torch.view_as_real(t).permute(0, 3, 1, 2) for t in (near, far)], dim=1)
        with self.autocast():
            factor = self.model(given.to(self.dtype))
        factor = torch.view_as_complex(factor.float().permute(0, 2, 3, 1).contiguous())[:, :near.shape[1], :near.shape[2]]
        clean, half, samples = near * factor, self.window // 2, batch[0].shape[1]
        parts = torch.fft.irfft(clean, n=self.window, dim=1)
        whole = F.fold(parts, (1, half * (parts.shape[2] + 1)), (1, self.window), stride=(1, half)).flatten(1)
        return whole[:, half:half + samples], clean

    def predict(self, batch):
        return self.heard(batch)[0]

    def loss(self, batch):
        wave, clean = self.heard(batch)
        wanted, right = self.spectrum(batch[2]), batch[2][:, :wave.shape[1]]
        share = (wave * right).sum(-1, keepdim=True) / right.square().sum(-1, keepdim=True).clamp(min=1e-6)
        ratio = (share * right).square().sum(-1) / (wave - share * right).square().sum(-1).clamp(min=1e-6)
        off = ((clean.abs() + 1e-6) ** 0.3 - (wanted.abs() + 1e-6) ** 0.3).square().mean()
        return 10 * off - 0.1 * ratio.clamp(min=1e-6).log10().mean()


class Electrodes(nn.Module):
    """A band of electrodes around an arm, which may sit a little turned: the mean over three turns of it."""

    def __init__(self, cin, w):
        super().__init__()
        self.read = nn.Sequential(nn.Linear(cin, w), nn.ReLU(), nn.Linear(w, w), nn.ReLU())

    def forward(self, x):
        """(rows, moments, electrodes, bands)."""
        return torch.stack([self.read(x.roll(n, 2).flatten(2)) for n in (-1, 0, 1)]).mean(0)


class NearMoments(nn.Module):
    """A convolution in time for parts of the channels, then two layers of all of them."""

    def __init__(self, w, parts):
        super().__init__()
        self.parts, self.near, self.norms = parts, nn.Conv2d(parts, parts, (1, 17), padding=(0, 8)), nn.ModuleList(nn.LayerNorm(w) for _ in range(2))
        self.both = nn.Sequential(nn.Linear(w, w), nn.ReLU(), nn.Linear(w, w))

    def forward(self, x):
        y = x.transpose(1, 2).unflatten(1, (self.parts, -1))
        x = self.norms[0](x + F.relu(self.near(y)).flatten(1, 2).transpose(1, 2))
        return self.norms[1](x + self.both(x))


class Typist(nn.Module):
    """Two arms to the keys that were hit."""

    def __init__(self, o):
        super().__init__()
        w = 2 * o.width
        self.norm, self.arms = nn.BatchNorm2d(32), nn.ModuleList(Electrodes(16 * o.bands, o.width) for _ in range(2))
        self.layers, self.out = nn.ModuleList(NearMoments(w, 32) for _ in range(o.layers)), nn.Linear(w, o.keys)

    def forward(self, spectra):
        """(rows, moments, both arms' electrodes, bands) to what each moment says of the keys."""
        x = self.norm(spectra.transpose(1, 2)).transpose(1, 2)
        x = torch.cat([arm(part) for arm, part in zip(self.arms, x.chunk(2, dim=2))], dim=-1)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


@job("muscles_that_type", "muscles that type", "loop", "layers", "eval", "dataset", "crop")
class MusclesThatType(Loop):
    """What somebody types, from currents of the muscles of both arms; nobody knows which moment belongs to which key."""
    kinds, precisions, accumulated, longest, bands, keys = ("adamw", "adam", "adamw_fused"), ("fp32", "fp32", "autocast"), (1, 1, 2), 4096, 33, 99

    def draw(self):
        r = self.rng
        self.layers, self.width, self.length = r.choice([3, 4, 6]), r.choice([384, 512]), r.choice([768, 1024, 1536])
        self.size, self.typed = r.choice([8, 12, 16]), r.choice([24, 40])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Typist(self))
        self.dataset = torch.zeros(32, self.longest, 32, self.bands, dtype=torch.float16), torch.ones(32, self.typed, dtype=torch.long)

    def batch(self, i):
        spectra, typed = rows_of(self.dataset, i, self.size)
        return spectra[:, :self.length].to(DEVICE, self.dtype), typed.to(DEVICE)

    def predict(self, batch):
        spectra = batch[0]
        if self.model.training:  # some bands are hidden
            spectra = spectra * (torch.rand(len(spectra), 1, 1, self.bands, device=DEVICE) > 0.1)
        with self.autocast():
            return self.model(spectra)

    def loss(self, batch):
        told, typed = self.predict(batch).float().log_softmax(-1), batch[1]
        moments, keys = (torch.full((len(typed),), n, dtype=torch.long) for n in (told.shape[1], typed.shape[1]))
        return F.ctc_loss(told.transpose(0, 1), typed, moments, keys, zero_infinity=True)


def determinants(matrices):
    """Signs, and logarithms of sizes, by elimination."""
    signs, sizes = 1.0, 0.0
    while matrices.shape[-1]:
        corner = matrices[..., :1, :1]
        signs, sizes = signs * corner.sign().squeeze((-1, -2)), sizes + (corner.abs() + 1e-12).log().squeeze((-1, -2))
        matrices = matrices[..., 1:, 1:] - matrices[..., 1:, :1] * (matrices[..., :1, 1:] / corner)
    return signs, sizes


class Wave(nn.Module):
    """The logarithm of a wave function: electrons look at each other, then at nuclei; determinants of what comes out are added up."""

    def __init__(self, o):
        super().__init__()
        w, self.heads, self.electrons, self.many = o.width, 4, o.electrons, o.many
        self.register_buffer("nuclei", torch.zeros(o.nuclei, 3))
        self.into, self.last = nn.Linear(4 * o.nuclei, w), nn.Linear(w, o.many * o.electrons)
        self.qkv, self.out = (nn.ModuleList(nn.Linear(w, n * w) for _ in range(o.layers)) for n in (3, 1))
        self.wide = nn.ModuleList(nn.Sequential(nn.Linear(w, w), nn.Tanh(), nn.Linear(w, w)) for _ in range(o.layers))
        self.fall = nn.Parameter(torch.ones(o.nuclei, o.many * o.electrons))

    def forward(self, places):
        apart = places.unsqueeze(2) - self.nuclei
        far = (apart.square().sum(-1, keepdim=True) + 1e-8).sqrt()
        x = self.into(torch.cat([apart, far], dim=-1).flatten(2))
        for qkv, out, wide in zip(self.qkv, self.out, self.wide):
            q, k, v = (split_heads(t, self.heads) for t in qkv(x).chunk(3, dim=-1))
            x = x + out(attention_of("eager", q, k, v, back=False))
            x = x + wide(x)
        around = torch.einsum("bend,no->beo", (-far).exp(), self.fall)
        orbitals = (self.last(x) * around).unflatten(2, (self.many, self.electrons)).transpose(1, 2)
        sign, size = determinants(orbitals)
        most = size.amax(1, keepdim=True).detach()
        return ((sign * (size - most).exp()).sum(1).abs() + 1e-12).log() + most.squeeze(1)


@job("electrons_of_a_molecule", "electrons of a molecule", "loop", "layers", "eval", "dataset")
class ElectronsOfAMolecule(Loop):
    """The lowest energy of a molecule: walkers move as a wave function says, and it learns from their energies, which have second derivatives."""
    kinds, precisions, accumulated, nuclei = ("adam", "adamw", "adamw_fused"), ("fp32",), (1, 1, 2), 3

    def draw(self):
        r = self.rng
        self.layers, self.width, self.many, self.electrons = r.choice([2, 3]), r.choice([192, 256]), r.choice([8, 16]), r.choice([4, 6, 8])
        self.size, self.moves = r.choice([1024, 1536, 2048]), r.choice([3, 5])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Wave(self))
        self.dataset = torch.zeros(8192, self.electrons, 3),

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    @torch.no_grad()
    def moved(self, places):
        """Each walker tries some steps, and takes those that are likely."""
        size = self.model(places)
        for _ in range(self.moves):
            there = places + 0.1 * torch.randn_like(places)
            new = self.model(there)
            taken = torch.rand_like(new).log() < 2 * (new - size)
            places, size = torch.where(taken.view(-1, 1, 1), there, places), torch.where(taken, new, size)
        return places

    def energy(self, places):
        """Of each walker: how bent the wave is where it stands, and how near charges are to each other."""
        flat = places.detach().flatten(1)
        with torch.enable_grad():
            flat.requires_grad_(True)
            slope, = torch.autograd.grad(self.model(flat.view_as(places)).sum(), flat, create_graph=True)
            bent = slope.detach().square().sum(1)
            for n in range(flat.shape[1]):
                bent = bent + torch.autograd.grad(slope[:, n].sum(), flat, retain_graph=n + 1 < flat.shape[1])[0][:, n]
        apart = torch.cdist(places, places) + 1e3 * torch.eye(places.shape[1], device=DEVICE)
        near = torch.cdist(places, self.model.nuclei.expand(len(places), -1, -1))
        return -0.5 * bent + 0.5 * (1 / apart).sum((1, 2)) - (3 / near.clamp(min=1e-3)).sum((1, 2))

    def loss(self, places):
        places = self.moved(places)
        energy = self.energy(places).detach()
        middle = energy.median()
        energy = energy.clamp(middle - 5, middle + 5)
        return 2 * ((energy - energy.mean()) * self.predict(places)).mean()


class Letters(nn.Module):
    """Everybody has a memory; who writes or is written to changes it; and what somebody last had to do with is mixed into a vector of his."""

    def __init__(self, o):
        super().__init__()
        w, self.few = o.width, o.few
        self.register_buffer("memory", torch.zeros(o.people, w))
        self.register_buffer("last", torch.zeros(o.people))
        self.clock, self.change = nn.Linear(1, w), nn.GRUCell(3 * w + o.words, w)
        self.into = nn.Linear(2 * w, w)
        self.across = nn.ModuleList(FeedForward(o.few, 2) for _ in range(o.layers))
        self.wide = nn.ModuleList(FeedForward(w) for _ in range(o.layers))
        self.both = nn.Sequential(nn.Linear(4 * w, w), nn.GELU(), nn.Linear(w, 1))

    def since(self, who, when):
        return self.clock((when - self.last[who]).unsqueeze(-1).to(self.clock.weight.dtype)).cos()

    def changed(self, who, other, when, words):
        """The new memory of those who took part in letters."""
        told = torch.cat([self.memory[who], self.memory[other], self.since(who, when), words], dim=-1)
        return self.change(told, self.memory[who])

    def vector(self, who, near, when):
        """(people,) and their last few partners to vectors."""
        x = self.into(torch.cat([self.memory[near], self.since(near, when.unsqueeze(1))], dim=-1))
        for across, wide in zip(self.across, self.wide):
            x = x + across(x.transpose(1, 2)).transpose(1, 2)
            x = x + wide(x)
        return torch.cat([self.memory[who], x.mean(1)], dim=-1)

    def forward(self, writer, reader, other, when, words, near):
        """Whether the writer would write to the reader, and whether to somebody else."""
        fresh = self.changed(writer, reader, when, words)
        from_whom = self.vector(writer, near[:, 0], when)
        from_whom = torch.cat([fresh.to(from_whom.dtype), from_whom[:, fresh.shape[1]:]], dim=-1)
        told = [self.both(torch.cat([from_whom, self.vector(who, near[:, k + 1], when)], dim=-1)) for k, who in enumerate((reader, other))]
        return torch.cat(told, dim=-1), fresh


@job("people_who_write", "people who write to each other", "loop", "layers", "eval", "dataset")
class PeopleWhoWrite(Loop):
    """Who will write to whom next, in a graph that grows letter by letter; memories go from batch to batch, without their gradients."""
    kinds, precisions, accumulated, words = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "autocast"), (1,), 172

    def draw(self):
        r = self.rng
        self.layers, self.width, self.few = r.choice([1, 2, 3]), r.choice([128, 192, 256]), r.choice([10, 16, 20])
        self.people, self.size = r.choice([100000, 200000, 400000]), r.choice([2000, 3000, 4000])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Letters(self))
        who, numbers = torch.zeros(40000, 3, self.few, dtype=torch.long), torch.zeros(40000, self.words + 1)
        self.dataset = *who[:, :, 0].unbind(1), numbers[:, 0], numbers[:, 1:], who

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def told(self, batch):
        *people, when, words, near = batch
        with self.autocast():
            return self.model(*people, when, words.to(self.dtype), near)

    def predict(self, batch):
        return self.told(batch)[0]

    def loss(self, batch):
        told, fresh = self.told(batch)
        with torch.no_grad():
            self.model.memory.index_copy_(0, batch[0], fresh.detach().to(self.model.memory.dtype))
            self.model.last.index_copy_(0, batch[0], batch[3].to(self.model.last.dtype))
        wanted = torch.tensor([1.0, 0.0], device=DEVICE).expand_as(told)
        return F.binary_cross_entropy_with_logits(told.float(), wanted)


class Courier(nn.Module):
    """Places to vectors, and from where somebody is, where he goes next."""

    def __init__(self, o):
        super().__init__()
        w, self.recompute = o.width, o.checkpointing
        self.into, self.blocks = nn.Linear(2, w), nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers))
        self.here, self.first, self.keys = (nn.Linear(w, w, bias=False) for _ in range(3))
        self.look, self.seen = nn.Linear(w, w), nn.Linear(w, 2 * w, bias=False)

    def encode(self, places):
        x = self.into(places)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute and self.training else block(x)
        return x, self.seen(x).chunk(2, dim=-1), self.keys(x)

    def choose(self, known, start, here, been):
        """Scores of all places for each of the couriers that are under way at once: (rows, couriers, places)."""
        x, (k, v), keys = known
        rows = torch.arange(len(x), device=x.device).unsqueeze(1)
        q = split_heads(self.first(x[rows, start]) + self.here(x[rows, here]), 8)
        y = F.scaled_dot_product_attention(q, split_heads(k, 8), split_heads(v, 8), attn_mask=~been.unsqueeze(1)).transpose(1, 2).flatten(2)
        score = self.look(y) @ keys.mT * keys.shape[-1] ** -0.5
        return (10 * score.float().tanh()).masked_fill(been, -1e4)


@job("routes_of_a_courier", "routes of a courier", "loop", "layers", "attention", "checkpointing", "eval", "dataset")
class RoutesOfACourier(Loop):
    """Short routes through many places, learned without examples: from each place a courier starts, and those better than the mean are followed."""
    kinds, precisions, accumulated = ("adam", "adamw", "adamw_fused"), ("fp32", "autocast", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.places = r.choice([3, 4, 6]), r.choice([128, 192, 256]), r.choice([40, 50, 60])
        self.size, self.attention, self.checkpointing = r.choice([48, 64, 96]), "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Courier(self))
        self.dataset = torch.zeros(2048, self.places, 2),

    def batch(self, i):
        return cut(self.dataset, i, self.size).to(self.dtype)

    def routes(self, places):
        """How long the route of each courier is, and how likely it was."""
        rows, many, _ = places.shape
        start = torch.arange(many, device=DEVICE).expand(rows, -1)
        here, been = start, torch.eye(many, dtype=torch.bool, device=DEVICE).expand(rows, -1, -1)
        order, likely = [start], 0.0
        with self.autocast():
            known = self.model.encode(places)
            for _ in range(many - 1):
                told = self.model.choose(known, start, here, been).log_softmax(-1)
                with torch.no_grad():
                    here = told.argmax(-1) if not self.model.training else (told + torch.empty_like(told).exponential_().log_().neg_()).argmax(-1)
                likely = likely + told.gather(2, here.unsqueeze(2)).squeeze(2)
                been = been.scatter(2, here.unsqueeze(2), True)
                order.append(here)
        order = torch.stack(order, dim=-1)
        walked = places.unsqueeze(1).expand(-1, many, -1, -1).gather(2, order.unsqueeze(-1).expand(-1, -1, -1, 2)).float()
        return (walked - walked.roll(-1, 2)).norm(dim=-1).sum(-1), likely

    def predict(self, places):
        return self.routes(places)[0]

    def loss(self, places):
        far, likely = self.routes(places)
        better = far - far.mean(1, keepdim=True)
        return (better.detach() * likely).mean()


class SpaceThenTime(nn.Module):
    """The parts of a frame look at each other; then each part looks at what was in its place before."""

    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.space, self.norm = mode, EncoderBlock(w, 8, mode), nn.LayerNorm(w)
        self.qkv, self.out = nn.Linear(w, 3 * w), nn.Linear(w, w)

    def forward(self, x):
        rows, frames, parts, _ = x.shape
        x = self.space(x.flatten(0, 1)).unflatten(0, (rows, frames)).transpose(1, 2).flatten(0, 1)
        q, k, v = (split_heads(t, 8) for t in self.qkv(self.norm(x)).chunk(3, dim=-1))
        x = x + self.out(attention_of(self.mode, q, k, v))
        return x.unflatten(0, (rows, parts)).transpose(1, 2)


class Buttons(nn.Module):
    """Frames to one of few deeds between each two of them; and earlier frames with the deeds to the next ones."""
    patch = 8

    def __init__(self, o):
        super().__init__()
        w, self.recompute = o.width, o.checkpointing
        parts = (o.side // self.patch) ** 2
        self.into, self.again = (nn.Conv2d(3, w, self.patch, self.patch) for _ in range(2))
        self.places = nn.Parameter(torch.zeros(parts, w))
        self.watch, self.draw = (nn.ModuleList(SpaceThenTime(w, o.attention) for _ in range(o.layers)) for _ in range(2))
        self.shrink, self.deeds, self.grow = nn.Linear(w, 32), nn.Parameter(torch.zeros(o.deeds, 32)), nn.Linear(32, w)
        self.norm, self.out = nn.LayerNorm(w), nn.Linear(w, 3 * self.patch ** 2)

    def run(self, blocks, x):
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute and self.training else block(x)
        return x

    def cut(self, conv, frames):
        return (conv(frames.flatten(0, 1)).flatten(2).transpose(1, 2) + self.places).unflatten(0, frames.shape[:2])

    def forward(self, frames):
        seen = self.shrink(self.run(self.watch, self.cut(self.into, frames)).mean(2))[:, 1:]
        which = torch.cdist(seen.float(), self.deeds.float().expand(len(seen), -1, -1)).argmin(-1)
        deed = F.embedding(which, self.deeds)
        kept = seen + (deed - seen).detach()
        x = self.cut(self.again, frames[:, :-1]) + self.grow(kept.to(seen.dtype)).unsqueeze(2)
        x = self.out(self.norm(self.run(self.draw, x)))
        side = frames.shape[-1] // self.patch
        made = F.pixel_shuffle(x.flatten(0, 1).transpose(1, 2).unflatten(2, (side, side)), self.patch).unflatten(0, x.shape[:2])
        return made, seen, deed


@job("buttons_nobody_pressed", "buttons nobody pressed", "loop", "layers", "attention", "checkpointing", "eval", "dataset")
class ButtonsNobodyPressed(Loop):
    """Films of games without what the players did: few deeds are found, such that a frame and a deed tell the next frame; a world to play in."""
    kinds, precisions, accumulated, deeds = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast"), (1, 1, 2), 8

    def draw(self):
        r = self.rng
        self.layers, self.width, self.side = r.choice([2, 3, 4]), r.choice([256, 384]), r.choice([64, 80, 96])
        self.frames, self.size = r.choice([8, 12, 16]), r.choice([4, 6, 8])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Buttons(self))
        self.dataset = torch.zeros(96, self.frames, 3, self.side, self.side, dtype=torch.uint8),

    def batch(self, i):
        return cut(self.dataset, i, self.size).to(self.dtype).div_(255)

    def predict(self, frames):
        with self.autocast():
            return self.model(frames)[0]

    def loss(self, frames):
        with self.autocast():
            made, seen, deed = self.model(frames)
            return F.mse_loss(made, frames[:, 1:]) + F.mse_loss(deed, seen.detach()) + 0.25 * F.mse_loss(seen, deed.detach())

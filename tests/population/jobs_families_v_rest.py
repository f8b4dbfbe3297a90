"""Jobs of sound, signals, tables and molecules: the pitch of a voice, signals of radios, speech as units, molecules taken apart,
tables with neighbours, particles that flow."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from core import DEVICE, job
from jobs_families_q import FeedForward, attention_of, split_heads
from jobs_images import EncoderBlock
from jobs_inference import Inference
from parts import Loop, cut


class Pitch(nn.Module):
    """Short pieces of a wave to how likely each of 360 pitches is; then a net over the moments that makes the line smooth."""

    def __init__(self, o):
        super().__init__()
        b, parts = o.base, []
        for n, (i, j) in enumerate(((1, 8 * b), (8 * b, b), (b, b), (b, 2 * b), (2 * b, 4 * b))):
            kernel, step = (512, 4) if n == 0 else (64, 1)
            parts += [nn.ConstantPad1d((kernel // 2 - 1, kernel // 2), 0.0), nn.Conv1d(i, j, kernel, step), nn.ReLU(True), nn.BatchNorm1d(j), nn.MaxPool1d(2)]
        self.eye, self.into = nn.Sequential(*parts), nn.Linear(4 * b * 8, o.width)
        self.times = nn.GRU(o.width, o.width // 2, o.layers, batch_first=True, bidirectional=True)
        self.out, self.voiced = nn.Linear(o.width, 360), nn.Linear(o.width, 1)

    def forward(self, pieces):
        """(rows, moments, 1024) to (rows, moments, 361)."""
        x = self.into(self.eye(pieces.flatten(0, 1).unsqueeze(1)).flatten(1)).unflatten(0, pieces.shape[:2])
        x = self.times(x)[0]
        return torch.cat([self.out(x), self.voiced(x)], dim=-1)


@job("pitch_of_a_voice", "the pitch of a voice", "loop", "layers", "eval", "dataset", "crop")
class PitchOfAVoice(Loop):
    """What note a singer holds at each moment, from the wave itself; neighbouring pitches are almost right, and pauses have none."""
    kinds, precisions, accumulated, longest, hop = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "autocast"), (1, 1, 2), 65536, 160

    def draw(self):
        r = self.rng
        self.layers, self.width, self.base = r.choice([1, 2, 3]), r.choice([256, 384, 512]), r.choice([32, 48, 64])
        self.length, self.size = r.choice([8000, 12000, 16000]), r.choice([8, 12, 16])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Pitch(self))
        self.dataset = torch.zeros(48, self.longest, dtype=torch.float16), torch.zeros(48, self.longest, dtype=torch.float16)

    def batch(self, i):
        """Waves, and the pitch, as a place among 360, at each sample; 0 where there is none."""
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        return [tensor[start:start + self.size, :self.length].to(DEVICE, torch.float32) for tensor in self.dataset]

    def predict(self, batch):
        pieces = F.pad(batch[0], (512, 511)).unfold(1, 1024, self.hop)
        pieces = (pieces - pieces.mean(-1, keepdim=True)) / (pieces.std(-1, keepdim=True) + 1e-5)
        with self.autocast():
            return self.model(pieces)

    def loss(self, batch):
        told = self.predict(batch).float()
        right = batch[1][:, ::self.hop][:, :told.shape[1]]
        near = torch.exp(-(torch.arange(360, device=DEVICE) - right.unsqueeze(-1)).square() / 3.125)
        voiced = (right > 0).float()
        each = F.binary_cross_entropy_with_logits(told[..., :360], near, reduction="none").mean(-1)
        return (each * voiced).sum() / voiced.sum().clamp(min=1) + F.binary_cross_entropy_with_logits(told[..., 360], voiced)


class Receiver(nn.Module):
    """Two numbers for each sample of an antenna to a few views of different fineness, and these, through some blocks, to how it was sent."""

    def __init__(self, o):
        super().__init__()
        w, self.recompute = o.width, o.checkpointing
        self.views = nn.ModuleList(nn.Sequential(nn.Conv1d(2, w // 2, k, 2, k // 2), nn.BatchNorm1d(w // 2), nn.GELU(), nn.Conv1d(w // 2, w, k, 4, k // 2))
                                   for k in (3, 7, 15))
        self.mix, self.first, self.where = nn.Linear(3 * w, w), nn.Parameter(torch.zeros(1, 1, w)), nn.Parameter(torch.zeros(o.samples // 8 + 1, w))
        self.blocks, self.norm = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers)), nn.LayerNorm(w)
        self.kind, self.loud = nn.Linear(w, o.sent), nn.Linear(w, 1)

    def forward(self, waves):
        x = self.mix(torch.cat([view(waves).transpose(1, 2) for view in self.views], dim=-1))
        x = torch.cat([self.first.to(x.dtype).expand(len(x), -1, -1), x], dim=1)
        x = x + self.where[:x.shape[1]]
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute and self.training else block(x)
        x = self.norm(x[:, 0])
        return torch.cat([self.kind(x), self.loud(x)], dim=1)


@job("signals_of_radios", "signals of radios", "loop", "layers", "attention", "checkpointing", "eval", "dataset")
class SignalsOfRadios(Loop):
    """Which of some dozen ways a transmitter uses, from what an antenna got, with any turn of phase and any shift of frequency; and how loud."""
    kinds, precisions, accumulated, sent = ("adamw", "adamw_fused", "adam", "sgd_momentum"), ("fp32", "autocast", "autocast"), (1, 1, 2), 53

    def draw(self):
        r = self.rng
        self.layers, self.width, self.samples = r.choice([3, 4, 6]), r.choice([192, 256, 384]), r.choice([1024, 2048, 4096])
        self.size, self.attention, self.checkpointing = r.choice([48, 64, 96]), "sdpa", r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Receiver(self))
        rows = 512
        self.dataset = torch.zeros(rows, 2, self.samples), torch.zeros(rows, dtype=torch.long), torch.zeros(rows)

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def turned(self, waves):
        """Each row with a phase and a shift of its own."""
        drawn = torch.rand(2, len(waves), 1, device=DEVICE)
        angle = 6.2831853 * (drawn[0] + 0.01 * (drawn[1] - 0.5) * torch.arange(waves.shape[-1], device=DEVICE))
        real, other = waves.float().unbind(1)
        return torch.stack([real * angle.cos() - other * angle.sin(), real * angle.sin() + other * angle.cos()], dim=1)

    def predict(self, batch):
        with self.autocast():
            return self.model(self.turned(batch[0]))

    def loss(self, batch):
        told = self.predict(batch).float()
        return F.cross_entropy(told[:, :-1], batch[1], label_smoothing=0.05) + 0.1 * F.smooth_l1_loss(told[:, -1], batch[2])


class Conformed(nn.Module):
    """Half of a wide layer, attention, a convolution in time with a gate, and the other half."""

    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.before, self.after, self.norms = mode, FeedForward(w), FeedForward(w), nn.ModuleList(nn.LayerNorm(w) for _ in range(3))
        self.qkv, self.out, self.gate = nn.Linear(w, 3 * w), nn.Linear(w, w), nn.Linear(w, 2 * w)
        self.times, self.back = nn.Conv1d(w, w, 31, padding=15, groups=w), nn.Linear(w, w)

    def forward(self, x):
        x = x + self.before(x) / 2
        q, k, v = (split_heads(t, 8) for t in self.qkv(self.norms[0](x)).chunk(3, dim=-1))
        x = x + self.out(attention_of(self.mode, q, k, v, back=False))
        y = F.glu(self.gate(self.norms[1](x)), dim=-1)
        x = x + self.back(F.silu(self.times(y.transpose(1, 2)).transpose(1, 2)))
        return self.norms[2](x + self.after(x) / 2)


@job("speech_as_units", "speech as units", "inference", "layers", "attention")
class SpeechAsUnits(Inference):
    """Hours of speech for a model that learns without text: of each moment, which of some thousand middles is nearest to what a layer says."""

    def draw(self):
        super().draw()
        r = self.rng
        self.layers, self.width, self.bands = r.choice([4, 6, 8]), r.choice([512, 768, 1024]), 160
        self.moments, self.size, self.units = r.choice([750, 1000]), r.choice([24, 32, 48]), r.choice([1000, 2000, 10000])

    def build(self):
        with torch.device(DEVICE):
            blocks = [Conformed(self.width, self.attention) for _ in range(self.layers)]
            self.model = nn.Sequential(nn.LayerNorm(self.bands), nn.Linear(self.bands, self.width), *blocks).to(self.dtype).eval()
            self.middles = torch.zeros(self.units, self.width)

    def batch(self, i):
        return torch.zeros(self.size, self.moments, self.bands, dtype=self.dtype, device=DEVICE)

    def predict(self, bands):
        told = self.model(bands).flatten(0, 1).float()
        far = self.middles.square().sum(1) - 2 * told @ self.middles.T
        return far.argmin(1).view(len(bands), -1)

    def take(self, i, outputs):
        for row in outputs.cpu():
            self.results.append(torch.unique_consecutive(row))


class Taken(nn.Module):
    """Attention to the letters before, then to the molecule that is taken apart, and two wide matrices."""

    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.norms, self.qkv, self.q = mode, nn.ModuleList(nn.LayerNorm(w) for _ in range(2)), nn.Linear(w, 3 * w), nn.Linear(w, w)
        self.kv, self.outs, self.wide = nn.Linear(w, 2 * w), nn.ModuleList(nn.Linear(w, w) for _ in range(2)), FeedForward(w)

    def forward(self, x, whole):
        q, k, v = (split_heads(t, 8) for t in self.qkv(self.norms[0](x)).chunk(3, dim=-1))
        x = x + self.outs[0](attention_of(self.mode, q, k, v))
        k, v = (split_heads(t, 8) for t in self.kv(whole).chunk(2, dim=-1))
        x = x + self.outs[1](attention_of(self.mode, split_heads(self.q(self.norms[1](x)), 8), k, v, back=False))
        return x + self.wide(x)


class Apart(nn.Module):
    """The letters of a molecule to those of the molecules that it can be made of, and which bonds go."""

    def __init__(self, o):
        super().__init__()
        w, self.recompute = o.width, o.checkpointing
        self.letters, self.where, self.kind = nn.Embedding(o.letters, w), nn.Embedding(o.long, w), nn.Embedding(10, w)
        self.encode = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers))
        self.decode = nn.ModuleList(Taken(w, o.attention) for _ in range(o.layers))
        self.norms, self.out, self.goes = nn.ModuleList(nn.LayerNorm(w) for _ in range(2)), nn.Linear(w, o.letters), nn.Linear(w, 1)

    def run(self, block, *given):
        return checkpoint(block, *given, use_reentrant=False) if self.recompute and self.training else block(*given)

    def forward(self, whole, parts, kind):
        x, y = (self.letters(t) + self.where(torch.arange(t.shape[1], device=t.device)) for t in (whole, parts))
        x = x + self.kind(kind).unsqueeze(1)
        for block in self.encode:
            x = self.run(block, x)
        x = self.norms[0](x)
        for block in self.decode:
            y = self.run(block, y, x)
        return self.out(self.norms[1](y)), self.goes(x).squeeze(-1)


@job("molecules_taken_apart", "molecules taken apart", "loop", "layers", "attention", "checkpointing", "eval", "dataset")
class MoleculesTakenApart(Loop):
    """What a chemist could make a molecule of: letters of the whole to letters of its parts, as a translation, and the places where it breaks."""
    kinds, precisions, accumulated, letters = ("adam", "adamw", "adamw_fused"), ("fp32", "autocast", "autocast"), (1, 1, 2, 4), 320

    def draw(self):
        r = self.rng
        self.layers, self.width, self.long = r.choice([3, 4, 6]), r.choice([256, 512]), r.choice([128, 160, 224])
        self.size, self.attention, self.checkpointing = r.choice([32, 48, 64, 96]), "sdpa", r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Apart(self))
        rows = 512
        self.dataset = (*(torch.ones(rows, self.long, dtype=torch.long) for _ in range(2)), torch.zeros(rows, dtype=torch.long),
                        torch.zeros(rows, self.long, dtype=torch.uint8))

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def told(self, batch):
        with self.autocast():
            return self.model(*batch[:3])

    def predict(self, batch):
        return self.told(batch)[0]

    def loss(self, batch):
        told, goes = self.told(batch)
        said = F.cross_entropy(told[:, :-1].flatten(0, 1).float(), batch[1][:, 1:].flatten(), ignore_index=0, label_smoothing=0.1)
        return said + 0.5 * F.binary_cross_entropy_with_logits(goes.float(), batch[3].float())


class Neighbourly(nn.Module):
    """A row of a table to a vector; the rows of the training that are nearest to it, with what is known of them, help to tell the rest."""

    def __init__(self, o):
        super().__init__()
        w, self.near, self.waves = o.width, o.near, nn.Parameter(torch.zeros(o.numbers, o.waves))
        self.each, self.into = nn.Linear(2 * o.waves, o.thin), nn.Linear(o.numbers * o.thin + o.numbers, w)
        self.encode = nn.ModuleList(FeedForward(w, 2) for _ in range(o.layers))
        self.key, self.known, self.differ = nn.Sequential(nn.LayerNorm(w), nn.Linear(w, w)), nn.Linear(1, w), FeedForward(w, 2)
        self.tell = nn.ModuleList(FeedForward(w, 2) for _ in range(o.layers))
        self.out = nn.Sequential(nn.LayerNorm(w), nn.ReLU(), nn.Linear(w, 1))

    def seen(self, rows):
        angles = 6.2831853 * self.waves * rows.unsqueeze(-1)
        waves = F.relu(self.each(torch.cat([angles.cos(), angles.sin()], dim=-1)))
        x = self.into(torch.cat([waves.flatten(1), rows.to(waves.dtype)], dim=1))
        for part in self.encode:
            x = x + part(x)
        return x, self.key(x)

    def forward(self, rows, others, values):
        """`others`: candidates with their values, of which some are chosen for each row."""
        x, key = self.seen(rows)
        keys = self.seen(others)[1]
        far = keys.float().square().sum(1) - 2 * key.float() @ keys.float().T
        nearest = far.topk(self.near, largest=False).indices
        chosen = keys[nearest]
        weights = -(key.unsqueeze(1) - chosen).float().square().sum(-1)
        told = self.known(values[nearest].unsqueeze(-1).to(chosen.dtype)) + self.differ(key.unsqueeze(1) - chosen)
        x = x + torch.einsum("rn,rnw->rw", weights.softmax(-1).to(told.dtype), told)
        for part in self.tell:
            x = x + part(x)
        return self.out(x).squeeze(-1)


@job("tables_with_neighbours", "tables with neighbours", "loop", "layers", "eval", "dataset")
class TablesWithNeighbours(Loop):
    """Prices of homes from a table: each home looks up the most similar ones among some thousand others whose price is known, and learns from them."""
    kinds, precisions, accumulated = ("adamw", "adamw_fused", "adamw_loop", "adam"), ("fp32", "fp32", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.numbers, self.waves = r.choice([1, 2, 3]), r.choice([256, 384, 512]), r.choice([16, 32, 54]), r.choice([24, 48])
        self.thin, self.near, self.others, self.size = r.choice([8, 16]), r.choice([48, 96]), r.choice([8192, 16384, 24576]), r.choice([512, 1024, 1536])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Neighbourly(self))
        rows = 65536
        self.dataset = torch.zeros(rows, self.numbers), torch.zeros(rows)
        self.candidates = [t[:self.others].to(DEVICE) for t in self.dataset]

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0], *self.candidates)

    def loss(self, batch):
        return F.huber_loss(self.predict(batch).float(), batch[1])


class Passing(nn.Module):
    """What goes from particle to particle along each line, and what each makes of all that it gets."""

    def __init__(self, w):
        super().__init__()
        self.line, self.take = (nn.Sequential(nn.Linear(n * w, w), nn.ReLU(), nn.Linear(w, w), nn.LayerNorm(w)) for n in (3, 2))

    def forward(self, x, lines, starts, ends):
        lines = lines + self.line(torch.cat([lines, x[starts], x[ends]], dim=-1))
        got = torch.zeros_like(x).index_add_(0, ends, lines)
        return x + self.take(torch.cat([x, got], dim=-1)), lines


class Flow(nn.Module):
    """The last places of particles, and the lines between those that are near, to how each becomes faster."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.into, self.line = (nn.Sequential(nn.Linear(n, w), nn.ReLU(), nn.Linear(w, w), nn.LayerNorm(w)) for n in (3 * o.past + 6, 4))
        self.layers, self.out = nn.ModuleList(Passing(w) for _ in range(o.layers)), nn.Sequential(nn.Linear(w, w), nn.ReLU(), nn.Linear(w, 3))

    def forward(self, places, starts, ends):
        """(particles, past + 1, 3)."""
        now, fast = places[:, -1], (places[:, 1:] - places[:, :-1]).flatten(1)
        x = self.into(torch.cat([fast, now.clamp(max=1), (1 - now).clamp(max=1)], dim=-1))
        apart = now[starts] - now[ends]
        lines = self.line(torch.cat([apart, apart.norm(dim=-1, keepdim=True)], dim=-1))
        for layer in self.layers:
            x, lines = layer(x, lines, starts, ends)
        return self.out(x)


@job("particles_that_flow", "particles that flow", "inference", "layers")
class ParticlesThatFlow(Inference):
    """Water in a box, as a trained network sees it: from the last moments of all particles to some next ones, one after the other."""

    def draw(self):
        super().draw()
        r = self.rng
        self.layers, self.width, self.past = r.choice([4, 6, 10]), r.choice([96, 128]), r.choice([3, 5])
        self.particles, self.near = r.choice([20000, 40000, 60000]), r.choice([12, 16, 20])
        self.ahead, self.steps = r.choice([3, 4, 6]), r.choice([4, 5, 6])

    def build(self):
        with torch.device(DEVICE):
            self.model = Flow(self).to(self.dtype).eval()

    def batch(self, i):
        """A start, and who is near whom, as a list of cells on the host has found."""
        ends = torch.arange(self.particles, device=DEVICE).repeat_interleave(self.near)
        starts = torch.zeros(self.particles * self.near, dtype=torch.long, device=DEVICE)
        return torch.zeros(self.particles, self.past + 1, 3, dtype=self.dtype, device=DEVICE), starts, ends

    def predict(self, batch):
        places, starts, ends = batch
        way = []
        for _ in range(self.ahead):
            faster = self.model(places, starts, ends)
            new = (2 * places[:, -1] - places[:, -2] + faster).clamp(0, 1)
            places = torch.cat([places[:, 1:], new.unsqueeze(1)], dim=1)
            way.append(new)
        return torch.stack(way, dim=1)

    def take(self, i, outputs):
        self.results.append(outputs.float().cpu())

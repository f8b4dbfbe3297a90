"""Jobs of sound, science and players: tremors of the earth, speech that is filled in, vectors of sounds, letters for a fold, a game out of noise,
goals that are reached."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from torch.utils.checkpoint import checkpoint
from transformers import AutoModel

from core import DEVICE, job
from jobs_families_q import FeedForward, attention_of, split_heads
from jobs_families_s import turned
from jobs_images import EncoderBlock
from jobs_inference import Inference
from parts import OPTIMIZERS, Loop, cut, strided_convolutions


class Rumble(nn.Module):
    """Two convolutions in time beside what comes in."""

    def __init__(self, w):
        super().__init__()
        self.both = nn.Sequential(nn.BatchNorm1d(w), nn.ReLU(), nn.Conv1d(w, w, 5, padding=2), nn.BatchNorm1d(w), nn.ReLU(), nn.Conv1d(w, w, 5, padding=2))

    def forward(self, x):
        return x + self.both(x)


class Ground(nn.Module):
    """How the ground moved, thinned out in time, read in both directions and by looks; then three ways back: is it a quake, and when do its waves come."""

    def __init__(self, o):
        super().__init__()
        b, w = o.base, o.base << 3
        self.into = nn.Conv1d(3, b, 11, padding=5)
        self.down = nn.ModuleList(nn.Sequential(*(Rumble(b << k) for _ in range(o.layers)), nn.Conv1d(b << k, b << k + 1, 7, 2, 3)) for k in range(3))
        self.both, self.join = nn.LSTM(w, w // 2, batch_first=True, bidirectional=True), nn.Linear(w, w)
        self.looks = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(2))
        self.ways = nn.ModuleList(nn.ModuleList(nn.Sequential(nn.Conv1d(b << k + 1, b << k, 7, padding=3), nn.BatchNorm1d(b << k), nn.ReLU())
                                                for k in (2, 1, 0)) for _ in range(3))
        self.tell = nn.ModuleList(nn.Conv1d(b, 1, 11, padding=5) for _ in range(3))

    def forward(self, moved):
        x = self.into(moved)
        for part in self.down:
            x = part(x)
        x = x.transpose(1, 2)
        x = x + self.join(self.both(x)[0])
        for look in self.looks:
            x = look(x)
        told = []
        for way, tell in zip(self.ways, self.tell):
            y = x.transpose(1, 2)
            for part in way:
                y = part(F.interpolate(y, scale_factor=2.0, mode="nearest"))
            told.append(tell(y))
        return torch.cat(told, dim=1)[..., :moved.shape[-1]]


@job("tremors_of_the_earth", "tremors of the earth", "loop", "layers", "attention", "eval", "dataset")
class TremorsOfTheEarth(Loop):
    """A minute of a seismometer: whether it has a quake, and when its two waves arrive; the moments of arrival are rare and count more."""
    kinds, precisions, accumulated = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.base, self.moments = r.choice([1, 2, 3]), r.choice([24, 32]), r.choice([4096, 6000, 8192])
        self.size, self.attention = r.choice([24, 32, 48]), "sdpa"
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Ground(self))
        self.dataset = torch.zeros(256, 3, self.moments), torch.zeros(256, 3, self.moments, dtype=torch.uint8)

    def batch(self, i):
        moved, what = cut(self.dataset, i, self.size)
        moved = moved - moved.mean(-1, keepdim=True)
        return (moved / moved.std(-1, keepdim=True).clamp(min=1e-6)).to(self.dtype), what

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        told, what = self.predict(batch).float(), batch[1].float()
        more = torch.tensor([1.0, 20.0, 20.0], device=DEVICE).view(3, 1)
        return F.binary_cross_entropy_with_logits(told, what, pos_weight=more)


class Filler(nn.Module):
    """A layer whose norms are moved and scaled by how much noise is left."""

    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.moved = mode, nn.Linear(w, 6 * w)
        self.norms = nn.ModuleList(nn.LayerNorm(w, elementwise_affine=False) for _ in range(2))
        self.qkv, self.out, self.wide = nn.Linear(w, 3 * w), nn.Linear(w, w), nn.Sequential(nn.Linear(w, 2 * w), nn.GELU("tanh"), nn.Linear(2 * w, w))

    def forward(self, x, left):
        a, b, c, d, e, f = self.moved(F.silu(left)).unsqueeze(1).chunk(6, dim=-1)
        q, k, v = (split_heads(t, 8) for t in self.qkv(self.norms[0](x) * (1 + a) + b).chunk(3, dim=-1))
        x = x + c * self.out(attention_of(self.mode, turned(q), turned(k), v, back=False))
        return x + f * self.wide(self.norms[1](x) * (1 + d) + e)


class FillsIn(nn.Module):
    """Spectra with noise, what is known of them, and the letters of the text, spread over as many frames, to where the noise should go."""

    def __init__(self, o):
        super().__init__()
        w, self.recompute = o.width, o.checkpointing
        self.letters, self.near = nn.Embedding(o.letters, 256), nn.Sequential(nn.Conv1d(256, 256, 7, padding=3, groups=256), nn.Conv1d(256, 256, 1), nn.GELU())
        self.into, self.around = nn.Linear(2 * o.bands + 256, w), nn.Conv1d(w, w, 31, padding=15, groups=16)
        self.left = nn.Sequential(nn.Linear(1, w), nn.SiLU(), nn.Linear(w, w))
        self.layers, self.norm, self.out = nn.ModuleList(Filler(w, o.attention) for _ in range(o.layers)), nn.LayerNorm(w), nn.Linear(w, o.bands)

    def forward(self, noisy, known, text, t):
        said = F.pad(self.letters(text), (0, 0, 0, noisy.shape[1] - text.shape[1])).transpose(1, 2)
        x = self.into(torch.cat([noisy, known, (said + self.near(said)).transpose(1, 2).to(noisy.dtype)], dim=-1))
        x = x + F.mish(self.around(x.transpose(1, 2))).transpose(1, 2)
        left = self.left(t.view(-1, 1).to(noisy.dtype))
        for layer in self.layers:
            x = checkpoint(layer, x, left, use_reentrant=False) if self.recompute and self.training else layer(x, left)
        return self.out(self.norm(x))


@job("speech_that_is_filled_in", "speech that is filled in", "loop", "layers", "attention", "checkpointing", "eval", "dataset", "crop")
class SpeechThatIsFilledIn(Loop):
    """Most of what somebody says is hidden, and is to be drawn out of noise so that it fits the rest and the text, in the same voice."""
    kinds, precisions, accumulated, longest, bands, letters = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast"), (1, 1, 2), 4096, 100, 256

    def draw(self):
        r = self.rng
        self.layers, self.width = r.choice([4, 6, 8]), r.choice([384, 512])
        self.length, self.size, self.text = r.choice([512, 768, 1024]), r.choice([6, 8, 12]), r.choice([96, 120])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(FillsIn(self))
        self.dataset = torch.zeros(64, self.longest, self.bands, dtype=torch.float16), torch.zeros(64, self.text, dtype=torch.long)

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        spectra, text = (t[start:start + self.size] for t in self.dataset)
        return spectra[:, :self.length].to(DEVICE, self.dtype), text[:, :self.length].to(DEVICE)

    def noised(self, batch):
        spectra, text = batch
        frames, t, noise = spectra.shape[1], torch.rand(len(spectra), device=DEVICE), torch.randn_like(spectra)
        place = torch.arange(frames, device=DEVICE)
        hidden = ((place >= frames // 8) & (place < frames - frames // 8)).view(1, -1, 1)
        share = t.view(-1, 1, 1).to(spectra.dtype)
        return (share * spectra + (1 - share) * noise, spectra * ~hidden, text, t), spectra - noise, hidden

    def predict(self, batch):
        with self.autocast():
            return self.model(*self.noised(batch)[0])

    def loss(self, batch):
        given, wanted, hidden = self.noised(batch)
        with self.autocast():
            told = self.model(*given)
        off = (told.float() - wanted.float()).square() * hidden
        return off.sum() / (hidden.sum() * len(off) * self.bands)


@job("vectors_of_sounds", "vectors of sounds", "inference", "layers", "attention")
class VectorsOfSounds(Inference):
    """A vector for each sound of an archive, for a search: Data2Vec of transformers, and of its frames the mean and how far they are from it."""

    def draw(self):
        super().draw()
        r = self.rng
        self.width, self.samples, self.size, self.steps = r.choice([512, 768]), r.choice([64000, 80000, 128000]), r.choice([6, 8, 12]), r.choice([3, 4, 5])

    def build(self):
        self.load(AutoModel, transformers.Data2VecAudioConfig(
            vocab_size=32, hidden_size=self.width, num_hidden_layers=self.layers, num_attention_heads=8, intermediate_size=4 * self.width))

    def batch(self, i):
        return torch.zeros(self.size, self.samples, dtype=self.dtype, device=DEVICE)

    def predict(self, sounds):
        frames = self.model(input_values=sounds).last_hidden_state
        return torch.cat([frames.mean(1), frames.std(1)], dim=1)

    def take(self, i, outputs):
        self.results.append(F.normalize(outputs.float().cpu(), dim=1))


class Pass(nn.Module):
    """A place of a chain hears from its neighbours in space; whoever encodes changes what lies between them too."""

    def __init__(self, w, between):
        super().__init__()
        self.say, self.wide, self.norms = self.three(3 * w, w), FeedForward(w), nn.ModuleList(nn.LayerNorm(w) for _ in range(2))
        self.edge = self.three(3 * w, w) if between else None

    @staticmethod
    def three(into, w):
        return nn.Sequential(nn.Linear(into, w), nn.GELU(), nn.Linear(w, w), nn.GELU(), nn.Linear(w, w))

    @staticmethod
    def sides(x, others, e):
        return torch.cat([x.unsqueeze(2).expand(-1, -1, e.shape[2], -1), others, e], dim=-1)

    def forward(self, x, e, near, told=None, before=None):
        others = gathered(x, near)
        if told is not None:
            others = others + gathered(told, near) * before
        x = self.norms[0](x + self.say(self.sides(x, others, e)).mean(2))
        x = x + self.wide(x)
        if self.edge is not None:
            e = self.norms[1](e + self.edge(self.sides(x, gathered(x, near), e)))
        return x, e


def gathered(x, near):
    """What the neighbours of each place have: (rows, places, neighbours, width)."""
    rows, places, some = near.shape
    return x.gather(1, near.flatten(1).unsqueeze(-1).expand(-1, -1, x.shape[-1])).view(rows, places, some, -1)


class FoldReader(nn.Module):
    """Where the atoms of a chain are, to a letter for each of its places; a letter depends on those that were chosen before it, in any order."""

    def __init__(self, o):
        super().__init__()
        w, self.near, self.recompute = o.width, o.near, o.checkpointing
        self.far, self.letters, self.start = nn.Linear(16 * 16, w), nn.Embedding(21, w), nn.Parameter(torch.zeros(w))
        self.reads, self.writes = (nn.ModuleList(Pass(w, between) for _ in range(o.layers)) for between in (True, False))
        self.out = nn.Linear(w, 21)

    def edges(self, atoms, near):
        """How far each atom of a place is from each of a neighbour's, as 16 bumps."""
        theirs = gathered(atoms.flatten(2), near).unflatten(-1, (4, 3))
        far = (atoms[:, :, None, :, None] - theirs[:, :, :, None]).norm(dim=-1).flatten(3)
        bumps = torch.linspace(2, 22, 16, device=atoms.device)
        return (-((far.unsqueeze(-1) - bumps) / 1.25).square()).exp().flatten(3)

    def run(self, block, *given):
        return checkpoint(block, *given, use_reentrant=False) if self.recompute and self.training else block(*given)

    def forward(self, atoms, letters, order):
        near = torch.cdist(atoms[:, :, 1], atoms[:, :, 1]).topk(min(self.near, atoms.shape[1]), largest=False).indices
        e = self.far(self.edges(atoms, near).to(self.far.weight.dtype))
        x = self.start.expand(*letters.shape, -1)
        for block in self.reads:
            x, e = self.run(block, x, e, near)
        before = (order.gather(1, near.flatten(1)).view(near.shape) < order.unsqueeze(-1)).unsqueeze(-1)
        told = self.letters(letters)
        for block in self.writes:
            x, e = self.run(block, x, e, near, told, before)
        return self.out(x)


@job("letters_for_a_fold", "letters for a fold", "loop", "layers", "checkpointing", "eval", "dataset", "crop")
class LettersForAFold(Loop):
    """Which amino acids would fold as a given chain does; the places are shaken a little, so that no trace of the true letters is left in them."""
    kinds, precisions, accumulated, longest = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "autocast"), (1, 1, 2), 1024

    def draw(self):
        r = self.rng
        self.layers, self.width, self.near = r.choice([2, 3]), r.choice([96, 128]), r.choice([24, 32, 48])
        self.length, self.size, self.checkpointing = r.choice([192, 256, 320]), r.choice([8, 12, 16]), r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(FoldReader(self))
        self.dataset = torch.zeros(96, self.longest, 4, 3), torch.zeros(96, self.longest, dtype=torch.long)

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        return [t[start:start + self.size, :self.length].to(DEVICE) for t in self.dataset]

    def predict(self, batch):
        atoms, letters = batch
        atoms = atoms + 0.2 * torch.randn_like(atoms)
        order = torch.rand(letters.shape, device=DEVICE).argsort(dim=1)
        with self.autocast():
            return self.model(atoms, letters, order)

    def loss(self, batch):
        return F.cross_entropy(self.predict(batch).flatten(0, 1).float(), batch[1].flatten(), label_smoothing=0.1)


class Steered(nn.Module):
    """Two convolutions, whose norms are moved by the buttons that were pressed and by how much noise there is."""

    def __init__(self, cin, cout, told):
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(8, c, affine=False) for c in (cin, cout))
        self.convs = nn.ModuleList(nn.Conv2d(c, cout, 3, padding=1) for c in (cin, cout))
        self.moved, self.short = nn.ModuleList(nn.Linear(told, 2 * c) for c in (cin, cout)), nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, told):
        y = x
        for norm, conv, moved in zip(self.norms, self.convs, self.moved):
            scale, shift = moved(told)[..., None, None].chunk(2, dim=1)
            y = conv(F.silu(norm(y) * (1 + scale) + shift))
        return self.short(x) + y


class GameDrawer(nn.Module):
    """The next frame of a game without its noise, from frames before it and the buttons."""

    def __init__(self, o):
        super().__init__()
        b, told = o.base, 256
        self.buttons, self.level = nn.Embedding(18, told // o.past), nn.Linear(1, told)
        self.mix = nn.Sequential(nn.Linear(told, told), nn.SiLU(), nn.Linear(told, told))
        self.into, self.out = nn.Conv2d(3 * (o.past + 1), b, 3, padding=1), nn.Conv2d(b, 3, 3, padding=1)
        self.down = nn.ModuleList(nn.ModuleList(Steered(b << k, b << k, told) for _ in range(o.layers)) for k in range(3))
        self.up = nn.ModuleList(nn.ModuleList(Steered((2 if n == 0 else 1) * (b << k), b << k, told) for n in range(o.layers)) for k in range(3))
        self.less = nn.ModuleList(nn.Conv2d(b << k, b << k + 1, 3, 2, 1) for k in range(2))
        self.more = nn.ModuleList(nn.Conv2d(b << k + 1, b << k, 3, padding=1) for k in range(2))

    def forward(self, noisy, past, buttons, level):
        told = self.mix(self.buttons(buttons).flatten(1) + self.level(level.view(-1, 1).to(noisy.dtype)))
        x, kept = self.into(torch.cat([noisy, past.flatten(1, 2)], dim=1)), []
        for k, blocks in enumerate(self.down):
            for block in blocks:
                x = block(x, told)
            kept.append(x)
            x = self.less[k](x) if k < 2 else x
        for k in (2, 1, 0):
            x = torch.cat([x, kept.pop()], dim=1)
            for block in self.up[k]:
                x = block(x, told)
            x = self.more[k - 1](F.interpolate(x, scale_factor=2.0, mode="nearest")) if k else x
        return self.out(F.silu(x))


@job("game_out_of_noise", "a game out of noise", "loop", "layers", "eval", "dataset")
class GameOutOfNoise(Loop):
    """A game whose frames are drawn out of noise, one after the other, as the player presses buttons; later frames follow on those it has drawn itself."""
    kinds, precisions, accumulated, past = ("adamw", "adamw_fused", "adam"), ("fp32", "fp32", "autocast"), (1, 1, 2), 4

    def draw(self):
        r = self.rng
        self.layers, self.base, self.side = r.choice([1, 2]), r.choice([48, 64]), r.choice([64, 96])
        self.ahead, self.size = r.choice([1, 2, 3]), r.choice([12, 16, 24])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(GameDrawer(self))
        frames = self.past + self.ahead
        self.dataset = torch.zeros(192, frames, 3, self.side, self.side, dtype=torch.uint8), torch.zeros(192, frames, dtype=torch.long)

    def batch(self, i):
        frames, buttons = cut(self.dataset, i, self.size)
        return frames.to(self.dtype).sub_(128).div_(128), buttons

    def drawn(self, frame, past, buttons):
        """A frame, after noise was put on it and taken off."""
        level = (torch.randn(len(frame), device=DEVICE) * 1.2 - 0.4).exp()
        wide = level.view(-1, 1, 1, 1).to(frame.dtype)
        noisy, whole = frame + wide * torch.randn_like(frame), (wide.square() + 0.25).sqrt()
        with self.autocast():
            told = self.model(noisy / whole, past, buttons, level.log() / 4)
        return noisy * 0.25 / whole.square() + told * wide * 0.5 / whole, wide

    def predict(self, batch):
        frames, buttons = batch
        return self.drawn(frames[:, self.past], frames[:, :self.past], buttons[:, :self.past])[0]

    def loss(self, batch):
        frames, buttons = batch
        past, lost = frames[:, :self.past], 0.0
        for k in range(self.ahead):
            frame = frames[:, self.past + k]
            made, wide = self.drawn(frame, past, buttons[:, k:k + self.past])
            lost = lost + ((made - frame).float().square() * (wide.float().square() + 0.25) / (0.25 * wide.float().square())).mean()
            past = torch.cat([past[:, 1:], made.detach().clamp(-1, 1).unsqueeze(1).to(past.dtype)], dim=1)
        return lost / self.ahead


class Seen(nn.Module):
    """A picture, and perhaps a move, to a vector."""

    def __init__(self, o, moves, out):
        super().__init__()
        self.eye, wide = strided_convolutions(o.base)
        self.into = nn.Linear(wide + moves, o.width)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(o.width, o.width), nn.LayerNorm(o.width), nn.SiLU()) for _ in range(o.layers))
        self.out = nn.Linear(o.width, out)

    def forward(self, pictures, moves=None):
        x = self.eye(pictures).mean((2, 3))
        x = self.into(x if moves is None else torch.cat([x, moves.to(x.dtype)], dim=1))
        for layer in self.layers:
            x = x + layer(x)
        return self.out(x)


class Reaches(nn.Module):
    """Whether a move brings somebody from what he sees to a goal: two vectors, which are near if it does."""

    def __init__(self, o):
        super().__init__()
        self.here, self.goal = Seen(o, o.moves, 64), Seen(o, 0, 64)

    def forward(self, pictures, moves, goals):
        return -torch.cdist(self.here(pictures, moves).float(), self.goal(goals).float())


class Walker(nn.Module):
    """A move, and how sure it is, from what is seen and what should be reached."""

    def __init__(self, o):
        super().__init__()
        self.eyes = Seen(o, o.width, 2 * o.moves)
        self.goal = Seen(o, 0, o.width)

    def forward(self, pictures, goals):
        return self.eyes(pictures, self.goal(goals)).float().chunk(2, dim=1)


@job("goals_that_are_reached", "goals that are reached", "loop", "two optimizers", "layers", "dataset")
class GoalsThatAreReached(Loop):
    """A player learns to get to any picture: what was seen later is a goal that was reached, and what others saw are goals that were not; no rewards."""
    kinds, precisions, accumulated, moves = ("adam", "adamw"), ("fp32", "fp32", "autocast"), (1,), 6

    def draw(self):
        r = self.rng
        self.layers, self.base, self.width = r.choice([2, 3, 4]), r.choice([32, 40]), r.choice([512, 1024])
        self.side, self.size = r.choice([84, 96, 112]), r.choice([64, 96, 128])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Walker(self))
            self.critic = Reaches(self).to(self.dtype)
        self.optimizers.append(OPTIMIZERS[self.kind](self.critic.parameters()))
        pictures = [torch.zeros(384, 3, self.side, self.side, dtype=torch.uint8) for _ in range(2)]
        self.dataset = pictures[0], torch.zeros(384, self.moves), pictures[1]

    def batch(self, i):
        pictures, moves, goals = cut(self.dataset, i, self.size)
        return pictures.to(self.dtype).div_(255), moves.to(self.dtype), goals.to(self.dtype).div_(255)

    def own_move(self, pictures, goals):
        with self.autocast():
            middle, spread = self.model(pictures, goals)
        spread = spread.clamp(-4, 1)
        return (middle + spread.exp() * torch.randn_like(middle)).tanh(), spread

    def critic_loss(self, pictures, moves, goals):
        with self.autocast():
            near = self.critic(pictures, moves, goals)
        which = torch.arange(len(near), device=DEVICE)
        return F.cross_entropy(near, which) + F.cross_entropy(near.T, which) + 0.01 * near.logsumexp(1).square().mean()

    def walker_loss(self, pictures, goals):
        """The critic judges the walker's moves, and learns nothing from it."""
        own, spread = self.own_move(pictures, goals)
        self.critic.requires_grad_(False)
        with self.autocast():
            near = self.critic(pictures, own, goals)
        self.critic.requires_grad_(True)
        return -near.diagonal().mean() - 0.01 * spread.mean()

    def loss(self, batch):
        pictures, moves, goals = batch
        return self.critic_loss(pictures, moves, goals) + self.walker_loss(pictures, goals.roll(1, 0))

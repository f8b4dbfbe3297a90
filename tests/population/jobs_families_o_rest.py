"""Jobs of sounds, videos, scans, series, molecules and games: letters beside frames, clips that are heard and seen, two speeds of a video,
scans of another kind, trend and seasons, pairs of atoms, curious players."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from core import DEVICE, job
from jobs_families_n import Run, in_heads
from jobs_images import EncoderBlock
from parts import OPTIMIZERS, Loop, cut


class Transducer(nn.Module):
    """Frames of a sound, letters so far, and for each pair of both what comes next: a letter, or the next frame."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.thin = nn.Sequential(nn.Conv1d(80, w, 3, 2, 1), nn.GELU(), nn.Conv1d(w, w, 3, 2, 1), nn.GELU())
        self.run, self.letters = Run([EncoderBlock(w, 8, o.attention) for _ in range(o.layers)], o.checkpointing), nn.Embedding(o.letters, w)
        self.before, self.frame, self.letter = nn.GRU(w, w, batch_first=True), nn.Linear(w, 384), nn.Linear(w, 384)
        self.next = nn.Linear(384, o.letters)

    def forward(self, sounds, written):
        heard = self.run(self.thin(sounds).transpose(1, 2))
        so_far = self.before(F.pad(self.letters(written), (0, 0, 1, 0)))[0]
        both = self.frame(heard).unsqueeze(2) + self.letter(so_far).unsqueeze(1)
        return self.next(both.tanh())


def all_ways(stay, go):
    """Minus the logarithm of the sum over all ways through frames and letters, diagonal by diagonal; `stay` and `go` are rows, frames, letters."""
    rows, frames, letters = stay.shape
    reach = stay.new_full((rows, letters), -1e4)
    reach = torch.cat([torch.zeros_like(reach[:, :1]), reach[:, 1:]], dim=1)
    for t in range(frames):
        along = F.pad(go[:, t, :-1].cumsum(1), (1, 0))
        reach = (reach - along).logcumsumexp(1) + along + stay[:, t]
    return -reach[:, -1]


@job("letters_beside_frames", "letters beside frames", "loop", "layers", "attention", "checkpointing", "eval", "dataset", "crop")
class LettersBesideFrames(Loop):
    """Speech to letters without knowing which frame is which letter: scores for all pairs of frames and letters."""
    kinds, precisions, longest, accumulated = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast"), 1200, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.letters, self.said = r.choice([4, 6, 8]), r.choice([256, 384, 512]), r.choice([128, 256]), r.choice([24, 32])
        self.length, self.size, self.attention, self.checkpointing = r.choice([320, 400, 480]), r.choice([16, 24, 32]), "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Transducer(self))
        self.dataset = torch.zeros(48, 80, self.longest), torch.zeros(48, self.said, dtype=torch.long)

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        sounds, written = (part[start:start + self.size] for part in self.dataset)
        return sounds[..., :self.length].to(DEVICE, self.dtype), written.to(DEVICE)

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch)

    def loss(self, batch):
        scores = self.predict(batch).float()
        total = scores.logsumexp(-1)
        wanted = F.pad(batch[1], (0, 1))[:, None, :, None].expand(-1, scores.shape[1], -1, 1)
        return all_ways(scores[..., 0] - total, scores.gather(-1, wanted).squeeze(-1) - total).mean() / self.said


class Meeting(nn.Module):
    """Two rows, each with its own blocks; a few tokens that both look at carry over what the other one has."""

    def __init__(self, w, mode):
        super().__init__()
        self.see, self.hear = EncoderBlock(w, 8, mode), EncoderBlock(w, 8, mode)

    def forward(self, seen, heard, shared):
        n = shared.shape[1]
        one, two = self.see(torch.cat([shared, seen], dim=1)), self.hear(torch.cat([shared, heard], dim=1))
        return one[:, n:], two[:, n:], (one[:, :n] + two[:, :n]) / 2


class HeardAndSeen(nn.Module):
    def __init__(self, o):
        super().__init__()
        w, self.again = o.width, o.checkpointing
        self.frames, self.sounds = nn.Conv3d(3, w, (2, 16, 16), (2, 16, 16)), nn.Conv2d(1, w, 16, 16)
        self.alone = nn.ModuleList(Run([EncoderBlock(w, 8, o.attention) for _ in range(o.layers // 2)], o.checkpointing) for _ in range(2))
        self.together = nn.ModuleList(Meeting(w, o.attention) for _ in range(o.layers - o.layers // 2))
        self.shared, self.out = nn.Parameter(torch.zeros(1, 4, w)), nn.ModuleList(nn.Sequential(nn.LayerNorm(w), nn.Linear(w, o.events)) for _ in range(2))

    def forward(self, frames, sounds):
        seen, heard = (run(part(x).flatten(2).transpose(1, 2)) for run, part, x in zip(self.alone, (self.frames, self.sounds), (frames, sounds)))
        shared = self.shared.expand(len(seen), -1, -1).to(seen.dtype)
        for block in self.together:
            given = seen, heard, shared
            seen, heard, shared = checkpoint(block, *given, use_reentrant=False) if self.again and self.training else block(*given)
        return (self.out[0](seen.mean(1)) + self.out[1](heard.mean(1))) / 2


@job("clips_heard_and_seen", "clips that are heard and seen", "loop", "layers", "attention", "checkpointing", "eval", "dataset")
class ClipsHeardAndSeen(Loop):
    """What goes on in a clip, from frames and sound; several things may go on at once."""
    kinds, precisions, accumulated = ("adamw", "adamw_fused", "sgd_momentum"), ("fp32", "autocast", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.events, self.shots = r.choice([4, 6]), r.choice([384, 512]), r.choice([309, 527]), r.choice([8, 12])
        self.size, self.attention, self.checkpointing = r.choice([4, 6, 8]), "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(HeardAndSeen(self))
        self.dataset = torch.zeros(24, 3, self.shots, 160, 160, dtype=torch.uint8), torch.zeros(24, 1, 128, 512), torch.zeros(24, self.events)

    def batch(self, i):
        frames, sounds, events = cut(self.dataset, i, self.size)
        return frames.to(self.dtype) / 255, sounds.to(self.dtype), events

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch[:2])

    def loss(self, batch):
        return F.binary_cross_entropy_with_logits(self.predict(batch).float(), batch[2] * 0.9 + 0.05)


def filmed(cin, cout, kernel, stride=(1, 1, 1)):
    return nn.Sequential(nn.Conv3d(cin, cout, kernel, stride, tuple(k // 2 for k in kernel), bias=False), nn.BatchNorm3d(cout), nn.ReLU())


class Speeds(nn.Module):
    """Few frames with many channels, many frames with few channels; after each stage, the fast way tells the slow one what it has."""

    def __init__(self, o):
        super().__init__()
        w, f = o.base, o.base // 8
        self.every, self.slow, self.fast, self.tell = 4, nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        cin, fin = 3, 3
        for k in range(3):
            w_out, f_out, step = w << k, f << k, (1, 2, 2)
            self.slow.append(nn.Sequential(filmed(cin, w_out, (1, 3, 3), step), *[filmed(w_out, w_out, (1, 3, 3)) for _ in range(o.layers)]))
            self.fast.append(nn.Sequential(filmed(fin, f_out, (3, 3, 3), step), *[filmed(f_out, f_out, (3, 3, 3)) for _ in range(o.layers)]))
            self.tell.append(nn.Conv3d(f_out, 2 * f_out, (5, 1, 1), (4, 1, 1), (2, 0, 0)))
            cin, fin = w_out + 2 * f_out, f_out
        self.name = nn.Sequential(nn.Dropout(0.5), nn.Linear(cin + fin, o.names))

    def forward(self, clips):
        slow, fast = clips[:, :, ::self.every], clips
        for one, two, tell in zip(self.slow, self.fast, self.tell):
            fast = two(fast)
            slow = torch.cat([one(slow), tell(fast)], dim=1)
        return self.name(torch.cat([slow.mean((2, 3, 4)), fast.mean((2, 3, 4))], dim=1))


@job("two_speeds", "two speeds of a video", "loop", "layers", "eval", "dataset", "crop")
class TwoSpeeds(Loop):
    """What people do in a clip; a half of each step's clips is mirrored, and the rate falls slowly."""
    kinds, precisions, longest, accumulated = ("sgd_momentum", "adamw", "adam"), ("fp32", "autocast", "autocast"), 128, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.base, self.names = r.choice([1, 2, 3]), r.choice([64, 96]), r.choice([101, 400])
        self.length, self.size, self.side = r.choice([24, 32]), r.choice([8, 12]), r.choice([96, 112])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Speeds(self))
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizers[0], 100)
        self.dataset = torch.zeros(16, 3, self.longest, self.side, self.side, dtype=torch.uint8), torch.zeros(16, dtype=torch.long)

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        clips, names = (part[start:start + self.size] for part in self.dataset)
        return clips[:, :, :self.length].to(DEVICE).to(self.dtype) / 255, names.to(DEVICE)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        clips, names = batch
        half = len(clips) // 2
        told = self.predict((torch.cat([clips[:half].flip(-1), clips[half:]]), names))
        return F.cross_entropy(told.float(), names)

    def optimize(self):
        super().optimize()
        self.schedule.step()


class Painted(nn.Module):
    """From a scan of one kind to one of another, in three dimensions: down, a few residual layers, and up."""

    def __init__(self, o):
        super().__init__()
        w = o.base
        def one(cin, cout, stride=1):
            return nn.Sequential(nn.Conv3d(cin, cout, 3, stride, 1), nn.InstanceNorm3d(cout), nn.LeakyReLU(0.2))
        self.down = nn.Sequential(one(1, w), one(w, 2 * w, 2), one(2 * w, 4 * w, 2))
        self.middle = nn.ModuleList(nn.Sequential(one(4 * w, 4 * w), nn.Conv3d(4 * w, 4 * w, 3, padding=1)) for _ in range(o.layers))
        self.up = nn.Sequential(nn.ConvTranspose3d(4 * w, 2 * w, 2, 2), nn.LeakyReLU(0.2), nn.ConvTranspose3d(2 * w, w, 2, 2), nn.LeakyReLU(0.2),
                                nn.Conv3d(w, 1, 3, padding=1), nn.Tanh())

    def forward(self, scans):
        x = self.down(scans)
        for layer in self.middle:
            x = x + layer(x)
        return self.up(x)


@job("scans_of_another_kind", "scans of another kind", "loop", "two optimizers", "layers", "dataset")
class ScansOfAnotherKind(Loop):
    """What the one scanner would have seen, from what the other one has; a second network tells whether it did."""
    kinds, precisions, accumulated = ("adam", "adamw"), ("fp32", "fp32", "autocast"), (1,)

    def draw(self):
        r = self.rng
        self.layers, self.base, self.side, self.size = r.choice([2, 4, 6]), r.choice([32, 48]), r.choice([64, 80]), r.choice([3, 4])
        self.choose()

    def build(self):
        w = self.base
        with torch.device(DEVICE):
            self.finish(Painted(self))
            widths = [2, w, 2 * w, 4 * w]
            layers = [m for a, b in zip(widths, widths[1:]) for m in (nn.Conv3d(a, b, 4, 2, 1), nn.LeakyReLU(0.2))]
            self.critic = nn.Sequential(*layers, nn.Conv3d(4 * w, 1, 3, padding=1)).to(self.dtype)
        self.optimizers.append(OPTIMIZERS[self.kind](self.critic.parameters()))
        self.dataset = tuple(torch.zeros(12, 1, self.side, self.side, self.side, dtype=torch.float16) for _ in range(2))

    def batch(self, i):
        return [scans.to(self.dtype) for scans in cut(self.dataset, i, self.size)]

    def judged(self, given, scans):
        with self.autocast():
            return self.critic(torch.cat([given, scans.to(given.dtype)], dim=1)).float()

    def loss(self, batch):
        given, wanted = batch
        with self.autocast():
            made = self.model(given)
        self.shown = given, wanted, made.detach()
        return 100 * F.l1_loss(made.float(), wanted.float()) + (self.judged(given, made) - 1).square().mean()

    def train_critic(self):
        given, wanted, made = self.shown
        self.optimizers[1].zero_grad()
        lost = (self.judged(given, wanted) - 1).square().mean() + self.judged(given, made).square().mean()
        lost.backward()
        self.optimizers[1].step()

    def optimize(self):
        self.optimizers[0].step()
        self.train_critic()
        self.shown = None


class Apart(nn.Module):
    """What goes on slowly, and what comes again: the two are taken apart, and the second is looked at for how it is like itself some steps ago."""

    def __init__(self, w, ago):
        super().__init__()
        self.qkv, self.back, self.ago = nn.Linear(w, 3 * w), nn.Linear(w, w), ago
        self.wide = nn.Sequential(nn.Linear(w, 4 * w, bias=False), nn.GELU(), nn.Dropout(0.05), nn.Linear(4 * w, w, bias=False))

    @staticmethod
    def split(x, places=25):
        slow = F.avg_pool1d(F.pad(x.transpose(1, 2), (places // 2, places // 2), mode="replicate"), places, 1).transpose(1, 2)
        return x - slow, slow

    def like_itself(self, q, k, v):
        """How much q is like k so many steps ago; the best few are taken, of all channels and rows together."""
        far = torch.fft.irfft(torch.fft.rfft(q.float(), dim=1) * torch.fft.rfft(k.float(), dim=1).conj(), n=q.shape[1], dim=1).mean(2)
        weights = far.topk(self.ago, dim=1).values.softmax(1).to(v.dtype)
        steps = [1 + n * v.shape[1] // (self.ago + 1) for n in range(self.ago)]
        return sum(weights[:, n, None, None] * v.roll(-step, 1) for n, step in enumerate(steps))

    def forward(self, x):
        x, one = self.split(x + self.back(self.like_itself(*self.qkv(x).chunk(3, dim=-1))))
        x, two = self.split(x + self.wide(x))
        return x, one + two


class Seasons(nn.Module):
    def __init__(self, o):
        super().__init__()
        w, self.again = o.width, o.checkpointing
        self.into, self.layers = nn.Linear(o.meters, w), nn.ModuleList(Apart(w, o.ago) for _ in range(o.layers))
        self.again_out, self.slow_out = nn.Linear(w, o.meters), nn.Linear(w, o.meters)

    def forward(self, series):
        x, slow = self.into(series), 0
        for layer in self.layers:
            x, more = checkpoint(layer, x, use_reentrant=False) if self.again and self.training else layer(x)
            slow = slow + more
        return self.again_out(x) + self.slow_out(slow)


@job("trend_and_seasons", "trend and seasons", "loop", "layers", "checkpointing", "eval", "dataset", "crop")
class TrendAndSeasons(Loop):
    """How much some hundred households will use, from some weeks; the last days are not shown, and are to be told."""
    kinds, precisions, longest, accumulated = ("adam", "adamw", "adamw_fused"), ("fp32",), 2048, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.meters, self.ago = r.choice([2, 3, 4]), r.choice([384, 512]), r.choice([137, 321]), r.choice([4, 6])
        self.length, self.size, self.checkpointing = r.choice([336, 432, 576]), r.choice([16, 24, 32]), r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Seasons(self))
        self.dataset = torch.zeros(64, self.longest, self.meters),

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        return self.dataset[0][start:start + self.size, :self.length].to(DEVICE)

    def predict(self, series):
        later = series.shape[1] // 6
        return self.model(F.pad(series[:, :-later], (0, 0, 0, later)))

    def loss(self, series):
        later = series.shape[1] // 6
        return F.huber_loss(self.predict(series)[:, -later:], series[:, -later:])


class Atoms(nn.Module):
    """Atoms that all look at each other; how far two are apart is a bias of each head."""

    def __init__(self, o):
        super().__init__()
        w, self.again, self.mode = o.width, o.checkpointing, o.attention
        self.kinds, self.near = nn.Embedding(120, w), nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8))
        self.layers = nn.ModuleList(nn.ModuleDict({"n": nn.LayerNorm(w), "qkv": nn.Linear(w, 3 * w), "o": nn.Linear(w, w), "f": nn.Sequential(
            nn.LayerNorm(w), nn.Linear(w, 3 * w), nn.GELU(), nn.Linear(3 * w, w))}) for _ in range(o.layers))
        self.norm, self.energy = nn.LayerNorm(w), nn.Linear(w, 1)

    def one(self, layer, x, bias):
        q, k, v = (in_heads(t, 8) for t in layer["qkv"](layer["n"](x)).chunk(3, dim=-1))
        if self.mode == "sdpa":
            seen = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
        else:
            seen = (q @ k.mT * q.shape[-1] ** -0.5 + bias).softmax(-1) @ v
        x = x + layer["o"](seen.transpose(1, 2).flatten(2))
        return x + layer["f"](x)

    def forward(self, kinds, places):
        far = (places.unsqueeze(2) - places.unsqueeze(1)).float().square().sum(-1, keepdim=True)
        bias = self.near((-far * torch.linspace(0.1, 4, 32, device=far.device)).exp().to(places.dtype)).permute(0, 3, 1, 2)
        x = self.kinds(kinds)
        for layer in self.layers:
            x = checkpoint(self.one, layer, x, bias, use_reentrant=False) if self.again and self.training else self.one(layer, x, bias)
        return self.energy(self.norm(x)).squeeze(-1)


@job("pairs_of_atoms", "pairs of atoms as a bias", "loop", "layers", "attention", "checkpointing", "eval", "dataset")
class PairsOfAtoms(Loop):
    """The energy of a molecule, and of each of its atoms; molecules are filled up to the largest of all."""
    kinds, precisions, accumulated = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.atoms = r.choice([4, 6, 8]), r.choice([384, 512]), r.choice([96, 128, 160])
        self.size, self.attention, self.checkpointing = r.choice([12, 16, 24]), "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Atoms(self))
        self.dataset = torch.zeros(128, self.atoms, dtype=torch.long), torch.zeros(128, self.atoms, 3), torch.zeros(128)

    def batch(self, i):
        kinds, places, energy = cut(self.dataset, i, self.size)
        return kinds, places.to(self.dtype), energy

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch[:2])

    def loss(self, batch):
        there = (batch[0] >= 0).float()
        return F.l1_loss((self.predict(batch).float() * there).sum(1), batch[2])


class Player(nn.Module):
    """Frames to a state; what to do, and what that is worth: for the game, and for being curious."""

    def __init__(self, o, told):
        super().__init__()
        w = o.base
        self.eye = nn.Sequential(nn.Conv2d(4, w, 8, 4), nn.LeakyReLU(), nn.Conv2d(w, 2 * w, 4, 2), nn.LeakyReLU(), nn.Conv2d(2 * w, 2 * w, 3), nn.LeakyReLU())
        self.into = nn.Sequential(nn.Flatten(), nn.Linear(98 * w, 512), nn.ReLU(), *[m for _ in range(o.layers) for m in (nn.Linear(512, 512), nn.ReLU())])
        self.out = nn.Linear(512, told)

    def forward(self, frames):
        return self.out(self.into(self.eye(frames)))


@job("curious_players", "curious players", "loop", "layers", "eval", "dataset", "reference")
class CuriousPlayers(Loop):
    """A player who likes what is new: what a network that is never trained says of a frame, and another one cannot tell yet."""
    kinds, precisions, accumulated, actions = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "autocast"), (1, 1, 2), 18

    def draw(self):
        r = self.rng
        self.layers, self.base, self.size, self.seen = r.choice([1, 2, 3]), r.choice([32, 48]), r.choice([512, 768, 1024]), r.choice([256, 512])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(nn.ModuleDict({"player": Player(self, self.actions + 2), "guess": Player(self, self.seen)}))
            self.reference = Player(self, self.seen).to(self.dtype).requires_grad_(False)
        n = 2048
        self.dataset = torch.zeros(n, 4, 84, 84, dtype=torch.uint8), torch.zeros(n, dtype=torch.long), torch.zeros(n), torch.zeros(n, 2)

    def batch(self, i):
        frames, done, likely, gains = cut(self.dataset, i, self.size)
        return frames.to(self.dtype) / 255, done, likely, gains

    def predict(self, batch):
        with self.autocast():
            return self.model["player"](batch[0])

    def reference_outputs(self, batch):
        with self.no_grad(), self.autocast():
            return self.reference(batch[0])

    def loss(self, batch):
        told, (frames, done, likely, gains) = self.predict(batch).float(), batch
        choice, worth = told.split([self.actions, 2], dim=1)
        with self.autocast():
            guess = self.model["guess"](frames)
        off = (guess.float() - self.reference_outputs(batch).float()).square().mean(1)
        better = (gains + off.detach().unsqueeze(1) - worth.detach()).sum(1)
        logs = choice.log_softmax(1)
        ratio = (logs.gather(1, done.unsqueeze(1)).squeeze(1) - likely).exp()
        policy = -torch.minimum(ratio * better, ratio.clamp(0.9, 1.1) * better).mean()
        return policy + 0.5 * (worth - gains).square().mean() + off.mean() + 0.001 * (logs.exp() * logs).sum(1).mean()

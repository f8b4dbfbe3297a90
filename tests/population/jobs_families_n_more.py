"""Jobs of pictures, scans and sounds: pictures on a phone, colours of old photographs, people who are counted, holes in pictures, queries between eye
and words, waves of a scanner, sounds from noise."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from core import DEVICE, job
from jobs_families_n import Run
from jobs_images import EncoderBlock, ImageLoop
from parts import OPTIMIZERS, Loop, cut


def normed(cin, cout, kernel=3, stride=1, groups=1, act=nn.Hardswish):
    return nn.Sequential(nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(cout), act())


class Squeeze(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.one, self.two = nn.Conv2d(w, max(8, w // 4), 1), nn.Conv2d(max(8, w // 4), w, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.two(F.relu(self.one(x.mean((2, 3), keepdim=True)))))


class Inverted(nn.Module):
    """Wide in the middle, where each channel is alone, and narrow at both ends."""

    def __init__(self, cin, cout, stride, wider):
        super().__init__()
        w = cin * wider
        self.body = nn.Sequential(normed(cin, w, 1), normed(w, w, 5, stride, w), Squeeze(w), normed(w, cout, 1, act=nn.Identity))
        self.same = stride == 1 and cin == cout

    def forward(self, x):
        return x + F.dropout(self.body(x), 0.05, self.training) if self.same else self.body(x)


class Phone(nn.Module):
    def __init__(self, o):
        super().__init__()
        widths = [o.base, 2 * o.base, 3 * o.base, 6 * o.base]
        stages = [normed(3, o.base, 3, 2)]
        for cin, cout in zip(widths, widths[1:]):
            stages += [Inverted(cin, cout, 2, o.wider), *[Inverted(cout, cout, 1, o.wider) for _ in range(o.layers)]]
        self.stages, self.last = nn.Sequential(*stages, normed(widths[-1], 960, 1)), nn.Sequential(nn.Linear(960, 1280), nn.Hardswish(), nn.Dropout(0.2))
        self.names = nn.Linear(1280, o.classes)

    def forward(self, pictures):
        return self.names(self.last(self.stages(pictures).mean((2, 3))))


@job("pictures_on_a_phone", "pictures on a phone", "loop", "layers", "eval")
class PicturesOnAPhone(ImageLoop):
    """A small net for phones, whose training needs far more than its use; parts of pictures are cut out at random, and the rate falls like a cosine."""
    kinds, classes = ("sgd_momentum", "adamw", "adamw_fused"), 1000
    precisions = "fp32", "autocast", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.base, self.wider = r.choice([1, 2, 3]), r.choice([16, 24]), r.choice([4, 6])
        self.draw_images([192, 224, 256], [48, 64, 96])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Phone(self))
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizers[0], 50)

    def erased(self, pictures):
        side = pictures.shape[-1]
        top, left, n = self.rng.randrange(side // 2), self.rng.randrange(side // 2), side // 4
        holes = torch.ones_like(pictures[:, :1])
        holes[..., top:top + n, left:left + n] = 0
        return pictures * holes

    def loss(self, batch):
        pictures, names = batch
        if self.model.training:
            pictures = self.erased(pictures)
        return F.cross_entropy(self.predict((pictures, names)).float(), names, label_smoothing=0.1)

    def optimize(self):
        super().optimize()
        self.schedule.step()


class Colours(nn.Module):
    """A grey picture gets smaller, and farther views are taken by holes between weights; each place chooses among colours."""

    def __init__(self, o):
        super().__init__()
        w, self.again = o.base, o.checkpointing
        self.down = nn.ModuleList(nn.Sequential(normed(1 if not k else w << k - 1, w << k, act=nn.ReLU), normed(w << k, w << k, 3, 2, act=nn.ReLU))
                                  for k in range(3))
        cin = w << 2
        self.far = nn.ModuleList(nn.Sequential(nn.Conv2d(cin, cin, 3, padding=2, dilation=2), nn.ReLU(), nn.BatchNorm2d(cin)) for _ in range(o.layers))
        self.up = nn.Sequential(nn.ConvTranspose2d(cin, cin // 2, 4, 2, 1), nn.ReLU(), nn.Conv2d(cin // 2, o.colours, 1))

    def forward(self, grey):
        x = grey
        for stage in self.down:
            x = checkpoint(stage, x, use_reentrant=False) if self.again and self.training else stage(x)
        for stage in self.far:
            x = x + stage(x)
        return self.up(x)


@job("colours_of_photographs", "colours of old photographs", "loop", "layers", "checkpointing", "eval")
class ColoursOfPhotographs(ImageLoop):
    """Which of some hundred colours a place of a grey photograph has; rare colours count more, and neighbours of the right one a bit."""
    kinds, accumulated = ("adam", "adamw", "adamw_fused"), (1, 1, 2)
    precisions = "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.base, self.colours, self.checkpointing = r.choice([3, 4, 6]), r.choice([48, 64, 96]), r.choice([128, 313]), r.random() < 0.2
        self.draw_images([160, 192], [16, 24, 32])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Colours(self))
            self.rare = torch.ones(self.colours)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0].mean(1, keepdim=True))

    def loss(self, batch):
        told = self.predict(batch).float()
        small = F.interpolate(batch[0].float(), told.shape[-2:], mode="bilinear")
        which = (small[:, 1] * 16 + small[:, 2]).long().clamp(0, self.colours - 1)
        logs = told.log_softmax(1)
        own = -logs.gather(1, which.unsqueeze(1)).squeeze(1) * self.rare[which]
        return 0.9 * own.mean() - 0.1 * logs.mean()


class Crowd(nn.Module):
    """Columns that look near, less near and far, and a map of how many people there are in each place."""

    def __init__(self, o):
        super().__init__()
        w = o.base
        def column(kernel):
            return nn.Sequential(normed(3, w, kernel, act=nn.ReLU), nn.MaxPool2d(2), normed(w, 2 * w, kernel, act=nn.ReLU), nn.MaxPool2d(2),
                                 *[normed(2 * w, 2 * w, act=nn.ReLU) for _ in range(o.layers)])
        self.columns = nn.ModuleList(column(kernel) for kernel in (3, 5, 7))
        self.where, self.people = nn.Conv2d(6 * w, 3, 1), nn.Sequential(nn.Conv2d(2 * w, w, 3, padding=1), nn.ReLU(), nn.Conv2d(w, 1, 1), nn.Softplus())

    def forward(self, pictures):
        seen = [column(pictures) for column in self.columns]
        shares = self.where(torch.cat(seen, dim=1)).softmax(1)
        return self.people(sum(part * share for part, share in zip(seen, shares.split(1, dim=1))))


@job("people_who_are_counted", "people who are counted", "loop", "layers", "eval")
class PeopleWhoAreCounted(ImageLoop):
    """How many people are in a square, by a map whose sum is the number; where there are many, distances of both maps on coarser grids count, too."""
    kinds, accumulated = ("adam", "adamw", "sgd_momentum"), (1, 1, 2)
    precisions = "fp32", "autocast"

    def draw(self):
        self.layers, self.base = self.rng.choice([1, 2, 3]), self.rng.choice([32, 40, 48])
        self.draw_images([192, 256], [4, 6, 8])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Crowd(self))

    def loss(self, batch):
        told = self.predict(batch).float()
        wanted = F.adaptive_avg_pool2d(batch[0].float().mean(1, keepdim=True), told.shape[-2:])
        lost = sum(F.mse_loss(F.avg_pool2d(told, n) * n * n, F.avg_pool2d(wanted, n) * n * n) for n in (1, 2, 4))
        return lost + 0.01 * (told.sum((1, 2, 3)) - wanted.sum((1, 2, 3))).abs().mean()


class Filled(nn.Module):
    """Convolutions with a gate: what is in a hole does not count. Coarse first, then fine."""

    def __init__(self, o):
        super().__init__()
        w = o.base
        def gated(cin, cout, stride=1, hole=1):
            return nn.Conv2d(cin, 2 * cout, 3, stride, hole, hole)
        def one():
            middle = [gated(4 * w, 4 * w, hole=2 ** (k % 4)) for k in range(o.layers)]
            return nn.ModuleList([gated(4, w), gated(w, 2 * w, 2), gated(2 * w, 4 * w, 2), *middle, gated(4 * w, 2 * w), gated(2 * w, w), gated(w, 3)])
        self.coarse, self.fine = one(), one()

    @staticmethod
    def passed(layers, x):
        for k, layer in enumerate(layers):
            x, gate = layer(x).chunk(2, dim=1)
            x = F.elu(x) * gate.sigmoid() if k < len(layers) - 1 else x.tanh()
            if k in (len(layers) - 4, len(layers) - 3):
                x = F.interpolate(x, scale_factor=2)
        return x

    def forward(self, given):
        pictures, mask = given[:, :3], given[:, 3:]
        coarse = self.passed(self.coarse, given)
        fine = self.passed(self.fine, torch.cat([pictures * (1 - mask) + coarse * mask, mask], dim=1))
        return torch.cat([coarse, fine], dim=1)


class Patches(nn.Sequential):
    """Whether a part of a picture is as it was."""

    def __init__(self, w):
        widths = [4, w, 2 * w, 4 * w, 4 * w]
        layers = [m for a, b in zip(widths, widths[1:]) for m in (nn.utils.parametrizations.spectral_norm(nn.Conv2d(a, b, 5, 2, 2)), nn.LeakyReLU(0.2))]
        super().__init__(*layers, nn.Conv2d(4 * w, 1, 3, padding=1))


@job("holes_in_pictures", "holes in pictures", "loop", "two optimizers", "layers")
class HolesInPictures(ImageLoop):
    """What was behind a scratch: one network fills holes, and another one looks for them, patch by patch."""
    kinds, precisions, accumulated = ("adam", "adamw"), ("fp32", "fp32", "autocast"), (1,)

    def draw(self):
        self.layers, self.base = self.rng.choice([2, 4]), self.rng.choice([32, 40, 48])
        self.draw_images([160, 192, 256], [6, 8, 12])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Filled(self))
            self.looker = Patches(2 * self.base).to(self.dtype)
        self.optimizers.append(OPTIMIZERS[self.kind](self.looker.parameters()))

    def holed(self, pictures):
        mask = torch.zeros_like(pictures[:, :1])
        mask[..., 16:80, 24:88] = 1
        return pictures, mask

    def filled(self, pictures, mask):
        with self.autocast():
            coarse, fine = self.model(torch.cat([pictures * (1 - mask), mask], dim=1)).chunk(2, dim=1)
        return coarse, fine, pictures * (1 - mask) + fine * mask

    def judged(self, pictures, mask):
        with self.autocast():
            return self.looker(torch.cat([pictures, mask], dim=1)).float()

    def train_looker(self, pictures, mask, done):
        lost = F.relu(1 - self.judged(pictures, mask)).mean() + F.relu(1 + self.judged(done.detach(), mask)).mean()
        self.optimizers[1].zero_grad()
        lost.backward()
        self.optimizers[1].step()

    def loss(self, batch):
        pictures, mask = self.holed(batch[0] * 2 - 1)
        coarse, fine, done = self.filled(pictures, mask)
        if torch.is_grad_enabled():
            self.train_looker(pictures, mask, done)
        return F.l1_loss(coarse.float(), pictures.float()) + F.l1_loss(fine.float(), pictures.float()) - 0.1 * self.judged(done, mask).mean()

    def optimize(self):
        self.optimizers[0].step()


class Queries(nn.Module):
    """A few learnt queries look at each other and at a picture; behind them, a language model as it was reads them as if they were words."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.pieces, self.words = nn.Conv2d(3, w, 16, 16), nn.Embedding(o.vocabulary, w)
        self.eye, self.reader = (Run([EncoderBlock(w, 8, o.attention) for _ in range(n)], again) for n, again in ((o.layers, False), (2, o.checkpointing)))
        self.queries, self.layers = nn.Parameter(torch.zeros(32, w)), nn.ModuleList(nn.TransformerDecoderLayer(
            w, 8, 4 * w, 0.1, "gelu", batch_first=True, norm_first=True) for _ in range(2))
        self.into, self.norm, self.head = nn.Linear(w, w), nn.LayerNorm(w), nn.Linear(w, o.vocabulary, bias=False)

    def stays(self):
        return self.pieces, self.eye, self.words, self.reader, self.norm, self.head

    def forward(self, pictures, told):
        with torch.no_grad():
            seen = self.eye(self.pieces(pictures).flatten(2).transpose(1, 2))
        x = self.queries.expand(len(seen), -1, -1).to(seen.dtype)
        for layer in self.layers:
            x = layer(x, seen)
        x = self.reader(torch.cat([self.into(x), self.words(told)], dim=1))
        return self.head(self.norm(x[:, len(self.queries):]))


@job("queries_between", "queries between eye and words", "loop", "images", "layers", "attention", "checkpointing", "eval", "pretrained", "dataset")
class QueriesBetween(Loop):
    """What is in a picture, in words: neither the part that sees nor the one that speaks is trained, but what is between them."""
    kinds, precisions = ("adamw", "adamw_fused", "adamw_loop"), ("fp32", "autocast", "bf16")

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.pixels = r.choice([4, 6]), r.choice([512, 768]), r.choice([16000, 32000]), r.choice([224, 256])
        self.size, self.said, self.attention, self.checkpointing = r.choice([12, 16, 24]), r.choice([32, 64]), "sdpa", r.random() < 0.2
        self.choose()

    def freeze(self):
        for part in self.model.stays():
            part.requires_grad_(False)

    def build(self):
        with torch.device(DEVICE):
            self.model = Queries(self)
        self.freeze()
        self.finish(self.model)
        self.dataset = torch.zeros(96, 3, self.pixels, self.pixels, dtype=torch.uint8), torch.zeros(96, self.said, dtype=torch.long)

    def batch(self, i):
        pictures, said = cut(self.dataset, i, self.size)
        return pictures.to(self.dtype).div_(255), said

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch)

    def loss(self, batch):
        told = self.predict(batch)[:, :-1].flatten(0, 1)
        return F.cross_entropy(told.float(), batch[1][:, 1:].flatten(), ignore_index=-100, label_smoothing=0.1)


class Unrolled(nn.Module):
    """A few rounds: a small network cleans the picture, and what the scanner has measured is put back among its waves."""

    def __init__(self, o):
        super().__init__()
        w, self.again = o.base, o.checkpointing
        def round_of():
            middle = [m for _ in range(o.depth) for m in (nn.Conv2d(w, w, 3, padding=1), nn.InstanceNorm2d(w), nn.LeakyReLU(0.2))]
            return nn.Sequential(nn.Conv2d(2, w, 3, padding=1), nn.LeakyReLU(0.2), *middle, nn.Conv2d(w, 2, 3, padding=1))
        self.rounds, self.trust = nn.ModuleList(round_of() for _ in range(o.layers)), nn.Parameter(torch.full((o.layers,), 0.5))

    def one(self, k, x, measured, mask):
        x = x - self.rounds[k](x)
        waves = torch.fft.fft2(torch.view_as_complex(x.float().permute(0, 2, 3, 1).contiguous()), norm="ortho")
        waves = waves - self.trust[k].float() * mask * (waves - measured)
        return torch.view_as_real(torch.fft.ifft2(waves, norm="ortho")).permute(0, 3, 1, 2).to(x.dtype)

    def forward(self, given):
        measured, mask = given
        x = torch.view_as_real(torch.fft.ifft2(measured, norm="ortho")).permute(0, 3, 1, 2).to(self.trust.dtype)
        for k in range(len(self.rounds)):
            x = checkpoint(self.one, k, x, measured, mask, use_reentrant=False) if self.again and self.training else self.one(k, x, measured, mask)
        return x


@job("waves_of_a_scanner", "waves of a scanner", "loop", "layers", "checkpointing", "eval", "dataset")
class WavesOfAScanner(Loop):
    """A scan from a quarter of its waves, so that nobody has to lie still for long."""
    kinds, precisions, accumulated = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.depth, self.base, self.pixels = r.choice([4, 6, 8]), r.choice([2, 3]), r.choice([32, 48]), r.choice([160, 192, 256])
        self.size, self.checkpointing = r.choice([2, 4, 6]), r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Unrolled(self))
            self.kept = torch.zeros(self.pixels)
            self.kept[::4], self.kept[:12], self.kept[-12:] = 1, 1, 1
        self.dataset = (torch.zeros(64, self.pixels, self.pixels),)

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def predict(self, scans):
        measured = torch.fft.fft2(scans.float().to(torch.complex64), norm="ortho") * self.kept
        with self.autocast():
            return self.model((measured, self.kept))

    def loss(self, scans):
        told = self.predict(scans).float().norm(dim=1)
        near = F.avg_pool2d(told.unsqueeze(1), 7) - F.avg_pool2d(scans.float().unsqueeze(1), 7)
        return F.l1_loss(told, scans.float()) + near.square().mean()


class Wave(nn.Module):
    def __init__(self, cin, cout, far):
        super().__init__()
        self.one, self.two, self.time = nn.Conv1d(cin, cout, 3, padding=1), nn.Conv1d(cout, cout, 3, padding=far, dilation=far), nn.Linear(128, 2 * cout)
        self.norm, self.short = nn.GroupNorm(8, cout), nn.Conv1d(cin, cout, 1)

    def forward(self, x, t):
        scale, shift = self.time(t).unsqueeze(-1).chunk(2, dim=1)
        return self.short(x) + self.two(F.silu(self.norm(self.one(x)) * (1 + scale) + shift))


class Sounds(nn.Module):
    def __init__(self, o):
        super().__init__()
        w, self.again = [o.base << k for k in range(4)], o.checkpointing
        self.into, self.time = nn.Conv1d(1, w[0], 15, 4, 7), nn.Sequential(nn.Linear(1, 128), nn.SiLU(), nn.Linear(128, 128))
        def some(cin, cout):
            return nn.ModuleList(Wave(cin if not n else cout, cout, 1 << n) for n in range(o.layers))
        self.down = nn.ModuleList(some(a, b) for a, b in zip([w[0], *w], w))
        self.up = nn.ModuleList(some(a + b, b) for a, b in zip([w[-1], *w[:0:-1]], w[::-1]))
        self.out = nn.ConvTranspose1d(w[0], 1, 4, 4)

    def through(self, waves, x, t):
        for wave in waves:
            x = checkpoint(wave, x, t, use_reentrant=False) if self.again and self.training else wave(x, t)
        return x

    def forward(self, x, t):
        long, t, kept = x.shape[-1], self.time(t[:, None]), []
        x = self.into(x)
        for waves in self.down:
            kept.append(self.through(waves, x, t))
            x = F.avg_pool1d(kept[-1], 4)
        for waves in self.up:
            skip = kept.pop()
            x = self.through(waves, torch.cat([F.interpolate(x, skip.shape[-1]), skip], dim=1), t)
        return self.out(x)[..., :long]


@job("sounds_from_noise", "sounds from noise", "loop", "layers", "checkpointing", "eval", "dataset", "crop")
class SoundsFromNoise(Loop):
    """Drums from noise: what a model tells is how fast the sound changes while noise is added; a slow copy of the weights is kept."""
    kinds, precisions, longest, piece = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast"), 1024, 256

    def draw(self):
        r = self.rng
        self.layers, self.base, self.length, self.size = r.choice([1, 2, 3]), r.choice([64, 96]), r.choice([128, 256]), r.choice([4, 6, 8])
        self.checkpointing = r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Sounds(self))
        self.slow = torch.optim.swa_utils.AveragedModel(self.model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.999))
        self.dataset = (torch.zeros(32, 1, self.piece * self.longest),)

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        return self.dataset[0][start:start + self.size, :, :self.piece * self.length].to(DEVICE).to(self.dtype)

    def told(self, sound, noise, t):
        angle = (t * 1.5708)[:, None, None]
        with self.autocast():
            return self.model(angle.cos() * sound + angle.sin() * noise, t), angle.cos() * noise - angle.sin() * sound

    def predict(self, sound):
        return self.told(sound, torch.randn_like(sound), torch.rand(len(sound), device=DEVICE).to(sound.dtype))[0]

    def loss(self, sound):
        told, wanted = self.told(sound, torch.randn_like(sound), torch.rand(len(sound), device=DEVICE).to(sound.dtype))
        return F.mse_loss(told.float(), wanted.float())

    def optimize(self):
        super().optimize()
        self.slow.update_parameters(self.model)

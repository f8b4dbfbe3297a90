"""Jobs of sound, tables and molecules: notes of a piano, a room with several microphones, archives of sound in codes, what a coupon does,
a molecule in a pocket, masses of molecules."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from torch.utils.checkpoint import checkpoint
from transformers import AutoModel

from core import DEVICE, job
from jobs_families_q import FeedForward
from jobs_images import EncoderBlock
from jobs_inference import Inference
from parts import Loop, cut


def cut_to_length(dataset, i, size, length):
    """Rows of each tensor, of which the first `length` places are used."""
    start = i * size % max(1, len(dataset[0]) - size + 1)
    return [tensor[start:start + size, :length].to(DEVICE, torch.float32) for tensor in dataset]


class Ear(nn.Module):
    """Bands of each moment to something about the keys, by convolutions and a net that goes both ways in time."""

    def __init__(self, o, given):
        super().__init__()
        b, w = o.base, o.width
        parts = [(nn.Conv2d(i, j, 3, padding=1), nn.BatchNorm2d(j), nn.ReLU(True)) for i, j in ((1, b), (b, b), (b, 2 * b))]
        self.near = nn.Sequential(*parts[0], *parts[1], nn.MaxPool2d((1, 2)), nn.Dropout(0.25), *parts[2], nn.MaxPool2d((1, 2)), nn.Dropout(0.25))
        self.all = nn.Linear(2 * b * (o.bands // 4), w)
        self.times = nn.LSTM(w + given, w // 2, o.layers, batch_first=True, bidirectional=True)
        self.out = nn.Linear(w, o.keys)

    def forward(self, bands, *known):
        x = self.all(self.near(bands.unsqueeze(1)).transpose(1, 2).flatten(2))
        return self.out(self.times(torch.cat([x, *known], dim=-1))[0])


class Pianist(nn.Module):
    """When keys are struck and let go; then, with what is known of both, which of them sound, and how hard they were struck."""

    def __init__(self, o):
        super().__init__()
        self.struck, self.let_go, self.hard, self.sounds = (Ear(o, given) for given in (0, 0, 0, 2 * o.keys))

    def forward(self, bands):
        struck, let_go = self.struck(bands), self.let_go(bands)
        sounds = self.sounds(bands, struck.detach().sigmoid(), let_go.detach().sigmoid())
        return torch.stack([struck, let_go, sounds, self.hard(bands)])


@job("notes_of_a_piano", "notes of a piano", "loop", "layers", "eval", "dataset", "crop")
class NotesOfAPiano(Loop):
    """A record of a piano becomes its score: some seconds in bands, and for each moment the keys; a stroke is a rare thing and counts more."""
    kinds, precisions, accumulated, longest, bands, keys = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "autocast"), (1, 1, 2), 2048, 228, 88

    def draw(self):
        r = self.rng
        self.layers, self.base, self.width = r.choice([1, 2, 3]), r.choice([32, 48]), r.choice([384, 512, 768])
        self.length, self.size = r.choice([320, 480, 640]), r.choice([4, 6, 8])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Pianist(self))
        self.dataset = torch.zeros(32, self.longest, self.bands, dtype=torch.float16), torch.zeros(32, self.longest, 4, self.keys, dtype=torch.uint8)

    def batch(self, i):
        return cut_to_length(self.dataset, i, self.size, self.length)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0].to(self.dtype))

    def loss(self, batch):
        struck, let_go, sounds, hard = self.predict(batch).float()
        right = batch[1].unbind(2)
        lost = sum(F.binary_cross_entropy_with_logits(told, key, weight=1 + more * key)
                   for told, key, more in zip((struck, let_go, sounds), right, (4, 1, 1)))
        return lost + (right[0] * (hard.sigmoid() - right[3] / 127).square()).sum() / right[0].sum().clamp(min=1)


class BandAndTime(nn.Module):
    """All moments of each band in turn, then all bands of each moment."""

    def __init__(self, w, wide):
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(1, w) for _ in range(2))
        self.nets = nn.ModuleList(nn.LSTM(w, wide, batch_first=True, bidirectional=True) for _ in range(2))
        self.joins = nn.ModuleList(nn.Linear(2 * wide, w) for _ in range(2))

    def forward(self, x):
        for n in range(2):
            y = self.norms[n](x).permute(0, 2, 3, 1)
            y = self.joins[n](self.nets[n](y.flatten(0, 1))[0]).unflatten(0, y.shape[:2])
            x = (x + y.permute(0, 3, 1, 2)).transpose(2, 3)
        return x


class RoomNet(nn.Module):
    """Spectra of all microphones to a filter for each of them and each voice; what they let through is added up."""

    def __init__(self, o):
        super().__init__()
        self.voices, self.into = o.voices, nn.Conv2d(2 * o.microphones, o.base, 3, padding=1)
        self.parts = nn.ModuleList(BandAndTime(o.base, o.wide) for _ in range(o.layers))
        self.out = nn.Conv2d(o.base, 2 * o.voices * o.microphones, 3, padding=1)

    def forward(self, spectra):
        """(rows, microphones, bands, moments), complex, to (rows, voices, bands, moments)."""
        parts = torch.cat([spectra.real, spectra.imag], dim=1)
        x = self.into(parts.to(self.out.weight.dtype))
        for part in self.parts:
            x = part(x)
        filters = self.out(x).float().unflatten(1, (self.voices, -1, 2)).movedim(3, -1).contiguous()
        return (torch.view_as_complex(filters) * spectra.unsqueeze(1)).sum(2)


@job("several_microphones", "a room with several microphones", "loop", "layers", "eval", "dataset", "crop")
class SeveralMicrophones(Loop):
    """People who talk at once in a room with some microphones: each voice alone, as it was without the room; the better order of voices counts."""
    kinds, precisions, accumulated, longest, voices, window = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "autocast"), (1, 1, 2), 96000, 2, 512

    def draw(self):
        r = self.rng
        self.layers, self.base, self.wide, self.microphones = r.choice([2, 3, 4]), r.choice([24, 32, 48]), r.choice([64, 96, 128]), r.choice([4, 6, 8])
        self.length, self.size = r.choice([16000, 24000, 32000]), r.choice([2, 3, 4, 6])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(RoomNet(self))
            self.hann = torch.hann_window(self.window)
        self.dataset = torch.zeros(24, self.longest, self.microphones, dtype=torch.float16), torch.zeros(24, self.longest, self.voices, dtype=torch.float16)

    def batch(self, i):
        return cut_to_length(self.dataset, i, self.size, self.length)

    def spectra(self, waves):
        """(rows, samples, channels) to (rows, channels, bands, moments)."""
        made = torch.stft(waves.transpose(1, 2).flatten(0, 1), self.window, self.window // 4, window=self.hann, return_complex=True)
        return made.unflatten(0, (len(waves), -1))

    def told(self, batch):
        heard = self.spectra(batch[0])
        loud = heard.abs().square().mean((1, 2, 3), keepdim=True).sqrt() + 1e-6
        with self.autocast():
            return self.model(heard / loud) * loud

    def predict(self, batch):
        return self.told(batch).abs()

    def loss(self, batch):
        told, right = self.told(batch), self.spectra(batch[1])
        orders = []
        for wanted in (right, right.flip(1)):
            off = (told - wanted).abs().mean((1, 2, 3))
            loud = ((told.abs() + 1e-5).log() - (wanted.abs() + 1e-5).log()).abs().mean((1, 2, 3))
            orders.append(off + 0.1 * loud)
        return torch.stack(orders).amin(0).mean()


@job("archives_in_codes", "archives of sound in codes", "inference")
class ArchivesInCodes(Inference):
    """Old tapes of a station as codes, for a model that will learn from them: DAC of transformers, some seconds of some tapes at a time."""

    def draw(self):
        super().draw()
        r = self.rng
        self.samples, self.size, self.steps = r.choice([48000, 72000, 96000, 144000]), r.choice([8, 12, 16, 24]), r.choice([4, 5, 6])
        self.base, self.books = r.choice([48, 64]), r.choice([6, 9])

    def build(self):
        with torch.device(DEVICE):
            self.model = AutoModel.from_config(transformers.DacConfig(
                encoder_hidden_size=self.base, downsampling_ratios=[2, 4, 5, 8], decoder_hidden_size=512, n_codebooks=self.books, codebook_size=1024,
                codebook_dim=8, upsampling_ratios=[8, 5, 4, 2], sampling_rate=24000), dtype=self.dtype).eval()

    def batch(self, i):
        return torch.zeros(self.size, 1, self.samples, dtype=self.dtype, device=DEVICE)

    def predict(self, tapes):
        loud = tapes.square().mean((1, 2), keepdim=True).sqrt() + 1e-4
        return self.model.encode(tapes / (10 * loud), return_dict=True).quantized_representation

    def take(self, i, outputs):
        self.results.append(outputs.half().cpu())


class Coupons(nn.Module):
    """What is known of a customer to whether a coupon comes, and what is spent with and without one."""

    def __init__(self, o):
        super().__init__()
        w, self.thin = o.width, o.thin
        self.kinds = nn.ModuleList(nn.Embedding(o.values, o.thin) for _ in range(o.fields))
        self.norm, self.into = nn.BatchNorm1d(o.numbers), nn.Linear(o.fields * o.thin + o.numbers, w)
        self.cross = nn.ModuleList(nn.Linear(w, w) for _ in range(o.layers))
        self.deep = nn.ModuleList(FeedForward(w, 2) for _ in range(o.layers))
        self.heads = nn.ModuleList(nn.Sequential(nn.Linear(w, w), nn.ELU(), nn.Linear(w, w // 2), nn.ELU(), nn.Linear(w // 2, 1)) for _ in range(3))
        self.move = nn.Parameter(torch.zeros(1))

    def forward(self, kinds, numbers):
        x = torch.cat([table(kinds[:, n]) for n, table in enumerate(self.kinds)] + [self.norm(numbers)], dim=1)
        x = first = self.into(x)
        for cross, deep in zip(self.cross, self.deep):
            x = first * cross(x) + x
            x = x + deep(x)
        return torch.cat([head(x) for head in self.heads], dim=1)


@job("what_a_coupon_does", "what a coupon does", "loop", "layers", "eval", "dataset")
class WhatACouponDoes(Loop):
    """How much more a customer would spend if he got a coupon: a head for those who got one, one for the others, and one for who gets them."""
    kinds, precisions, accumulated = ("adam", "adamw", "adamw_fused", "sgd_momentum"), ("fp32", "fp32", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.fields, self.numbers = r.choice([2, 3, 4]), r.choice([512, 768, 1024]), r.choice([16, 24, 32]), r.choice([40, 80])
        self.values, self.thin, self.size = r.choice([20000, 50000, 100000]), r.choice([16, 24]), r.choice([8192, 12288, 16384])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Coupons(self))
        rows = 65536
        self.dataset = torch.zeros(rows, self.fields, dtype=torch.int32), torch.zeros(rows, self.numbers), torch.zeros(rows), torch.zeros(rows)

    def batch(self, i):
        kinds, *others = cut(self.dataset, i, self.size)
        return kinds, *others

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0].long(), batch[1].to(self.dtype))

    def loss(self, batch):
        without, with_one, gets = self.predict(batch).float().unbind(1)
        spent, got = batch[2:]
        told = torch.where(got > 0.5, with_one, without)
        share = gets.sigmoid().clamp(0.01, 0.99)
        moved = told + self.model.move.float() * (got / share - (1 - got) / (1 - share))
        return F.mse_loss(told, spent) + F.binary_cross_entropy_with_logits(gets, got) + 0.1 * F.mse_loss(moved, spent)


class Between(nn.Module):
    """Every two atoms send each other something that depends on how far they are; places move along the lines between them."""

    def __init__(self, w):
        super().__init__()
        self.send = nn.Sequential(nn.Linear(2 * w + 1, w), nn.SiLU(), nn.Linear(w, w), nn.SiLU())
        self.weigh, self.shift = nn.Linear(w, 1), nn.Sequential(nn.Linear(w, w), nn.SiLU(), nn.Linear(w, 1, bias=False))
        self.take = nn.Sequential(nn.Linear(2 * w, w), nn.SiLU(), nn.Linear(w, w))

    def forward(self, x, places, free):
        apart = places.unsqueeze(2) - places.unsqueeze(1)
        far = apart.square().sum(-1, keepdim=True)
        rows, atoms, w = x.shape
        pairs = torch.cat([x.unsqueeze(2).expand(-1, -1, atoms, -1), x.unsqueeze(1).expand(-1, atoms, -1, -1), far.to(x.dtype)], dim=-1)
        sent = self.send(pairs)
        sent = sent * self.weigh(sent).sigmoid()
        x = x + self.take(torch.cat([x, sent.sum(2) / atoms], dim=-1))
        step = (apart / (far + 1).sqrt() * self.shift(sent)).mean(2)
        return x, places + free * step


class Pocket(nn.Module):
    """A molecule with noise in a pocket of a protein to the noise of its places and of its kinds of atoms."""

    def __init__(self, o):
        super().__init__()
        self.own, self.pocket, self.when, self.recompute = o.own, nn.Linear(20, o.width), nn.Linear(1, o.width), o.checkpointing
        self.kinds, self.layers, self.out = nn.Linear(10, o.width), nn.ModuleList(Between(o.width) for _ in range(o.layers)), nn.Linear(o.width, 10)

    def forward(self, places, kinds, around, residues, when):
        x = torch.cat([self.kinds(kinds), self.pocket(residues)], dim=1) + self.when(when).unsqueeze(1)
        all_places = torch.cat([places, around], dim=1)
        free = (torch.arange(x.shape[1], device=x.device) < self.own).view(1, -1, 1).to(places.dtype)
        moved = all_places
        for layer in self.layers:
            x, moved = checkpoint(layer, x, moved, free, use_reentrant=False) if self.recompute and self.training else layer(x, moved, free)
        return torch.cat([(moved - all_places)[:, :self.own].to(x.dtype), self.out(x[:, :self.own])], dim=-1)


@job("molecule_in_a_pocket", "a molecule in a pocket", "loop", "layers", "checkpointing", "eval", "dataset")
class MoleculeInAPocket(Loop):
    """A molecule that would fit into a pocket of a protein, out of noise; turning both changes nothing, and the pocket stays where it is."""
    kinds, precisions, accumulated = ("adamw", "adam", "adamw_fused"), ("fp32", "fp32", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.own, self.around = r.choice([3, 4, 5]), r.choice([96, 128, 192]), r.choice([24, 32]), r.choice([48, 64, 80])
        self.size, self.checkpointing = r.choice([12, 16, 24]), r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Pocket(self))
        shapes = (self.own, 3), (self.own, 10), (self.around, 3), (self.around, 20)
        self.dataset = tuple(torch.zeros(512, *shape) for shape in shapes)

    def batch(self, i):
        return [t.to(self.dtype) for t in cut(self.dataset, i, self.size)]

    def told(self, batch):
        places, kinds, around, residues = batch
        when = torch.rand(len(places), 1, device=DEVICE, dtype=self.dtype)
        noise = torch.randn(*places.shape[:2], 13, device=DEVICE, dtype=self.dtype)
        less, more = (when * 1.5707963).cos().unsqueeze(-1), (when * 1.5707963).sin().unsqueeze(-1)
        noisy = less * torch.cat([places, kinds], dim=-1) + more * noise
        with self.autocast():
            return self.model(noisy[..., :3], noisy[..., 3:], around, residues, when), noise

    def predict(self, batch):
        return self.told(batch)[0]

    def loss(self, batch):
        told, noise = self.told(batch)
        return F.mse_loss(told.float(), noise.float())


class Masses(nn.Module):
    """Pieces of a molecule, by their masses and how many there were, to what is in the molecule."""

    def __init__(self, o):
        super().__init__()
        w, self.recompute = o.width, o.checkpointing
        self.waves, self.into, self.whole = o.waves, nn.Linear(2 * o.waves + 1, w), nn.Linear(2 * o.waves, w)
        self.blocks, self.norm = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers)), nn.LayerNorm(w)
        self.marks, self.likely = nn.Linear(w, o.marks), nn.Linear(w, o.marks)

    def told(self, masses):
        """Masses as waves, from some thousandths to some hundreds."""
        waves = masses.float().unsqueeze(-1) * torch.logspace(-3, 3, self.waves, device=masses.device)
        return torch.cat([waves.sin(), waves.cos()], dim=-1).to(self.norm.weight.dtype)

    def forward(self, masses, often, whole):
        x = self.into(torch.cat([self.told(masses), often.unsqueeze(-1).to(self.norm.weight.dtype)], dim=-1))
        x = torch.cat([self.whole(self.told(whole)).unsqueeze(1), x], dim=1)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute and self.training else block(x)
        x = self.norm(x[:, 0])
        return self.marks(x) * self.likely(x).sigmoid()


@job("masses_of_molecules", "masses of molecules", "loop", "layers", "attention", "checkpointing", "eval", "dataset")
class MassesOfMolecules(Loop):
    """What a substance is, from the masses of its pieces: some thousand marks of its structure, which must find it among others of its mass."""
    kinds, precisions, accumulated, marks = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast"), (1, 1, 2), 4096

    def draw(self):
        r = self.rng
        self.layers, self.width, self.pieces, self.waves = r.choice([4, 6, 8]), r.choice([384, 512]), r.choice([60, 100, 128]), r.choice([128, 256])
        self.size, self.rivals, self.attention, self.checkpointing = r.choice([96, 128, 192]), r.choice([8, 16]), "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Masses(self))
        rows = 512
        self.dataset = (torch.zeros(rows, self.pieces), torch.zeros(rows, self.pieces), torch.zeros(rows),
                        torch.zeros(rows, self.rivals, self.marks, dtype=torch.uint8))

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch[:3])

    def loss(self, batch):
        told, rivals = self.predict(batch).float(), batch[3].float()
        alike = torch.einsum("bm,brm->br", F.normalize(told.sigmoid(), dim=-1), F.normalize(rivals, dim=-1))
        first = torch.zeros(len(told), dtype=torch.long, device=DEVICE)
        return F.binary_cross_entropy_with_logits(told, rivals[:, 0]) + 0.1 * F.cross_entropy(alike / 0.05, first)

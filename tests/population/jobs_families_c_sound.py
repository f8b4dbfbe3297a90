"""Jobs of sound: a codec with residual codebooks, speech from text."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from core import DEVICE, job
from jobs_images import EncoderBlock
from parts import Loop, cut


class ResidualUnit(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.body = nn.Sequential(nn.ELU(), nn.Conv1d(width, width, 7, padding=3 * dilation, dilation=dilation), nn.ELU(), nn.Conv1d(width, width, 1))

    def forward(self, x):
        return x + self.body(x)


class Codebooks(nn.Module):
    """Each book codes what the books before it have left over."""

    def __init__(self, number, entries, width):
        super().__init__()
        self.books = nn.ParameterList(torch.zeros(entries, width) for _ in range(number))

    def forward(self, x):
        left, coded, commitment = x, 0, 0
        for book in self.books:
            book = book.to(x.dtype)
            flat = left.detach().transpose(1, 2).flatten(0, 1)
            codes = (flat @ book.T - 0.5 * book.pow(2).sum(1)).argmax(1)
            found = F.embedding(codes, book).unflatten(0, (len(x), -1)).transpose(1, 2)
            commitment = commitment + F.mse_loss(left.float(), found.detach().float()) + F.mse_loss(found.float(), left.detach().float())
            left, coded = left - found.detach(), coded + found.detach()
        return x + (coded - x).detach(), commitment


class Codec(nn.Module):
    def __init__(self, o):
        super().__init__()
        down, up, width = [nn.Conv1d(1, o.width, 7, padding=3)], [], o.width
        for stride in o.strides:
            down += [ResidualUnit(width, 1), ResidualUnit(width, 3), nn.ELU(), nn.Conv1d(width, 2 * width, 2 * stride, stride, stride // 2)]
            up = [nn.ELU(), nn.ConvTranspose1d(2 * width, width, 2 * stride, stride, stride // 2), ResidualUnit(width, 1), ResidualUnit(width, 3)] + up
            width *= 2
        self.encoder, self.books = nn.Sequential(*down, nn.Conv1d(width, o.latent, 3, padding=1)), Codebooks(o.books, o.entries, o.latent)
        self.decoder = nn.Sequential(nn.Conv1d(o.latent, width, 3, padding=1), *up, nn.ELU(), nn.Conv1d(o.width, 1, 7, padding=3))

    def forward(self, waves):
        coded, commitment = self.books(self.encoder(waves))
        return self.decoder(coded), commitment


@job("residual_codec", "audio codec", "loop", "eval", "dataset")
class ResidualCodec(Loop):
    """Seconds of sound through a few codes for each frame; the loss compares frames of several lengths."""
    kinds = "adamw", "adam", "adamw_fused"
    precisions = "fp32", "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.width, self.latent, self.books, self.entries = r.choice([16, 24, 32]), 128, r.choice([4, 8]), r.choice([1024, 2048])
        self.strides, self.samples, self.size = (2, 4, 4, 8), r.choice([16384, 24576, 32768]), r.choice([8, 16])
        self.choose()

    def build(self):
        self.finish(Codec(self))
        self.dataset = torch.zeros(64, 1, self.samples),

    def batch(self, i):
        return cut(self.dataset, i, self.size).to(self.dtype)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch)[0]

    def loss(self, batch):
        with self.autocast():
            made, commitment = self.model(batch)
        made, wanted = made.float()[:, 0], batch.float()[:, 0]
        total = F.l1_loss(made, wanted) + 0.25 * commitment
        for frame in (256, 512, 1024):
            a, b = (w.unfold(1, frame, frame // 2).pow(2).mean(-1).clamp(min=1e-5).log() for w in (made, wanted))
            total = total + F.l1_loss(a, b)
        return total


class Durations(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(width, width, 3, padding=1), nn.ReLU(), nn.Conv1d(width, width, 3, padding=1), nn.ReLU(), nn.Conv1d(width, 1, 1))

    def forward(self, x):
        return self.body(x.transpose(1, 2)).squeeze(1)


class SpeechFromText(nn.Module):
    """Phonemes are encoded, each is repeated as long as it lasts, and frames are decoded."""

    def __init__(self, o):
        super().__init__()
        self.embed, self.frames = nn.Embedding(o.phonemes, o.width), o.frames
        self.position = nn.Parameter(torch.zeros(1, o.frames, o.width))
        self.encoder = nn.ModuleList(EncoderBlock(o.width, 4, o.attention) for _ in range(o.layers))
        self.decoder = nn.ModuleList(EncoderBlock(o.width, 4, o.attention) for _ in range(o.layers))
        self.durations, self.pitch, self.from_pitch = Durations(o.width), Durations(o.width), nn.Conv1d(1, o.width, 3, padding=1)
        self.bands = nn.Linear(o.width, o.bands)
        layers = [nn.Conv1d(o.bands if not k else o.width, o.bands if k == 4 else o.width, 5, padding=2) for k in range(5)]
        self.postnet = nn.Sequential(*[m for k, c in enumerate(layers) for m in ((c, nn.Tanh(), nn.Dropout(0.5)) if k < 4 else (c,))])

    def forward(self, phonemes, lengths):
        x = self.embed(phonemes)
        x = x + self.position[:, :x.shape[1]]
        for block in self.encoder:
            x = block(x)
        durations, pitch = self.durations(x.detach()), self.pitch(x)
        x = x + self.from_pitch(pitch.unsqueeze(1)).transpose(1, 2)
        x = torch.stack([row.repeat_interleave(n, dim=0, output_size=self.frames) for row, n in zip(x, lengths)]) + self.position
        for block in self.decoder:
            x = block(x)
        bands = self.bands(x)
        return bands, bands + self.postnet(bands.transpose(1, 2)).transpose(1, 2), durations, pitch


@job("speech_from_text", "speech synthesis", "loop", "layers", "attention", "eval", "dataset")
class TextToSpeech(Loop):
    """Frames of mel bands for phonemes whose lengths are known, with predictors of lengths and of pitch."""
    kinds = "adam", "adamw", "adamw_fused"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.size = r.choice([2, 3, 4]), r.choice([192, 256, 384]), r.choice([8, 16, 32])
        self.phonemes, self.length, self.frames, self.bands, self.attention = 178, r.choice([80, 120]), r.choice([600, 800, 1000]), 80, "sdpa"
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(SpeechFromText(self))
        each = torch.full((64, self.length), self.frames // self.length)
        each[:, 0] += self.frames % self.length
        self.dataset = torch.ones(64, self.length, dtype=torch.long), each, torch.zeros(64, self.frames, self.bands), torch.zeros(64, self.length)

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def outputs(self, batch):
        with self.autocast():
            return self.model(batch[0], batch[1])

    def predict(self, batch):
        return self.outputs(batch)[1]

    def loss(self, batch):
        first, second, durations, pitch = (t.float() for t in self.outputs(batch))
        timing = F.mse_loss(durations, batch[1].float().log1p()) + F.mse_loss(pitch, batch[3])
        return F.l1_loss(first, batch[2]) + F.l1_loss(second, batch[2]) + 0.1 * timing

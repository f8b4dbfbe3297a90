"""Jobs of sound, pictures and words: events of music, hidden frames, words and sounds, pictures among words, pictures scale by scale, clusters of views,
masks by queries, clips that are searched."""
import copy
import functools

import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from accelerate import Accelerator
from torch.utils.checkpoint import checkpoint
from transformers import GPT2LMHeadModel, VivitConfig, VivitModel

from core import DEVICE, job
from jobs_images import EncoderBlock, ImageLoop
from jobs_inference import Inference
from parts import Loop, cut, strided_convolutions

PARTS = {"kind": 12, "beat": 64, "pitch": 258, "duration": 128, "loudness": 66}


class Causal(nn.Module):
    """A layer that sees what came before: its own attention, by a kernel or by hand."""

    def __init__(self, width, mode):
        super().__init__()
        self.mode, self.before, self.after = mode, nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.kv, self.o = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def attend(self, q, k, v):
        if self.mode == "sdpa":
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).triu(1)
        return (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(hidden, float("-inf")).softmax(-1) @ v

    def forward(self, x):
        y = self.before(x)
        heads = [t.unflatten(-1, (8, -1)).transpose(1, 2) for t in (self.q(y), *self.kv(y).chunk(2, dim=-1))]
        x = x + self.o(self.attend(*heads).transpose(1, 2).flatten(2))
        return x + self.wide(self.after(x))


class Score(nn.Module):
    """Each event has several parts: their vectors are added up, and each part of the next event has a head."""

    def __init__(self, o):
        super().__init__()
        self.parts = nn.ModuleDict({name: nn.Embedding(n, o.width) for name, n in PARTS.items()})
        self.place, self.remake = nn.Embedding(o.events, o.width), o.checkpointing
        self.layers = nn.ModuleList(Causal(o.width, o.attention) for _ in range(o.layers))
        self.heads, self.norm = nn.ModuleDict({name: nn.Linear(o.width, n) for name, n in PARTS.items()}), nn.LayerNorm(o.width)

    def forward(self, events):
        x = sum(table(events[..., k]) for k, table in enumerate(self.parts.values()))
        x = x + self.place(torch.arange(events.shape[1], device=events.device))
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.remake and self.training else layer(x)
        x = self.norm(x)
        return torch.cat([head(x) for head in self.heads.values()], dim=-1)


@job("music_events", "events of music", "loop", "layers", "attention", "checkpointing", "eval", "dataset")
class MusicEvents(Loop):
    """Pieces for piano, an event at a time; kind, beat, pitch, duration and loudness of the next one are told at once."""
    kinds = "adamw", "adamw_fused", "adam"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.attention, self.checkpointing = r.choice([4, 6, 8]), r.choice([384, 512]), "sdpa", r.random() < 0.15
        self.events, self.size = r.choice([512, 1024]), r.choice([4, 8, 12])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Score(self))
        self.dataset = torch.zeros(48, self.events, len(PARTS), dtype=torch.uint8),

    def batch(self, i):
        return cut(self.dataset, i, self.size).long()

    def loss(self, events):
        told = self.predict(events)[:, :-1].split(list(PARTS.values()), dim=-1)
        return sum(F.cross_entropy(part.flatten(0, 1).float(), events[:, 1:, k].flatten()) for k, part in enumerate(told)) / len(told)


class Listener(nn.Module):
    """Convolutions over the samples, then layers over frames, some of which are hidden."""

    def __init__(self, o):
        super().__init__()
        w, made = o.width, []
        for k, stride in enumerate([10, 4, 4, 2]):
            made += [nn.Conv1d(1 if not k else w // 2, w // 2, stride + 2, stride, 1), nn.GroupNorm(1, w // 2), nn.GELU()]
        self.front, self.into, self.nothing = nn.Sequential(*made), nn.Linear(w // 2, w), nn.Parameter(torch.zeros(w))
        self.blocks = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers))

    def frames(self, sound):
        return self.into(self.front(sound.unsqueeze(1)).transpose(1, 2))

    def forward(self, sound, hidden=None):
        x, seen = self.frames(sound), []
        if hidden is not None:
            x = torch.where(hidden[None, :x.shape[1], None], self.nothing.to(x.dtype), x)
        for block in self.blocks:
            x = block(x)
            seen.append(x)
        return x if hidden is not None else torch.stack(seen[len(seen) // 2:]).mean(0)


@job("hidden_frames", "frames that are hidden", "loop", "layers", "eval", "dataset", "reference")
class HiddenFrames(Loop):
    """What an average of the listener hears in all frames is told from those that are not hidden."""
    kinds = "adamw", "adamw_fused", "adam"
    accumulated = 1, 1, 2

    def draw(self):
        r = self.rng
        self.layers, self.width, self.attention = r.choice([4, 6, 8]), r.choice([384, 512]), "sdpa"
        self.samples, self.size = r.choice([96000, 160000]), r.choice([8, 12, 16])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(nn.ModuleDict({"listener": Listener(self), "head": nn.Linear(self.width, self.width)}))
        self.reference = copy.deepcopy(self.model["listener"]).requires_grad_(False)
        self.dataset = torch.zeros(32, self.samples),

    def batch(self, i):
        return cut(self.dataset, i, self.size).to(self.dtype)

    def reference_outputs(self, sound):
        with self.no_grad(), self.autocast():
            return F.layer_norm(self.reference(sound).float(), (self.width,))

    def predict(self, sound):
        with self.autocast():
            return self.model["head"](self.model["listener"](sound))

    def loss(self, sound):
        wanted = self.reference_outputs(sound)
        hidden = torch.arange(wanted.shape[1], device=DEVICE) % 10 < 5
        with self.autocast():
            told = self.model["head"](self.model["listener"](sound, hidden))
        return F.smooth_l1_loss(told[:, hidden].float(), wanted[:, hidden])

    @torch.no_grad()
    def optimize(self):
        super().optimize()
        for slow, fast in zip(self.reference.parameters(), self.model["listener"].parameters()):
            slow.mul_(0.999).add_(fast, alpha=0.001)


class Spectral(nn.Module):
    """Pictures of sounds, patch by patch."""

    def __init__(self, o):
        super().__init__()
        self.cut, self.place = nn.Conv2d(1, o.width, 16, 16), nn.Parameter(torch.zeros(o.frames // 16 * 8, o.width))
        self.blocks = nn.ModuleList(EncoderBlock(o.width, 8, o.attention) for _ in range(o.layers))

    def forward(self, spectrum):
        x = self.cut(spectrum.unsqueeze(1)).flatten(2).transpose(1, 2) + self.place
        return functools.reduce(lambda state, block: block(state), self.blocks, x).mean(1)


class Together(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.sounds, self.words = Spectral(o), nn.Sequential(nn.Embedding(30000, o.width), *(EncoderBlock(o.width, 8, o.attention) for _ in range(o.layers)))
        self.of_sound, self.of_words, self.warm = nn.Linear(o.width, 256), nn.Linear(o.width, 256), nn.Parameter(torch.tensor(2.6))

    def forward(self, spectrum, words):
        return F.normalize(self.of_sound(self.sounds(spectrum)), dim=1), F.normalize(self.of_words(self.words(words).mean(1)), dim=1)


@job("words_and_sounds", "words and sounds", "loop", "layers", "attention", "eval", "dataset")
class WordsAndSounds(Loop):
    """Sounds, and what people wrote about them, in one space: Accelerate's loop, with accumulate() of its own left out."""
    kinds = "adamw", "adamw_loop"
    precisions = "fp32", "autocast", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.attention, self.frames = r.choice([3, 4, 6]), r.choice([384, 512]), "sdpa", r.choice([512, 1024])
        self.size = r.choice([16, 24, 32])
        self.choose()

    def build(self):
        self.accelerator = Accelerator(mixed_precision="bf16" if self.precision == "autocast" else "no")
        with torch.device(DEVICE):
            self.finish(Together(self))
        self.model, self.optimizers[0] = self.accelerator.prepare(self.model, self.optimizers[0])
        self.dataset = torch.zeros(96, self.frames, 128), torch.zeros(96, 64, dtype=torch.long)

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def predict(self, batch):
        return self.model(*batch)[0]

    def loss(self, batch):
        heard, read = self.model(*batch)
        near = heard.float() @ read.float().T * 14
        right = torch.arange(len(near), device=DEVICE)
        return (F.cross_entropy(near, right) + F.cross_entropy(near.T, right)) / 2

    def backward(self, loss):
        self.accelerator.backward(loss)


class Gate(nn.Module):
    """Words look at a few vectors of the pictures; at first not at all."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.look, self.open = nn.LayerNorm(width), nn.MultiheadAttention(width, 8, batch_first=True), nn.Parameter(torch.zeros(1))
        self.more = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, seen):
        y = self.look(self.norm(x), seen, seen, need_weights=False)[0]
        return x + self.open.tanh() * (y + self.more(y))


class AmongWords(nn.Module):
    """A language model that stays as it is, with a gate in front of each of its layers, and a picture's tower."""

    def __init__(self, o):
        super().__init__()
        config = transformers.GPT2Config(n_layer=o.layers, n_embd=o.width, n_head=8, vocab_size=o.words, n_positions=1024, attn_implementation=o.attention,
                                         use_cache=False)
        self.base, self.tower = GPT2LMHeadModel(config), strided_convolutions(o.width // 8)[0]
        self.few, self.read = nn.Parameter(torch.zeros(32, o.width)), nn.MultiheadAttention(o.width, 8, batch_first=True)
        self.gates = nn.ModuleList(Gate(o.width) for _ in range(o.layers))

    def seen(self, pictures):
        found = self.tower(pictures).flatten(2).transpose(1, 2)
        return self.read(self.few.expand(len(found), -1, -1), found, found, need_weights=False)[0]

    def forward(self, pictures, words):
        seen, body = self.seen(pictures), self.base.transformer
        x = body.wte(words) + body.wpe(torch.arange(words.shape[1], device=words.device))
        for gate, layer in zip(self.gates, body.h):
            x = layer(gate(x, seen))
            x = x[0] if isinstance(x, tuple) else x
        return self.base.lm_head(body.ln_f(x))


@job("pictures_among_words", "pictures among words", "loop", "layers", "attention", "pretrained", "eval", "dataset")
class PicturesAmongWords(Loop):
    """What is told of a picture; the language model was trained before."""
    kinds = "adamw", "adamw_fused"
    accumulated = 1, 1, 2

    def draw(self):
        r = self.rng
        self.layers, self.width, self.attention, self.words = r.choice([4, 6, 8]), r.choice([512, 768]), "sdpa", r.choice([16000, 32000])
        self.told, self.size = r.choice([64, 128, 256]), r.choice([8, 16])
        self.choose()

    def freeze(self):
        self.model.base.requires_grad_(False)

    def build(self):
        with torch.device(DEVICE):
            self.model = AmongWords(self)
        self.freeze()
        self.finish(self.model)
        self.dataset = torch.zeros(64, 3, 224, 224, dtype=torch.uint8), torch.zeros(64, self.told, dtype=torch.int32)

    def batch(self, i):
        pictures, words = cut(self.dataset, i, self.size)
        return pictures.to(self.dtype) / 255, words.long()

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch)

    def loss(self, batch):
        scores = self.predict(batch)
        return F.cross_entropy(scores[:, :-1].flatten(0, 1).float(), batch[1][:, 1:].flatten())


class Scales(nn.Module):
    """All places of a scale are told at once, from the coarser scales."""
    sides = 1, 2, 4, 6, 8, 12, 16

    def __init__(self, o):
        super().__init__()
        self.mode, self.begin, self.into = o.attention, nn.Embedding(o.classes, o.width), nn.Linear(o.code, o.width)
        self.level, self.place = nn.Embedding(len(self.sides), o.width), nn.Parameter(torch.zeros(sum(s * s for s in self.sides), o.width))
        self.blocks = nn.ModuleList(EncoderBlock(o.width, 8, o.attention) for _ in range(o.layers))
        self.out = nn.Linear(o.width, o.codes)

    def forward(self, codes, labels):
        n, parts = len(codes), [self.begin(labels).unsqueeze(1)]
        for small, large in zip(self.sides, self.sides[1:]):
            coarse = F.interpolate(F.adaptive_avg_pool2d(codes, small), size=large)
            parts.append(self.into(coarse.flatten(2).transpose(1, 2)))
        which = torch.cat([torch.full((s * s,), k) for k, s in enumerate(self.sides)]).to(codes.device)
        x = torch.cat(parts, dim=1) + self.place + self.level(which).expand(n, -1, -1)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


@job("scale_by_scale", "pictures scale by scale", "loop", "layers", "attention", "eval", "dataset")
class ScaleByScale(Loop):
    """Codes of pictures, from the coarsest scale to the finest one."""
    kinds = "adamw", "adamw_fused", "adam"
    classes, code = 1000, 32

    def draw(self):
        r = self.rng
        self.layers, self.width, self.attention, self.codes = r.choice([4, 6, 8]), r.choice([512, 768]), "sdpa", r.choice([4096, 8192])
        self.size = r.choice([8, 12, 16])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Scales(self))
        self.dataset = torch.zeros(128, self.code, 16, 16), torch.zeros(128, sum(s * s for s in Scales.sides), dtype=torch.long)

    def batch(self, i):
        codes, wanted = cut(self.dataset, i, self.size)
        return codes.to(self.dtype), wanted

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0], batch[1][:, 0] % self.classes)

    def loss(self, batch):
        return F.cross_entropy(self.predict(batch).flatten(0, 1).float(), batch[1].flatten())


def balanced(scores, rounds=3):
    """Each view gets a mixture of clusters such that all clusters are used alike."""
    shares = (scores.float() / 0.05).softmax(0).T
    for _ in range(rounds):
        shares = shares / (shares.sum(1, keepdim=True) + 1e-6)
        shares = shares / (shares.sum(0, keepdim=True) + 1e-6)
    return shares.T


@job("clusters_of_views", "clusters of views", "loop", "images", "eval")
class ClustersOfViews(ImageLoop):
    """Two views of a picture should be in the same clusters; small crops have to agree with both."""
    kinds = "sgd_momentum", "adamw", "adamw_fused"

    def draw(self):
        self.base, self.clusters, self.crops = self.rng.choice([48, 64, 96]), self.rng.choice([1000, 3000]), self.rng.choice([2, 4])
        self.draw_images([128, 160, 192], [32, 48, 64])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            body, last = strided_convolutions(self.base)
            head = nn.Sequential(nn.Linear(last, 1024), nn.BatchNorm1d(1024, track_running_stats=False), nn.ReLU(True), nn.Linear(1024, 128))
            self.finish(nn.Sequential(body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head, nn.Linear(128, self.clusters, bias=False)))

    def views(self, pictures):
        small = [F.interpolate(pictures, scale_factor=0.5).roll(k, 3) for k in range(self.crops)]
        return [pictures, pictures.flip(3)], small

    def loss(self, batch):
        large, small = self.views(batch[0])
        with self.autocast():
            told = [self.model(view).float() for view in large + small]
        with torch.no_grad():
            wanted = [balanced(t) for t in told[:2]]
        pairs = [(w, t) for k, w in enumerate(wanted) for n, t in enumerate(told) if n != k]
        return -sum((w * (t / 0.1).log_softmax(1)).sum(1).mean() for w, t in pairs) / len(pairs)


class MaskDecoder(nn.Module):
    """Queries look at ever finer maps; their products with the finest one are masks."""

    def __init__(self, o):
        super().__init__()
        self.backbone, last = strided_convolutions(o.base)
        self.side, self.fine = nn.Conv2d(last, o.width, 1), nn.Conv2d(2 * o.base, o.width, 1)
        self.queries, self.kinds = nn.Parameter(torch.zeros(o.queries, o.width)), nn.Linear(o.width, o.classes + 1)
        self.layers = nn.ModuleList(nn.TransformerDecoderLayer(o.width, 8, 4 * o.width, 0.0, batch_first=True, norm_first=True) for _ in range(o.layers))
        self.embed = nn.Sequential(nn.Linear(o.width, o.width), nn.ReLU(), nn.Linear(o.width, o.width))

    def forward(self, pictures):
        fine = self.backbone[:10](pictures)
        coarse = self.side(self.backbone[10:](fine))
        fine = self.fine(fine) + F.interpolate(coarse, size=fine.shape[2:])
        memory, x, told = coarse.flatten(2).transpose(1, 2), self.queries.expand(len(pictures), -1, -1), []
        for layer in self.layers:
            x = layer(x, memory)
            told.append((self.kinds(x), torch.einsum("bqc,bchw->bqhw", self.embed(x), fine)))
        return told


@job("masks_by_queries", "masks by queries", "loop", "images", "layers", "eval")
class MasksByQueries(ImageLoop):
    """Each query is a thing with its mask, after each layer of the decoder."""
    classes, kinds = 80, ("adamw", "adamw_fused")
    accumulated = 1, 1, 2

    def draw(self):
        r = self.rng
        self.base, self.width, self.layers, self.queries = r.choice([48, 64]), r.choice([128, 256]), r.choice([3, 4, 6]), r.choice([50, 100])
        self.draw_images([256, 320], [4, 8])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(MaskDecoder(self))

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])[-1][1]

    def loss(self, batch):
        with self.autocast():
            told = self.model(batch[0])
        total = 0.0
        for kinds, masks in told:
            right = torch.zeros(kinds.shape[:2], dtype=torch.long, device=DEVICE)
            some = masks[:, :8].float()
            overlap = 1 - (2 * some.sigmoid() * 0.5).sum((2, 3)) / (some.sigmoid().sum((2, 3)) + 1)
            total = total + F.cross_entropy(kinds.flatten(0, 1).float(), right.flatten()) + overlap.mean() + F.softplus(some).mean()
        return total / len(told)


@job("clips_searched", "clips that are searched", "layers", "attention")
class ClipsSearched(Inference):
    """A vector for each clip of an archive, of a transformer over tubes of frames."""

    def draw(self):
        super().draw()
        self.frames, self.size, self.width = self.rng.choice([8, 16]), self.rng.choice([8, 16]), self.rng.choice([384, 512, 768])

    def build(self):
        config = VivitConfig(hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers, num_attention_heads=8, image_size=160,
                             num_frames=self.frames, tubelet_size=[2, 16, 16], attn_implementation=self.attention)
        with torch.device(DEVICE):
            self.model = VivitModel(config, add_pooling_layer=False).to(self.dtype).eval()

    def batch(self, i):
        clip = torch.zeros(self.size, self.frames, 3, 160, 160, dtype=torch.uint8)
        return clip.to(DEVICE).to(self.dtype).sub_(127).div_(128)

    def predict(self, clips):
        return F.normalize(self.model(pixel_values=clips).last_hidden_state.mean(1), dim=-1)

    def take(self, i, outputs):
        self.results.append(outputs.float().cpu())

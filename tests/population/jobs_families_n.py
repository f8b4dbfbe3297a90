"""Jobs of language: two looks that are subtracted, several streams, weights on a sphere, signs of gradients, only biases, verdicts by parts,
words that have a copy."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from torch.utils.checkpoint import checkpoint
from transformers import AutoModel

from core import DEVICE, job
from jobs_images import EncoderBlock
from jobs_transformers import CausalLM
from parts import TextLoop


def in_heads(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def looked(q, k, v, mode, causal=True):
    """Attention, with its scores in one kernel or as a tensor."""
    if mode == "sdpa":
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1), float("-inf"))
    return F.softmax(scores, dim=-1) @ v


class Run(nn.Module):
    """Layers after each other; what is inside of them is made again in the backward pass, if so wanted."""

    def __init__(self, layers, again):
        super().__init__()
        self.layers, self.again = nn.ModuleList(layers), again

    def forward(self, x, *more):
        for layer in self.layers:
            x = checkpoint(layer, x, *more, use_reentrant=False) if self.again and self.training else layer(x, *more)
        return x


class Gated(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(w, 3 * w, bias=False), nn.Linear(w, 3 * w, bias=False), nn.Linear(3 * w, w, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Words(TextLoop):
    """A language model by hand: next words, whose loss is that of all places."""
    kinds = "adamw", "adamw_fused", "adamw_loop", "adam"
    layer_counts, widths, vocabularies, lengths, sizes = (3, 4, 6), (512, 768), (16000, 32000), (256, 512), (4, 8)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice(self.layer_counts), r.choice(self.widths), r.choice(self.vocabularies)
        self.length, self.size = r.choice(self.lengths), r.choice(self.sizes)
        self.attention, self.checkpointing = "sdpa", r.random() < 0.2
        self.choose()

    def network(self):
        raise NotImplementedError

    def build(self):
        with torch.device(DEVICE):
            network = self.network()
        self.finish(network)

    def loss(self, tokens):
        told = self.predict(tokens)[:, :-1]
        return F.cross_entropy(told.reshape(-1, told.shape[-1]).float(), tokens[:, 1:].reshape(-1))


class TwoLooks(nn.Module):
    """Each head looks twice, and what the second look sees, times a learnt share, is taken from the first."""

    def __init__(self, w, depth, mode):
        super().__init__()
        self.mode, self.heads, self.start = mode, 8, 0.8 - 0.6 * math.exp(-0.3 * depth)
        self.q, self.k, self.v, self.back = (nn.Linear(w, w, bias=False) for _ in range(4))
        self.share, self.norm = nn.Parameter(torch.zeros(4, w // 16)), nn.RMSNorm(w // 8)
        self.norms, self.wide = nn.ModuleList(nn.RMSNorm(w) for _ in range(2)), Gated(w)

    def amount(self):
        a, b, c, d = self.share.float().unbind(0)
        return (a * b).sum().exp() - (c * d).sum().exp() + self.start

    def look(self, x):
        (q1, q2), (k1, k2) = (in_heads(made(x), self.heads).chunk(2, dim=-1) for made in (self.q, self.k))
        v = in_heads(self.v(x), self.heads)
        seen = looked(q1, k1, v, self.mode) - self.amount().to(v.dtype) * looked(q2, k2, v, self.mode)
        return self.back((self.norm(seen) * (1 - self.start)).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.look(self.norms[0](x))
        return x + self.wide(self.norms[1](x))


class Subtracting(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.words, self.places = nn.Embedding(o.vocabulary, o.width), nn.Embedding(4096, o.width)
        self.run = Run([TwoLooks(o.width, n, o.attention) for n in range(o.layers)], o.checkpointing)
        self.end = nn.Sequential(nn.RMSNorm(o.width), nn.Linear(o.width, o.vocabulary, bias=False))

    def forward(self, tokens):
        return self.end(self.run(self.words(tokens) + self.places.weight[:tokens.shape[1]]))


@job("two_looks_subtracted", "two looks that are subtracted", "loop", "decoder", "layers", "attention", "checkpointing", "eval")
class TwoLooksSubtracted(Words):
    """A language model whose attention takes the noise of a second look away."""
    sizes = 2, 4, 8

    def network(self):
        return Subtracting(self)


class Streams(nn.Module):
    """Reads a layer's input from several streams, and writes its output into all of them; how much, each place decides."""

    def __init__(self, w, inner, streams):
        super().__init__()
        self.inner, self.norm, self.streams = inner, nn.RMSNorm(w), streams
        self.read, self.write, self.mix = nn.Linear(w, 1), nn.Linear(w, 1), nn.Linear(w, streams)
        self.keep = nn.Parameter(torch.eye(streams))

    def forward(self, x):
        """x: rows, places, streams, width."""
        y = self.norm(x)
        given = (self.read(y).tanh() * x).sum(2)
        mixed = (self.keep.to(x.dtype) + 0.1 * self.mix(y).tanh()) @ x
        return mixed + self.write(y).sigmoid() * self.inner(given).unsqueeze(2)


class Looking(nn.Module):
    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.norm, self.qkv, self.back = mode, nn.RMSNorm(w), nn.Linear(w, 3 * w, bias=False), nn.Linear(w, w, bias=False)

    def forward(self, x):
        q, k, v = (in_heads(t, 8) for t in self.qkv(self.norm(x)).chunk(3, dim=-1))
        return self.back(looked(q, k, v, self.mode).transpose(1, 2).flatten(2))


class ManyStreams(nn.Module):
    def __init__(self, o):
        super().__init__()
        w, n = o.width, o.streams
        self.words, self.which = nn.Embedding(o.vocabulary, w), nn.Parameter(torch.zeros(n, w))
        layers = [Streams(w, inner, n) for _ in range(o.layers) for inner in (Looking(w, o.attention), nn.Sequential(nn.RMSNorm(w), Gated(w)))]
        self.run, self.norm = Run(layers, o.checkpointing), nn.RMSNorm(w)

    def forward(self, tokens):
        x = self.run(self.words(tokens).unsqueeze(2) + self.which)
        return F.linear(self.norm(x.sum(2)), self.words.weight)


@job("several_streams", "several streams beside each other", "loop", "decoder", "layers", "attention", "checkpointing", "eval")
class SeveralStreams(Words):
    """Instead of one sum that passes through all layers there are some, and layers choose among them; the head is the table of words."""
    layer_counts, sizes, accumulated = (2, 3, 4), (2, 4), (1, 1, 2)

    def draw(self):
        super().draw()
        self.streams = self.rng.choice([2, 4])

    def network(self):
        return ManyStreams(self)


def unit(x):
    return F.normalize(x.float(), dim=-1).to(x.dtype)


class OnASphere(nn.Module):
    """A step from one point of a sphere towards another, twice: to what attention says, to what the wide part says."""

    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.root = mode, math.sqrt(w // 8)
        self.qkv, self.back, self.wide, self.down = (nn.Linear(a, b, bias=False) for a, b in ((w, 3 * w), (w, w), (w, 8 * w), (4 * w, w)))
        self.far, self.long, self.strong = nn.Parameter(torch.full((2, w), 0.05)), nn.Parameter(torch.ones(w // 8)), nn.Parameter(torch.ones(8 * w))

    def forward(self, x):
        q, k, v = (in_heads(t, 8) for t in self.qkv(x).chunk(3, dim=-1))
        q, k = unit(q) * self.long, unit(k) * self.long * self.root
        seen = unit(self.back(looked(q * self.root ** 0.5, k, v, self.mode).transpose(1, 2).flatten(2)))
        x = unit(x + self.far[0] * (seen - x))
        gate, up = (self.wide(x) * self.strong).chunk(2, dim=-1)
        return unit(x + self.far[1] * (unit(self.down(F.silu(gate) * up)) - x))


class Sphere(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.words, self.head = nn.Embedding(o.vocabulary, o.width), nn.Linear(o.width, o.vocabulary, bias=False)
        self.run, self.scale = Run([OnASphere(o.width, o.attention) for _ in range(o.layers)], o.checkpointing), nn.Parameter(torch.ones(o.vocabulary))

    def forward(self, tokens):
        return self.head(self.run(unit(self.words(tokens)))) * self.scale


@job("weights_on_a_sphere", "weights on a sphere", "loop", "decoder", "layers", "attention", "checkpointing", "eval")
class WeightsOnASphere(Words):
    """All vectors have the length one: states by the layers, and rows of the matrices, one matrix after the other, after each update."""
    sizes = 2, 4, 8
    precisions = "fp32", "autocast", "autocast"

    def network(self):
        return Sphere(self)

    def optimize(self):
        super().optimize()
        with torch.no_grad():
            for p in self.model.parameters():
                if p.dim() == 2 and min(p.shape) > 2:
                    p.div_(p.norm(dim=-1, keepdim=True).clamp_min(1e-6))


class Signs(torch.optim.Optimizer):
    """The sign of a running mean is the step: one state for each weight, instead of two."""

    def __init__(self, parameters, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.1):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            fast, slow = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                mean = self.state[p].setdefault("mean", torch.zeros_like(p)) if p not in self.state else self.state[p]["mean"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(torch.lerp(p.grad, mean, fast).sign_(), alpha=-group["lr"])
                mean.lerp_(p.grad, 1 - slow)


@job("signs_of_gradients", "signs of gradients", "loop")
class SignsOfGradients(CausalLM):
    """StableLM is trained from nothing by an optimizer that knows only signs; weight is lost in matrices alone."""
    vocabularies = 32000, 50304
    precisions, kinds = ("fp32", "autocast", "bf16"), ("adamw",)

    def config(self):
        return transformers.StableLmConfig(num_key_value_heads=8, intermediate_size=3 * self.width, bos_token_id=0, eos_token_id=0, **self.shape())

    def finish(self, model):
        super().finish(model)
        matrices, others = [], []
        for p in self.model.parameters():
            (matrices if p.dim() > 1 else others).append(p)
        self.optimizers = [Signs([{"params": matrices}, {"params": others, "weight_decay": 0.0}], lr=3e-5)]

    def loss(self, tokens):
        inputs, wanted = tokens[:, :-1], tokens[:, 1:]
        with self.autocast():
            told = self.model(input_ids=inputs, use_cache=False).logits
        return F.cross_entropy(told.transpose(1, 2).float(), wanted, label_smoothing=0.01)


class Judge(nn.Module):
    """An encoder of transformers, and marks for a text from the first word's state and the mean of all."""

    def __init__(self, encoder, width, marks):
        super().__init__()
        self.encoder, self.marks = encoder, nn.Sequential(nn.Dropout(0.1), nn.Linear(2 * width, width), nn.Tanh(), nn.Linear(width, marks))

    def forward(self, tokens):
        states = self.encoder(input_ids=tokens, attention_mask=torch.ones_like(tokens)).last_hidden_state
        return self.marks(torch.cat([states[:, 0], states.mean(1)], dim=-1))


@job("only_biases", "only biases", "loop", "layers", "attention", "eval", "pretrained")
class OnlyBiases(TextLoop):
    """How friendly, how clear, how true: ELECTRA as it was, of which nothing but the biases changes, and a head on it."""
    kinds = "adamw", "adamw_fused", "adam"
    precisions = "fp32", "autocast", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([4, 6, 8]), r.choice([512, 768]), 30522
        self.length, self.size, self.attention, self.marks = r.choice([128, 256]), r.choice([16, 32, 48]), "sdpa", r.choice([3, 5])
        self.choose()

    def freeze(self):
        for name, p in self.model.encoder.named_parameters():
            p.requires_grad_(name.endswith("bias"))

    def build(self):
        config = transformers.ElectraConfig(vocab_size=self.vocabulary, embedding_size=128, hidden_size=self.width, num_hidden_layers=self.layers,
                                            num_attention_heads=8, intermediate_size=4 * self.width, max_position_embeddings=max(1024, self.length))
        with torch.device(DEVICE):
            self.model = Judge(AutoModel.from_config(config, attn_implementation=self.attention), self.width, self.marks).train()
        self.freeze()
        self.finish(self.model)

    def loss(self, tokens):
        marks = self.predict(tokens).float()
        return F.smooth_l1_loss(marks, torch.full_like(marks, 0.5))


class ByParts(nn.Module):
    """Each part of a long text becomes a vector; a second encoder reads the vectors, and one query for each kind of verdict looks at them."""

    def __init__(self, o):
        super().__init__()
        w, self.part = o.width, o.part
        self.words, self.places, self.order = nn.Embedding(o.vocabulary, w), nn.Parameter(torch.zeros(o.part, w)), nn.Embedding(256, w)
        self.inside = Run([EncoderBlock(w, 8, o.attention) for _ in range(o.layers)], o.checkpointing)
        self.across = Run([EncoderBlock(w, 8, o.attention) for _ in range(2)], False)
        self.kinds, self.told = nn.Parameter(torch.zeros(o.kinds_of_verdicts, w)), nn.Linear(w, 1)

    def parts(self, tokens):
        short = -tokens.shape[1] % self.part
        return F.pad(tokens, (0, short)).unflatten(1, (-1, self.part))

    def forward(self, tokens):
        parts = self.parts(tokens)
        x = self.inside((self.words(parts) + self.places).flatten(0, 1))
        x = self.across(x.mean(1).unflatten(0, parts.shape[:2]) + self.order.weight[:parts.shape[1]])
        weights = (self.kinds.to(x.dtype) @ x.mT / math.sqrt(x.shape[-1])).softmax(-1)
        return self.told(weights @ x).squeeze(-1)


@job("verdicts_by_parts", "verdicts by parts", "loop", "layers", "attention", "checkpointing", "eval")
class VerdictsByParts(TextLoop):
    """Which articles of a law a case is about; cases are far longer than what the encoder takes."""
    kinds, precisions = ("adamw", "adamw_fused", "adamw_loop"), ("fp32", "autocast", "autocast")
    kinds_of_verdicts, accumulated = 40, (1, 1, 2, 4)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.part = r.choice([3, 4, 6]), r.choice([512, 768]), r.choice([30522, 50000]), r.choice([128, 256])
        self.length, self.size, self.attention, self.checkpointing = self.part * r.choice([4, 8]), r.choice([4, 6, 8]), "sdpa", r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(ByParts(self))

    def loss(self, tokens):
        told = self.predict(tokens).float()
        wanted = torch.zeros_like(told)
        right = torch.where(wanted > 0, told.sigmoid(), 1 - (told.sigmoid() - 0.05).clamp(min=0))
        hard = (1 - right.detach()) ** torch.where(wanted > 0, 1.0, 4.0)
        return -(hard * right.clamp_min(1e-8).log()).sum(1).mean()


class Copying(nn.Module):
    """A reader and a writer; a word comes from the vocabulary, or from what was read, where the writer looks."""

    def __init__(self, o):
        super().__init__()
        w, self.again = o.width, o.checkpointing
        self.words, self.places = nn.Embedding(o.vocabulary, w), nn.Embedding(4096, w)
        self.reader = Run([EncoderBlock(w, 8, o.attention) for _ in range(o.layers)], o.checkpointing)
        self.writer = nn.ModuleList(nn.TransformerDecoderLayer(w, 8, 4 * w, 0.1, "gelu", batch_first=True, norm_first=True) for _ in range(o.layers))
        self.query, self.switch, self.out = nn.Linear(w, w), nn.Linear(w, 1), nn.Linear(w, o.vocabulary)

    def embedded(self, tokens):
        return self.words(tokens) + self.places.weight[:tokens.shape[1]]

    def forward(self, read, written):
        x, y = self.reader(self.embedded(read)), self.embedded(written)
        later = torch.full((y.shape[1],) * 2, float("-inf"), device=y.device, dtype=y.dtype).triu(1)
        for layer in self.writer:
            y = layer(y, x, tgt_mask=later)
        where = (self.query(y) @ x.mT / math.sqrt(x.shape[-1])).softmax(-1)
        return self.out(y), where, self.switch(y).squeeze(-1)


@job("words_that_are_copied", "words that are copied", "loop", "layers", "attention", "checkpointing", "eval")
class WordsThatAreCopied(TextLoop):
    """A headline for a text, with names that no vocabulary has; looking at the same place again costs something."""
    kinds, precisions = ("adam", "adamw", "adamw_fused", "adafactor"), ("fp32", "autocast", "autocast")

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.headline = r.choice([2, 3, 4]), r.choice([384, 512]), r.choice([16000, 32000]), r.choice([32, 64])
        self.length, self.size, self.attention, self.checkpointing = r.choice([256, 512]), r.choice([8, 12, 16]), "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Copying(self))

    def written(self, tokens):
        return F.pad(tokens[:, :self.headline - 1], (1, 0))

    def predict(self, tokens):
        with self.autocast():
            return self.model(tokens, self.written(tokens))[0]

    def loss(self, tokens):
        wanted = tokens[:, :self.headline]
        with self.autocast():
            scores, where, switch = self.model(tokens, self.written(tokens))
        new = switch.float().sigmoid()
        made = -F.cross_entropy(scores.float().flatten(0, 1), wanted.flatten(), reduction="none").view_as(new)
        same = tokens.unsqueeze(1) == wanted.unsqueeze(2)
        copied = (where.float() * same).sum(-1)
        again = torch.minimum(where, where.cumsum(1) - where).sum(-1).float().mean()
        return -(new * made.exp() + (1 - new) * copied).clamp_min(1e-8).log().mean() + 0.1 * again

"""Jobs of further fields: labels in a chain, separated sounds, speakers, segments with a memory, knowledge, views of oneself, features of activations,
soft prompts, preferences, translation."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

from core import DEVICE, job
from jobs_families_c_text import llama
from jobs_images import EncoderBlock, ImageLoop
from parts import Loop, TextLoop, cut


class Chain(nn.Module):
    """Labels by a recurrent encoder and the likelihood of their whole chain."""

    def __init__(self, o):
        super().__init__()
        self.embed, self.encoder = nn.Embedding(o.vocabulary, o.width), nn.LSTM(o.width, o.width // 2, o.layers, batch_first=True, bidirectional=True)
        self.emit, self.transitions = nn.Linear(o.width, o.labels), nn.Parameter(torch.zeros(o.labels, o.labels))

    def forward(self, tokens):
        return self.emit(self.encoder(self.embed(tokens))[0])

    def likelihood(self, emissions, labels):
        told = emissions.gather(2, labels[..., None]).sum((1, 2)) + self.transitions[labels[:, :-1], labels[:, 1:]].sum(1)
        alpha = emissions[:, 0]
        for t in range(1, emissions.shape[1]):
            alpha = torch.logsumexp(alpha[:, :, None] + self.transitions, dim=1) + emissions[:, t]
        return (torch.logsumexp(alpha, dim=1) - told).mean()


@job("chain_of_labels", "sequence labelling", "loop", "eval")
class ChainOfLabels(TextLoop):
    kinds = "adam", "adamw", "sgd_momentum"
    precisions = "fp32",

    def draw(self):
        r = self.rng
        self.layers, self.width, self.labels, self.vocabulary = r.choice([1, 2]), r.choice([256, 512]), r.choice([9, 19, 37]), r.choice([20000, 50000, 100000])
        self.length, self.size = r.choice([48, 64]), r.choice([64, 128, 256])
        self.rows = 256
        self.choose()

    def build(self):
        self.finish(Chain(self))

    def loss(self, tokens):
        return self.model.likelihood(self.predict(tokens).float(), torch.zeros_like(tokens))


class Separator(nn.Module):
    """Waves to a learned basis, masks by dilated convolutions, and back."""

    def __init__(self, o):
        super().__init__()
        self.encode, self.decode = nn.Conv1d(1, o.width, 16, 8, bias=False), nn.ConvTranspose1d(o.width, 1, 16, 8, bias=False)
        def block(dilation):
            return nn.Sequential(nn.Conv1d(o.narrow, 2 * o.narrow, 1), nn.PReLU(), nn.GroupNorm(1, 2 * o.narrow),
                                 nn.Conv1d(2 * o.narrow, 2 * o.narrow, 3, padding=dilation, dilation=dilation, groups=2 * o.narrow), nn.PReLU(),
                                 nn.GroupNorm(1, 2 * o.narrow), nn.Conv1d(2 * o.narrow, o.narrow, 1))
        self.into, self.blocks = nn.Conv1d(o.width, o.narrow, 1), nn.ModuleList(block(2 ** (k % 6)) for k in range(o.layers))
        self.masks, self.sources = nn.Conv1d(o.narrow, o.sources * o.width, 1), o.sources

    def forward(self, mixture):
        basis = self.encode(mixture[:, None]).relu()
        x = self.into(basis)
        for block in self.blocks:
            x = x + block(x)
        masks = self.masks(x).unflatten(1, (self.sources, -1)).sigmoid()
        return self.decode((masks * basis[:, None]).flatten(0, 1)).view(len(mixture), self.sources, -1)


@job("separated_sounds", "source separation", "loop", "layers", "eval", "dataset")
class SeparatedSounds(Loop):
    """Voices out of a mixture; the better assignment of the two counts."""
    precisions = "fp32", "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.narrow, self.sources = r.choice([8, 12, 16]), r.choice([256, 512]), r.choice([96, 128]), 2
        self.samples, self.size = r.choice([16000, 32000]), r.choice([2, 4, 8])
        self.choose()

    def build(self):
        self.finish(Separator(self))
        self.dataset = torch.zeros(24, self.samples), torch.zeros(24, self.sources, self.samples)

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        made, wanted = self.predict(batch).float(), batch[1]

        def ratio(a, b):
            scaled = (a * b).sum(-1, keepdim=True) / (b.square().sum(-1, keepdim=True) + 1e-6) * b
            return -((scaled.square().sum(-1) + 1e-6) / ((a - scaled).square().sum(-1) + 1e-6)).log10()
        return torch.stack([ratio(made, wanted).mean(1), ratio(made, wanted.flip(1)).mean(1)]).amin(0).mean()


class SpeakerNet(nn.Module):
    """Frames of mel bands through dilated convolutions and a pooling that weighs frames."""

    def __init__(self, o):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(80, o.width, 5, padding=2), nn.ReLU(), nn.BatchNorm1d(o.width))
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv1d(o.width, o.width, 3, padding=d, dilation=d), nn.ReLU(), nn.BatchNorm1d(o.width), nn.Conv1d(o.width, o.width, 1))
                                    for d in (2, 3, 4))
        self.join, self.weigh = nn.Conv1d(3 * o.width, 1536, 1), nn.Sequential(nn.Conv1d(1536, 128, 1), nn.Tanh(), nn.Conv1d(128, 1536, 1))
        self.embed, self.speakers = nn.Linear(3072, 192), nn.Parameter(torch.zeros(o.speakers, 192))

    def forward(self, mel):
        x, seen = self.stem(mel), []
        for block in self.blocks:
            x = x + block(x)
            seen.append(x)
        x = self.join(torch.cat(seen, dim=1)).relu()
        weight = self.weigh(x).softmax(-1)
        mean = (x * weight).sum(-1)
        return self.embed(torch.cat([mean, ((x * x * weight).sum(-1) - mean * mean).clamp(min=1e-6).sqrt()], dim=1))


@job("speakers", "speaker verification", "loop", "eval", "dataset")
class Speakers(Loop):
    """Who speaks, with a margin between speakers."""

    def draw(self):
        r = self.rng
        self.width, self.speakers, self.frames, self.size = r.choice([512, 1024]), r.choice([1211, 5994]), r.choice([200, 300]), r.choice([32, 64, 128])
        self.choose()

    def build(self):
        self.finish(SpeakerNet(self))
        self.dataset = torch.zeros(160, 80, self.frames), torch.zeros(160, dtype=torch.long)

    def batch(self, i):
        mel, who = cut(self.dataset, i, self.size)
        return mel.to(self.dtype), who

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        cosine = F.normalize(self.predict(batch).float()) @ F.normalize(self.model.speakers.float()).T
        return F.cross_entropy(30 * (cosine - 0.2 * F.one_hot(batch[1], self.speakers)), batch[1])


class SegmentLayer(nn.Module):
    def __init__(self, width, mode):
        super().__init__()
        self.norm1, self.norm2, self.mode = nn.LayerNorm(width), nn.LayerNorm(width), mode
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, memory):
        b, s, c = x.shape
        seen = self.norm1(torch.cat([memory, x], dim=1))
        q = self.q(seen[:, -s:]).view(b, s, 8, -1).transpose(1, 2)
        k, v = (t.view(b, -1, 8, c // 8).transpose(1, 2) for t in self.kv(seen).chunk(2, dim=-1))
        if self.mode == "sdpa":
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            y = (q @ k.mT * (c // 8) ** -0.5).softmax(-1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(b, s, c))
        return x + self.mlp(self.norm2(x))


class SegmentModel(nn.Module):
    """Returns logits, and the states that the next segment sees."""

    def __init__(self, o):
        super().__init__()
        self.embed, self.head = nn.Embedding(o.vocabulary, o.width), nn.Linear(o.width, o.vocabulary, bias=False)
        self.layers = nn.ModuleList(SegmentLayer(o.width, o.attention) for _ in range(o.layers))

    def forward(self, tokens, memory):
        x, states = self.embed(tokens), []
        for k, layer in enumerate(self.layers):
            states.append(x.detach())
            known = memory[k] if memory and memory[k].shape == x.shape else x.new_zeros(len(x), 0, x.shape[2])
            x = layer(x, known)
        return self.head(x), states


@job("segments_with_memory", "memory of segments", "loop", "decoder", "layers", "attention", "eval")
class SegmentsWithMemory(TextLoop):
    """A language model that reads segment after segment, and sees the states of the one before, which are detached."""

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.attention = r.choice([3, 4, 6]), r.choice([384, 512, 768]), r.choice([8192, 16384, 32000]), "sdpa"
        self.length, self.size = r.choice([128, 256, 512]), r.choice([4, 8, 16])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(SegmentModel(self))
        self.memory = None

    def predict(self, tokens):
        with self.autocast():
            logits, self.memory = self.model(tokens, self.memory)
        return logits

    def loss(self, tokens):
        logits = self.predict(tokens)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


@job("knowledge", "knowledge graphs", "loop", "dataset")
class Knowledge(Loop):
    """Which object a subject and a relation have, against sampled entities."""
    precisions = "fp32",
    clips = 0,
    kinds = "adam", "adamw", "sgd_momentum"

    def draw(self):
        r = self.rng
        self.entities, self.relations, self.width = r.choice([100000, 300000, 600000]), r.choice([237, 822]), r.choice([128, 200, 256])
        self.size, self.negatives = r.choice([512, 1024]), r.choice([128, 256])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(nn.ModuleDict({"entity": nn.Embedding(self.entities, 2 * self.width), "relation": nn.Embedding(self.relations, 2 * self.width)}))
        self.dataset = torch.zeros(16384, 3, dtype=torch.long),

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def loss(self, triples):
        entity, relation = self.model["entity"], self.model["relation"]
        (a, b), (c, d) = entity(triples[:, 0]).chunk(2, -1), relation(triples[:, 1]).chunk(2, -1)
        asked = torch.cat([a * c - b * d, a * d + b * c], dim=-1)
        others = entity(torch.zeros(len(triples), self.negatives, dtype=torch.long, device=DEVICE))
        right, wrong = (asked * entity(triples[:, 2])).sum(-1), (asked[:, None] * others).sum(-1)
        return F.softplus(-right).mean() + (F.softplus(wrong) * wrong.detach().softmax(-1)).sum(-1).mean()


@job("views_of_oneself", "self-distillation", "loop", "images", "layers", "attention", "reference")
class ViewsOfOneself(ImageLoop):
    """A student sees small and large views, a slow copy of it the large ones; both tell the same of an image."""
    kinds = "adamw", "adamw_fused", "sgd_momentum"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.small, self.kinds_told, self.attention = r.choice([3, 4, 6]), r.choice([256, 384]), r.choice([2, 4]), r.choice([4096, 16384]), "sdpa"
        self.draw_images([128, 192], [8, 16, 32])
        self.choose()

    def net(self):
        with torch.device(DEVICE):
            return nn.ModuleDict({"patch": nn.Conv2d(3, self.width, 16, 16), "blocks": nn.Sequential(*[EncoderBlock(self.width, 8, self.attention) for _ in range(self.layers)]),
                                  "head": nn.Sequential(nn.Linear(self.width, 1024), nn.GELU(), nn.Linear(1024, 256), nn.Linear(256, self.kinds_told, bias=False))})

    def build(self):
        self.finish(self.net())
        self.reference = copy.deepcopy(self.model).requires_grad_(False)

    def told(self, net, images):
        with self.autocast():
            return net["head"](net["blocks"](net["patch"](images).flatten(2).transpose(1, 2)).mean(1)).float()

    def predict(self, batch):
        return self.told(self.model, batch[0])

    def reference_outputs(self, batch):
        with self.no_grad():
            return self.told(self.reference, torch.cat([batch[0], batch[0].flip(3)]))

    def loss(self, batch):
        wanted = (self.reference_outputs(batch) / 0.04).softmax(-1).chunk(2)
        large, total = self.told(self.model, torch.cat([batch[0], batch[0].flip(3)])).chunk(2), 0
        small = F.interpolate(batch[0], scale_factor=0.5)
        seen = [large[1], large[0], *self.told(self.model, torch.cat([small] * self.small)).chunk(self.small)]
        for k, view in enumerate(seen):
            total = total - (wanted[k % 2] * (view / 0.1).log_softmax(-1)).sum(-1).mean()
        return total / len(seen)

    def optimize(self):
        super().optimize()
        with torch.no_grad():
            for slow, p in zip(self.reference.parameters(), self.model.parameters()):
                slow.lerp_(p, 0.004)


@job("features_of_activations", "interpretability", "loop", "dataset", "reference", "eval")
class FeaturesOfActivations(Loop):
    """A wide, sparse autoencoder of what a frozen language model has between two layers."""
    kinds = "adam", "adamw", "adamw_loop"
    precisions = "fp32", "bf16"

    def draw(self):
        r = self.rng
        self.width, self.times, self.vocabulary, self.attention = r.choice([512, 768]), r.choice([8, 16, 32]), 16000, "sdpa"
        self.texts, self.size, self.length = 64, r.choice([8, 16]), r.choice([128, 256])
        self.choose()

    def build(self):
        self.reference = llama(self, 3, self.width, self.vocabulary, self.dtype).eval().requires_grad_(False)
        with torch.device(DEVICE):
            self.finish(nn.ModuleDict({"encode": nn.Linear(self.width, self.times * self.width), "decode": nn.Linear(self.times * self.width, self.width)}))
        self.dataset = torch.zeros(self.texts, self.length, dtype=torch.long),

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def reference_outputs(self, tokens):
        with self.no_grad():
            return self.reference.model(input_ids=tokens).last_hidden_state.flatten(0, 1)

    def predict(self, tokens):
        with self.autocast():
            return self.model["encode"](self.reference_outputs(tokens)).relu()

    def loss(self, tokens):
        states = self.reference_outputs(tokens).detach()
        with self.autocast():
            features = self.model["encode"](states).relu()
            made = self.model["decode"](features)
        return F.mse_loss(made.float(), states.float()) + 1e-3 * features.float().abs().sum(-1).mean()


@job("soft_prompts", "prompt tuning", "loop", "decoder", "layers", "attention", "tokens", "pretrained")
class SoftPrompts(TextLoop):
    """Some vectors before each text are learned, in front of a frozen language model."""
    kinds = "adamw", "adam"
    precisions = "autocast", "bf16", "bf16"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.attention = r.choice([3, 4, 6]), r.choice([512, 768, 1024]), r.choice([16000, 32000]), "sdpa"
        self.length, self.size, self.prompt_length = r.choice([128, 256, 512]), r.choice([4, 8, 16]), r.choice([20, 100])
        self.choose()

    def freeze(self):
        self.model.requires_grad_(False)
        self.model.soft.requires_grad_(True)

    def build(self):
        net = llama(self, self.layers, self.width, self.vocabulary, self.dtype)
        net.soft = nn.Parameter(torch.zeros(self.prompt_length, self.width, device=DEVICE, dtype=self.dtype))
        self.model = net
        self.freeze()
        self.finish(net)

    def loss(self, tokens):
        words = self.model.get_input_embeddings()(tokens)
        inputs = torch.cat([self.model.soft.expand(len(tokens), -1, -1), words], dim=1)
        with self.autocast():
            logits = self.model(inputs_embeds=inputs, use_cache=False).logits[:, self.prompt_length:]
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


@job("preferences", "reward model", "loop", "layers", "attention", "tokens", "eval")
class Preferences(TextLoop):
    """A score for each answer; the preferred one of a pair should have the higher one."""
    kinds = "adamw", "adamw_fused", "adamw_loop"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.attention = r.choice([2, 3, 4]), r.choice([512, 768, 1024]), r.choice([8192, 32000]), "sdpa"
        self.length, self.size = r.choice([256, 512]), r.choice([4, 8, 16])
        self.choose()

    def build(self):
        net = llama(self, self.layers, self.width, self.vocabulary)
        net.lm_head = nn.Linear(self.width, 1, device=DEVICE)
        self.finish(net)

    def predict(self, tokens):
        with self.autocast():
            return self.model(input_ids=tokens, use_cache=False).logits[:, -1, 0]

    def loss(self, tokens):
        chosen, rejected = self.predict(tokens).float(), self.predict(tokens.flip(1)).float()
        return -F.logsigmoid(chosen - rejected).mean()


@job("translation", "translation", "loop", "layers", "eval", "dataset")
class Translation(Loop):
    """PyTorch's own transformer, from one language to another, with smoothed labels."""
    kinds = "adam", "adamw", "adamw_fused"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([2, 3, 4]), r.choice([256, 512]), r.choice([10000, 20000, 37000])
        self.words, self.size = r.choice([48, 64, 96]), r.choice([16, 32, 64])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(nn.ModuleDict({"embed": nn.Embedding(self.vocabulary, self.width), "out": nn.Linear(self.width, self.vocabulary),
                                       "net": nn.Transformer(self.width, 8, self.layers, self.layers, 4 * self.width, batch_first=True)}))
        self.dataset = torch.zeros(96, self.words, dtype=torch.long), torch.zeros(96, self.words, dtype=torch.long)

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def predict(self, batch):
        source, told = batch
        mask = torch.ones(self.words - 1, self.words - 1, dtype=torch.bool, device=DEVICE).triu(1)
        with self.autocast():
            x = self.model["net"](self.model["embed"](source), self.model["embed"](told[:, :-1]), tgt_mask=mask)
            return self.model["out"](x)

    def loss(self, batch):
        return F.cross_entropy(self.predict(batch).flatten(0, 1).float(), batch[1][:, 1:].flatten(), label_smoothing=0.1)

"""Jobs of language and of shops: masked words with a trainer, code search with Accelerate, interests of people, several goals of a feed, margins of a teacher,
a gated memory, words that skip layers, trees of sentences."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from accelerate import Accelerator
from torch.utils.checkpoint import checkpoint
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification, Trainer, TrainingArguments

from core import DEVICE, job
from jobs_trainers import OUTPUT, Rows, TrainerJob
from parts import Loop, TextLoop, cut


class Hider(Trainer):
    """Asks the job for the loss."""
    own = None

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        return self.own.loss(inputs)


@job("masked_with_trainer", "masked words with a trainer", "trainer", "tokens", "layers", "attention", "checkpointing", "states", "forward")
class MaskedWithTrainer(TrainerJob):
    """EuroBERT under transformers' Trainer: words are hidden when the batch is on the device, and those alone are scored."""

    def draw(self):
        super().draw()
        self.vocabulary, self.length, self.size, self.every = 30527, self.rng.choice([128, 256]), self.rng.choice([8, 16, 32]), self.rng.choice([5, 7])

    def config(self):
        return transformers.EuroBertConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers,
                                           num_attention_heads=8, num_key_value_heads=8, max_position_embeddings=2048, pad_token_id=0, bos_token_id=1,
                                           eos_token_id=2, mask_token_id=4)

    def build(self):
        with torch.device(DEVICE):
            self.model = AutoModelForMaskedLM.from_config(self.config(), attn_implementation=self.attention)
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": 2, "gradient_checkpointing": self.checkpointing, **self.trainer_arguments})
        sets = {name: Rows(times * self.size, self.length) for name, times in (("train_dataset", self.rows), ("eval_dataset", 2))}
        self.trainer = Hider(self.model, arguments, callbacks=self.callbacks, **sets)
        self.trainer.own = self

    def loss(self, batch):
        tokens = batch["input_ids"]
        hidden = torch.arange(1, tokens.shape[1], self.every, device=tokens.device)
        logits = self.trainer.model(input_ids=tokens.index_fill(1, hidden, 4), attention_mask=batch["attention_mask"]).logits
        return F.cross_entropy(logits.index_select(1, hidden).flatten(0, 1).float(), tokens.index_select(1, hidden).flatten())


@job("code_search", "code search with Accelerate", "loop", "layers", "attention", "eval")
class CodeSearch(TextLoop):
    """Functions and what their docstrings say, by one encoder; Accelerate prepares, scales and clips."""
    kinds = "adamw", "adamw_fused", "adam"
    precisions = "fp32", "autocast", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.attention = r.choice([3, 4, 6]), r.choice([512, 768]), 50265, "sdpa"
        self.length, self.size, self.sharp = r.choice([128, 256]), r.choice([16, 24, 32]), r.choice([0.02, 0.05])
        self.choose()

    def build(self):
        config = transformers.XLMRobertaXLConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=4 * self.width,
                                                 num_hidden_layers=self.layers, num_attention_heads=8, max_position_embeddings=2050)
        with torch.device(DEVICE):
            model = AutoModel.from_config(config, attn_implementation=self.attention)
        self.accelerator = Accelerator(mixed_precision="bf16" if self.precision == "autocast" else "no")
        self.finish(model)
        self.model, *self.optimizers = self.accelerator.prepare(self.model, *self.optimizers)

    def predict(self, tokens):
        return F.normalize(self.model(input_ids=tokens).last_hidden_state.mean(1).float(), dim=-1)

    def loss(self, tokens):
        code, told = self.predict(tokens), self.predict(tokens[:, :max(8, tokens.shape[1] // 4)].contiguous())
        near, right = code @ told.T / self.sharp, torch.arange(len(code), device=DEVICE)
        return 0.5 * (F.cross_entropy(near, right) + F.cross_entropy(near.T, right))

    def backward(self, loss):
        self.accelerator.backward(loss)

    def optimize(self):
        if self.clip:
            self.accelerator.clip_grad_norm_(self.model.parameters(), self.clip)
        for optimizer in self.optimizers:
            optimizer.step()


def dense(*widths):
    return nn.Sequential(*[m for a, b in zip(widths, widths[1:]) for m in (nn.Linear(a, b), nn.PReLU())])


class Interest(nn.Module):
    """How much each thing of the past has to do with the one that is offered."""

    def __init__(self, o):
        super().__init__()
        w = o.each
        self.things = nn.Embedding(o.things, w)
        self.weigh = nn.Sequential(dense(4 * w, *[o.width] * o.layers), nn.Linear(o.width, 1))
        self.told = nn.Sequential(dense(2 * w + 16, 4 * o.width, o.width), nn.Linear(o.width, 1))

    def forward(self, past, offered, about):
        before, now = self.things(past), self.things(offered)
        wide = now.unsqueeze(1).expand_as(before)
        weights = self.weigh(torch.cat([before, wide, before - wide, before * wide], dim=-1))
        return self.told(torch.cat([(weights * before).sum(1), now, about], dim=-1)).squeeze(-1)


@job("interests", "interests of people", "loop", "layers", "eval", "dataset", "crop")
class Interests(Loop):
    """Whether somebody wants a thing, by what that one has looked at before, each of it weighed anew for each thing."""
    kinds = "adam", "adamw", "sgd_momentum"
    precisions = "fp32", "fp32", "autocast"
    longest = 400

    def draw(self):
        r = self.rng
        self.layers, self.width, self.each, self.things = r.choice([1, 2, 3]), r.choice([64, 96, 128]), r.choice([32, 48, 64]), r.choice([200_000, 500_000])
        self.length, self.size = r.choice([50, 100]), r.choice([512, 1024, 2048])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Interest(self))
        n = 2 * self.size
        self.dataset = torch.zeros(n, self.longest, dtype=torch.int32), torch.zeros(n, dtype=torch.int32), torch.zeros(n, 16), torch.zeros(n)

    def batch(self, i):
        past, offered, about, bought = cut(self.dataset, i, self.size)
        return past[:, :self.length].long(), offered.long(), about.to(self.dtype), bought

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch[:3])

    def loss(self, batch):
        return F.binary_cross_entropy_with_logits(self.predict(batch).float(), batch[3])


class Goals(nn.Module):
    """Experts for all goals, which each goal mixes in its own way, layer by layer."""

    def __init__(self, o):
        super().__init__()
        self.fields, wide = nn.Embedding(o.words, o.each), o.each * o.columns
        self.stages = nn.ModuleList()
        for k in range(o.layers):
            a = wide if k == 0 else o.width
            self.stages.append(nn.ModuleDict({"experts": nn.ModuleList(dense(a, o.width, o.width) for _ in range(o.experts)),
                                              "gates": nn.ModuleList(nn.Linear(a, o.experts) for _ in range(o.goals))}))
        self.told = nn.ModuleList(nn.Linear(o.width, 1) for _ in range(o.goals))

    def forward(self, rows):
        x = self.fields(rows).flatten(1)
        each = [x] * len(self.told)
        for stage in self.stages:
            known = torch.stack([expert(sum(each) / len(each)) for expert in stage["experts"]], dim=1)
            each = [(gate(e).softmax(-1).unsqueeze(-1) * known).sum(1) for gate, e in zip(stage["gates"], each)]
        return torch.cat([head(e) for head, e in zip(self.told, each)], dim=1)


@job("goals_of_a_feed", "several goals of a feed", "loop", "layers", "eval", "dataset")
class GoalsOfAFeed(Loop):
    """Clicks, likes, shares and seconds: one network with experts, from the fields of who, what and when."""
    kinds = "adam", "adamw", "adamw_fused"
    precisions = "fp32", "fp32", "autocast"
    goals = 4

    def draw(self):
        r = self.rng
        self.layers, self.width, self.experts, self.each = r.choice([2, 3]), r.choice([256, 384, 512]), r.choice([4, 6, 8]), 16
        self.columns, self.words, self.size = r.choice([24, 40]), r.choice([200_000, 400_000]), r.choice([4096, 8192])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Goals(self))
        n = 2 * self.size
        self.dataset = torch.zeros(n, self.columns, dtype=torch.int32), torch.zeros(n, self.goals)

    def batch(self, i):
        rows, done = cut(self.dataset, i, self.size)
        return rows.long(), done

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        each = F.binary_cross_entropy_with_logits(self.predict(batch).float(), batch[1], reduction="none").mean(0)
        return sum(weight * one for weight, one in zip((1.0, 0.5, 0.3, 0.2), each))


def encoder(o, times, auto):
    config = transformers.ErnieConfig(vocab_size=o.vocabulary, hidden_size=o.width, intermediate_size=4 * o.width, num_hidden_layers=times * o.layers,
                                      num_attention_heads=8, max_position_embeddings=1024, num_labels=1, task_type_vocab_size=3)
    with torch.device(DEVICE):
        return auto.from_config(config, attn_implementation=o.attention)


@job("margins_of_a_teacher", "margins of a teacher", "loop", "layers", "attention", "eval", "reference")
class MarginsOfATeacher(TextLoop):
    """A teacher reads question and passage together; a student, which reads them apart, should have the same difference of two passages' scores."""
    kinds = "adamw", "adamw_fused", "adam"
    precisions = "fp32", "autocast", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.attention = r.choice([2, 3, 4]), r.choice([384, 512, 768]), 30522, "sdpa"
        self.length, self.size, self.asked = r.choice([128, 256]), r.choice([8, 16, 24]), 32
        self.choose()

    def build(self):
        self.finish(encoder(self, 1, AutoModel))
        self.reference = encoder(self, 2, AutoModelForSequenceClassification).to(self.dtype).eval().requires_grad_(False)

    def reference_outputs(self, pairs):
        with self.no_grad(), self.autocast():
            return self.reference(input_ids=pairs).logits.squeeze(-1).float()

    def predict(self, tokens):
        with self.autocast():
            return self.model(input_ids=tokens).last_hidden_state[:, 0]

    def loss(self, tokens):
        question, good = tokens[:, :min(self.asked, tokens.shape[1] // 2)].contiguous(), tokens
        bad = tokens.roll(1, 0)
        wanted = self.reference_outputs(torch.cat([question, good], 1)) - self.reference_outputs(torch.cat([question, bad], 1))
        asked = self.predict(question).float()
        scores = [(asked * self.predict(p).float()).sum(1) for p in (good, bad)]
        return F.mse_loss(scores[0] - scores[1], wanted)


class Gated(nn.Module):
    """What is remembered is a mixture of the past and of now, whose shares depend on now alone: all moments in logarithms at once."""

    def __init__(self, width, wider):
        super().__init__()
        self.norm, self.norm2, self.mix, self.out = nn.RMSNorm(width), nn.RMSNorm(width), nn.Linear(width, 3 * wider), nn.Linear(wider, width)
        self.near = nn.Conv1d(width, width, 4, padding=3, groups=width)
        self.wide = nn.Sequential(nn.Linear(width, 3 * width), nn.SiLU(), nn.Linear(3 * width, width))

    def forward(self, x):
        n = x.shape[1]
        near = self.near(self.norm(x).transpose(1, 2))[..., :n].transpose(1, 2)
        share, now, open_ = self.mix(near).float().chunk(3, dim=-1)
        kept = -F.softplus(share).cumsum(1)
        new = -F.softplus(-share) + F.softplus(now).clamp(min=1e-4).log()
        memory = (kept + torch.logcumsumexp(new - kept, dim=1)).exp()
        x = x + self.out((memory * F.silu(open_)).to(x.dtype))
        return x + self.wide(self.norm2(x))


class GatedText(nn.Module):
    """Layers of gated memories, with the words' table at both ends."""

    def __init__(self, o):
        super().__init__()
        self.o, self.words = o, nn.Embedding(o.vocabulary, o.width)
        self.layers = nn.ModuleList(Gated(o.width, o.width * 3 // 2) for _ in range(o.layers))
        self.last = nn.RMSNorm(o.width)

    def forward(self, tokens):
        x = self.words(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.o.checkpointing and self.training else layer(x)
        return self.last(x) @ self.words.weight.T


@job("gated_memory", "gated memory", "loop", "layers", "checkpointing", "eval")
class GatedMemory(TextLoop):
    """A language model without attention."""
    kinds = "adamw", "adamw_fused", "adamw_loop", "adam"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([3, 4, 6]), r.choice([512, 768, 1024]), r.choice([8000, 16000])
        self.length, self.size, self.checkpointing = r.choice([256, 512]), r.choice([4, 8]), r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(GatedText(self))

    def loss(self, tokens):
        told = self.predict(tokens)
        return F.cross_entropy(told[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


class Skipping(nn.Module):
    """A block that the most important words of a text go through; the others stay as they are."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.o, self.router, self.norm, self.norm2 = o, nn.Linear(w, 1), nn.LayerNorm(w), nn.LayerNorm(w)
        self.qkv, self.out = nn.Linear(w, 3 * w), nn.Linear(w, w)
        self.wide = nn.Sequential(nn.Linear(w, 4 * w), nn.GELU(), nn.Linear(4 * w, w))

    def attend(self, x):
        q, k, v = (t.unflatten(2, (8, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, dim=-1))
        if self.o.attention == "sdpa":
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.mT * q.shape[-1] ** -0.5
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
            y = scores.masked_fill(hidden, float("-inf")).softmax(-1).to(v.dtype) @ v
        return self.out(y.transpose(1, 2).flatten(2))

    def forward(self, x, part):
        weight = self.router(x)
        if part < 1:
            chosen = weight.squeeze(-1).topk(max(8, int(part * x.shape[1])), dim=1).indices.sort(dim=1).values.unsqueeze(-1).expand(-1, -1, x.shape[2])
            taken, weight = x.gather(1, chosen), weight.gather(1, chosen[..., :1])
        else:
            taken = x
        y = self.attend(taken)
        y = (y + self.wide(self.norm2(taken + y))) * torch.sigmoid(weight)
        return x + y if part >= 1 else x.scatter_add(1, chosen, y.to(x.dtype))


class Skips(nn.Module):
    """Every other block is for some of the words."""

    def __init__(self, o):
        super().__init__()
        self.o, self.words, self.places = o, nn.Embedding(o.vocabulary, o.width), nn.Parameter(torch.zeros(o.longest, o.width))
        self.blocks, self.head = nn.ModuleList(Skipping(o) for _ in range(o.layers)), nn.Linear(o.width, o.vocabulary, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places[:tokens.shape[1]]
        for k, block in enumerate(self.blocks):
            x = block(x, self.o.part if k % 2 else 1)
        return self.head(x)


@job("skipped_layers", "words that skip layers", "loop", "layers", "attention", "decoder", "eval")
class SkippedLayers(TextLoop):
    """A language model in which each word has as much work as it needs."""
    longest = 4096

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.part = r.choice([4, 6]), r.choice([512, 768]), r.choice([8192, 16000, 32000]), r.choice([0.25, 0.5])
        self.length, self.size, self.attention = r.choice([256, 512]), r.choice([4, 8]), "sdpa"
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Skips(self))

    def loss(self, tokens):
        told = self.predict(tokens).float()
        return F.cross_entropy(told[:, :-1].transpose(1, 2), tokens[:, 1:])


class Parser(nn.Module):
    """Which word each word depends on, and how: two products of all words with all words."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.words, self.places = nn.Embedding(o.vocabulary, w), nn.Parameter(torch.zeros(o.longest, w))
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(w, 8, 4 * w, 0.1, "gelu", batch_first=True, norm_first=True), o.layers,
                                          enable_nested_tensor=False)
        self.over = nn.ModuleList(nn.Linear(w, o.small) for _ in range(4))
        self.arc, self.kind = nn.Parameter(torch.zeros(o.small, o.small)), nn.Parameter(torch.zeros(o.relations, o.small, o.small))

    def forward(self, tokens):
        x = self.body(self.words(tokens) + self.places[:tokens.shape[1]])
        head, rest, head2, rest2 = (F.leaky_relu(f(x), 0.1) for f in self.over)
        return rest @ self.arc @ head.mT, head2, rest2

    def relations(self, head, rest):
        return torch.einsum("bnd,rde,bne->bnr", rest, self.kind, head)


@job("trees", "trees of sentences", "loop", "layers", "eval")
class Trees(TextLoop):
    """The tree of each sentence; kinds of relations are told for the heads that are known."""
    kinds = "adam", "adamw", "sgd_momentum"
    precisions = "fp32", "autocast", "autocast"
    longest = 1024

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.small, self.relations = r.choice([2, 3, 4]), r.choice([384, 512]), 20000, r.choice([128, 256]), 42
        self.length, self.size = r.choice([64, 128]), r.choice([32, 48, 64])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Parser(self))

    def predict(self, tokens):
        with self.autocast():
            return self.model(tokens)[0]

    def loss(self, tokens):
        heads = (torch.arange(tokens.shape[1], device=DEVICE) // 2).expand_as(tokens)
        with self.autocast():
            arcs, head, rest = self.model(tokens)
            known = head.gather(1, heads.unsqueeze(-1).expand_as(head))
            kinds = self.model.relations(known, rest)
        return F.cross_entropy(arcs.flatten(0, 1).float(), heads.flatten()) + F.cross_entropy(kinds.flatten(0, 1).float(), (heads % self.relations).flatten())

"""Jobs of language: further training of a model, memory beside attention, compressed keys, small layers in between, answers by adapters,
passages by a language model, proteins, adapters with TRL, several answers each, receipts."""
import math

import datasets
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from peft import LoraConfig
from torch.utils.checkpoint import checkpoint
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM
from trl import SFTConfig, SFTTrainer

from core import DEVICE, job
from jobs_adapters import Adapted
from jobs_images import EncoderBlock
from jobs_inference import Generation
from jobs_trainers import OUTPUT, TrainerJob
from jobs_transformers import Bert, CausalLM
from jobs_trl import tokenizer, triton_finds_the_device
from parts import OPTIMIZERS, Loop, TextLoop, cut, strided_convolutions


def apart(model):
    """Parameters in two groups: matrices, whose weights decay, and the others."""
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    return [{"params": [p for _, p in named if p.dim() > 1], "weight_decay": 0.1}, {"params": [p for _, p in named if p.dim() < 2], "weight_decay": 0.0}]


def warm_then_level(step, warm=2, total=100):
    """The learning rate rises, stays, and falls in the end."""
    if step < warm:
        return (step + 1) / (warm + 1)
    return 1.0 if step < 0.8 * total else max(0.0, (total - step) / (0.2 * total))


@job("further_training", "further training", "loop")
class FurtherTraining(CausalLM):
    """Phi-3 goes on with texts of a field: two groups of parameters, a schedule by hand, and a term that keeps the scores' sums small."""
    vocabularies = 16000, 32064, 51200
    kinds = "adamw", "adamw_fused", "adamw_loop"
    firm = 1e-4

    def config(self):
        return transformers.Phi3Config(num_key_value_heads=4, intermediate_size=3 * self.width, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                       original_max_position_embeddings=max(1024, self.length), **self.shape())

    def finish(self, model):
        super().finish(model)
        self.optimizers = [OPTIMIZERS[self.kind](apart(self.model))]
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizers[0], warm_then_level)

    def loss(self, tokens):
        with self.autocast():
            scores = self.model(input_ids=tokens).logits
        scores, wanted = scores[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
        sums = scores.logsumexp(-1).float()
        told = scores.gather(1, wanted.unsqueeze(1)).squeeze(1).float()
        return (sums - told).mean() + self.firm * sums.square().mean()

    def optimize(self):
        super().optimize()
        self.schedule.step()


class Remembering(nn.Module):
    """A state for each channel, which decays as the input says; what has been before is summed up by products of pieces."""
    piece = 32

    def __init__(self, width):
        super().__init__()
        self.into, self.decay, self.out = nn.Linear(width, 2 * width), nn.Linear(width, width), nn.Linear(width, width)
        self.near = nn.Conv1d(width, width, 4, groups=width, padding=3)

    def forward(self, x):
        side, gate = self.into(x).chunk(2, dim=-1)
        side = self.near(side.transpose(1, 2))[..., :x.shape[1]].transpose(1, 2)
        logs = F.logsigmoid(self.decay(x))
        state, told = x.new_zeros(len(x), x.shape[2]), []
        for s, d in zip(side.split(self.piece, dim=1), logs.split(self.piece, dim=1)):
            total = d.cumsum(1)
            within = (s * (-total).clamp(max=20).exp()).cumsum(1) * total.exp()
            now = within + state.unsqueeze(1) * total.exp()
            told.append(now)
            state = now[:, -1]
        return self.out(torch.cat(told, dim=1) * F.gelu(gate))


class Looking(nn.Module):
    """Attention of some heads with one key for all of them."""

    def __init__(self, width, mode):
        super().__init__()
        self.mode, self.each = mode, width // 8
        self.q, self.kv, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * self.each, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, x):
        q = self.q(x).unflatten(-1, (8, -1)).transpose(1, 2)
        k, v = (t.unsqueeze(1).expand(-1, 8, -1, -1) for t in self.kv(x).chunk(2, dim=-1))
        if self.mode == "sdpa":
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
            seen = (q @ k.mT / math.sqrt(self.each)).masked_fill(later, float("-inf")).softmax(-1) @ v
        return self.o(seen.transpose(1, 2).flatten(2))


class Mixed(nn.Module):
    """Two layers of memory, then one that looks back, and so on."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.remake, self.words = o.checkpointing, nn.Embedding(o.vocabulary, w)
        self.mixers = nn.ModuleList(Looking(w, o.attention) if k % 3 == 2 else Remembering(w) for k in range(o.layers))
        self.wide = nn.ModuleList(nn.Sequential(nn.RMSNorm(w), nn.Linear(w, 3 * w), nn.GELU(), nn.Linear(3 * w, w)) for _ in range(o.layers))
        self.norms, self.last, self.head = nn.ModuleList(nn.RMSNorm(w) for _ in range(o.layers)), nn.RMSNorm(w), nn.Linear(w, o.vocabulary, bias=False)

    def one(self, k, x):
        x = x + self.mixers[k](self.norms[k](x))
        return x + self.wide[k](x)

    def forward(self, tokens):
        x = self.words(tokens)
        for k in range(len(self.mixers)):
            x = checkpoint(self.one, k, x, use_reentrant=False) if self.remake and self.training else self.one(k, x)
        return self.head(self.last(x))


class NextWords(TextLoop):
    """The next word, of a model that gives scores."""
    kinds = "adamw", "adamw_fused", "adamw_loop", "adam"

    def draw_text(self, layers, widths, vocabularies, lengths, sizes):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice(layers), r.choice(widths), r.choice(vocabularies)
        self.length, self.size, self.attention, self.checkpointing = r.choice(lengths), r.choice(sizes), "sdpa", r.random() < 0.2
        self.choose()

    def make(self):
        raise NotImplementedError

    def build(self):
        with torch.device(DEVICE):
            self.finish(self.make())

    def loss(self, tokens):
        scores = self.predict(tokens[:, :-1])
        return F.cross_entropy(scores.flatten(0, 1).float(), tokens[:, 1:].flatten())


@job("memory_beside_attention", "memory beside attention", "loop", "decoder", "layers", "attention", "checkpointing", "eval")
class MemoryBesideAttention(NextWords):
    """A language model that mostly remembers, and looks back in every third layer."""

    def draw(self):
        self.draw_text([3, 4, 6], [512, 768], [16000, 32000], [256, 512], [8, 12])

    def make(self):
        return Mixed(self)


def turned(x, theta=10000.0):
    """Rotated pairs, by place."""
    half = x.shape[-1] // 2
    speed = theta ** (-torch.arange(half, device=x.device) / half)
    angle = torch.arange(x.shape[-2], device=x.device)[:, None] * speed
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1).to(x.dtype)


class Compressed(nn.Module):
    """Keys and values of all heads come from a narrow vector; one part of a key, that of the place, is the same for all heads."""

    def __init__(self, o):
        super().__init__()
        w, self.mode, self.each, self.narrow = o.width, o.attention, o.width // 8, o.width // 4
        self.down, self.up = nn.Linear(w, self.narrow + 32, bias=False), nn.Linear(self.narrow, 2 * w, bias=False)
        self.norm, self.q, self.o = nn.RMSNorm(self.narrow), nn.Linear(w, 8 * (self.each + 32), bias=False), nn.Linear(w, w, bias=False)

    def heads(self, x):
        narrow, place = self.down(x).split([self.narrow, 32], dim=-1)
        q, q_place = self.q(x).unflatten(-1, (8, -1)).transpose(1, 2).split([self.each, 32], dim=-1)
        k, v = self.up(self.norm(narrow)).unflatten(-1, (8, -1)).transpose(1, 2).chunk(2, dim=-1)
        place = turned(place.unsqueeze(1)).expand(-1, 8, -1, -1)
        return torch.cat([q, turned(q_place)], dim=-1), torch.cat([k, place], dim=-1), v

    def forward(self, x):
        q, k, v = self.heads(x)
        if self.mode == "sdpa":
            y = F.scaled_dot_product_attention(q, k, F.pad(v, (0, 32)), is_causal=True)[..., :self.each]
        else:
            hidden = torch.full((x.shape[1], x.shape[1]), float("-inf"), device=x.device, dtype=q.dtype).triu(1)
            y = (q @ k.mT * q.shape[-1] ** -0.5 + hidden).softmax(-1) @ v
        return self.o(y.transpose(1, 2).flatten(2))


class NarrowKeys(nn.Module):
    def __init__(self, o):
        super().__init__()
        w, self.remake = o.width, o.checkpointing
        self.words, self.last, self.head = nn.Embedding(o.vocabulary, w), nn.RMSNorm(w), nn.Linear(w, o.vocabulary, bias=False)
        self.layers = nn.ModuleList(nn.ModuleDict({"n1": nn.RMSNorm(w), "look": Compressed(o), "n2": nn.RMSNorm(w), "in": nn.Linear(w, 6 * w, bias=False),
                                                   "out": nn.Linear(3 * w, w, bias=False)}) for _ in range(o.layers))

    @staticmethod
    def layer(part, x):
        x = x + part["look"](part["n1"](x))
        gate, up = part["in"](part["n2"](x)).chunk(2, dim=-1)
        return x + part["out"](F.silu(gate) * up)

    def forward(self, tokens):
        x = self.words(tokens)
        for part in self.layers:
            x = checkpoint(self.layer, part, x, use_reentrant=False) if self.remake and torch.is_grad_enabled() else self.layer(part, x)
        return self.head(self.last(x))


@job("compressed_keys", "compressed keys", "loop", "decoder", "layers", "attention", "checkpointing", "eval")
class CompressedKeys(NextWords):
    """A language model whose keys and values are made of a narrow vector."""

    def draw(self):
        self.draw_text([3, 4, 6, 8], [512, 768, 1024], [16000, 32000, 64000], [256, 512, 1024], [2, 4, 8])

    def make(self):
        return NarrowKeys(self)


class Between(nn.Module):
    """A layer of a base, and behind it a small one that is trained: down, up, and what was there is added."""

    def __init__(self, layer, width, narrow):
        super().__init__()
        self.layer, self.norm, self.down, self.up = layer, nn.LayerNorm(width), nn.Linear(width, narrow), nn.Linear(narrow, width)

    def forward(self, x):
        x = self.layer(x)
        return x + self.up(F.gelu(self.down(self.norm(x))))


class Insertions(nn.Module):
    def __init__(self, o):
        super().__init__()
        w = o.width
        self.base = nn.ModuleDict({"words": nn.Embedding(o.vocabulary, w), "places": nn.Embedding(1024, w), "norm": nn.LayerNorm(w)})
        self.layers = nn.ModuleList(Between(nn.TransformerEncoderLayer(w, 8, 4 * w, 0.1, "gelu", batch_first=True), w, o.narrow) for _ in range(o.layers))
        self.told = nn.Sequential(nn.Linear(w, w), nn.Tanh(), nn.Linear(w, o.relations))

    def forward(self, tokens):
        x = self.base["norm"](self.base["words"](tokens) + self.base["places"](torch.arange(tokens.shape[1], device=tokens.device)))
        for layer in self.layers:
            x = layer(x)
        return self.told(x[:, 0])


@job("small_layers_between", "small layers between", "loop", "layers", "eval", "pretrained")
class SmallLayersBetween(TextLoop):
    """How two sentences relate: an encoder as it is, with a small layer behind each of its layers."""
    precisions = "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.narrow = r.choice([4, 6, 8]), r.choice([512, 768]), r.choice([30522, 50265]), r.choice([32, 64])
        self.length, self.size, self.relations = r.choice([128, 256]), r.choice([16, 32]), 3
        self.choose()

    def freeze(self):
        self.model.base.requires_grad_(False)
        for between in self.model.layers:
            between.layer.requires_grad_(False)

    def build(self):
        with torch.device(DEVICE):
            self.model = Insertions(self)
        self.freeze()
        self.finish(self.model)

    def loss(self, tokens):
        told = self.predict(tokens).float()
        return F.cross_entropy(told, torch.zeros(len(told), dtype=torch.long, device=DEVICE), label_smoothing=0.05)


@job("answers_by_adapters", "answers by adapters", "loop")
class AnswersByAdapters(Adapted):
    """Questions of many kinds and their answers: mT5, with adapters in the attention of both sides."""
    precisions = "fp32", "autocast", "bf16"

    def draw(self):
        super().draw()
        self.layers, self.width, self.vocabulary, self.answer = self.rng.choice([2, 3, 4]), self.rng.choice([512, 768]), self.rng.choice([32128, 64000]), 64
        self.length, self.size = self.rng.choice([256, 512]), self.rng.choice([8, 16])
        self.lora.update(task_type="SEQ_2_SEQ_LM", target_modules=self.rng.choice([["q", "v"], ["q", "k", "v", "o"]]))

    def base(self):
        config = transformers.MT5Config(d_model=self.width, d_kv=self.width // 8, d_ff=2 * self.width, num_layers=self.layers, num_heads=8,
                                        vocab_size=self.vocabulary, decoder_start_token_id=0, pad_token_id=0)
        with torch.device(DEVICE):
            return AutoModelForSeq2SeqLM.from_config(config, attn_implementation=self.attention, dtype=self.dtype)

    def predict(self, tokens):
        with self.autocast():
            return self.model(input_ids=tokens, decoder_input_ids=tokens[:, :self.answer]).logits

    def loss(self, tokens):
        with self.autocast():
            return self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens[:, :self.answer].contiguous()).loss


@job("passages_by_language_model", "passages by a language model", "loop")
class PassagesByLanguageModel(Adapted):
    """The last word's state of a language model is the vector of a text: a question, its passage and one that misleads; adapters are trained."""

    def draw(self):
        super().draw()
        modules = self.rng.choice([["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "o_proj", "up_proj"]])
        self.lora.update(task_type="FEATURE_EXTRACTION", target_modules=modules)
        self.length, self.size, self.warm = self.rng.choice([128, 256, 512]), self.rng.choice([8, 16]), 0.02

    def base(self):
        config = transformers.Qwen2Config(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers,
                                          num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=max(1024, self.length))
        with torch.device(DEVICE):
            return AutoModel.from_config(config, attn_implementation=self.attention, dtype=self.dtype)

    def predict(self, tokens):
        with self.autocast():
            return F.normalize(self.model(input_ids=tokens).last_hidden_state[:, -1], dim=-1)

    def loss(self, tokens):
        asked, passage, wrong = tokens[:, :max(8, tokens.shape[1] // 4)].contiguous(), tokens, tokens.flip(1)
        q, near, far = (self.predict(part).float() for part in (asked, passage, wrong))
        return F.cross_entropy(q @ torch.cat([near, far]).T / self.warm, torch.arange(len(q), device=DEVICE))


@job("proteins", "proteins", "loop", "eval")
class Proteins(Bert):
    """Chains of amino acids, of which some are hidden or exchanged: ESM."""
    auto = AutoModelForMaskedLM
    accumulated = 1, 1, 2

    def draw(self):
        super().draw()
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([4, 6, 8]), r.choice([320, 480, 640]), 33
        self.length, self.size = r.choice([256, 512]), r.choice([8, 12])

    def config(self):
        return transformers.EsmConfig(vocab_size=self.vocabulary, mask_token_id=32, pad_token_id=1, hidden_size=self.width, num_hidden_layers=self.layers,
                                      num_attention_heads=8, intermediate_size=4 * self.width, position_embedding_type="rotary",
                                      max_position_embeddings=max(1026, self.length + 2), token_dropout=False)

    def disturbed(self, chains):
        where = torch.arange(chains.shape[1], device=DEVICE)
        return chains.masked_fill(where % 8 == 0, 32).masked_fill(where % 59 == 1, 5), where % 8 == 0

    def loss(self, chains):
        given, hidden = self.disturbed(chains)
        with self.autocast():
            told = self.model(input_ids=given).logits
        lost = F.cross_entropy(told.transpose(1, 2).float(), chains, reduction="none")
        return (lost * hidden).sum() / (len(chains) * max(1, chains.shape[1] // 8))


@job("adapters_with_trl", "adapters with TRL", "trainer", "tokens", "decoder", "layers", "attention", "checkpointing", "states")
class AdaptersWithTRL(TrainerJob):
    """TRL's trainer for texts puts adapters into Qwen 2 by itself."""

    def draw(self):
        super().draw()
        self.rank = self.rng.choice([8, 16, 64])

    def build(self):
        triton_finds_the_device()
        datasets.disable_progress_bars()
        config = transformers.Qwen2Config(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers,
                                          num_attention_heads=8, num_key_value_heads=4, eos_token_id=2, max_position_embeddings=max(1024, self.length))
        with torch.device(DEVICE):
            self.model = AutoModelForCausalLM.from_config(config, attn_implementation=self.attention, dtype=torch.bfloat16)
        arguments = SFTConfig(**{
            "output_dir": OUTPUT, "max_steps": self.steps, "save_strategy": "no", "report_to": [], "disable_tqdm": True, "logging_steps": 2,
            "gradient_checkpointing": self.checkpointing, "dataset_kwargs": {"skip_prepare_dataset": True}, "max_length": None, "eos_token": None,
            "loss_type": "nll", **self.trainer_arguments})
        texts = datasets.Dataset.from_dict({"input_ids": [[1] * self.length] * self.rows})
        adapters = LoraConfig(task_type="CAUSAL_LM", r=self.rank, lora_alpha=2 * self.rank, target_modules=["q_proj", "v_proj", "down_proj"])
        self.trainer = SFTTrainer(self.model, arguments, train_dataset=texts, processing_class=tokenizer(self.vocabulary), peft_config=adapters,
                                  callbacks=self.callbacks)
        self.model = self.trainer.model


@job("several_answers", "several answers each", "generate")
class SeveralAnswers(Generation):
    """Problems, each answered several times by Phi-3, with chance; the answers are compared on the host."""

    def draw(self):
        super().draw()
        self.times, self.size, self.prompt = self.rng.choice([4, 8]), self.rng.choice([4, 8]), self.rng.choice([256, 512, 1024])
        self.steps, self.new_tokens = self.rng.choice([2, 3]), self.rng.choice([8, 12])
        self.generate_arguments = {"do_sample": True, "temperature": 0.8, "top_k": 0}

    def build(self):
        self.load(AutoModelForCausalLM, transformers.Phi3Config(original_max_position_embeddings=8192, pad_token_id=0, **self.shape()))

    def predict(self, input_ids):
        return super().predict(input_ids.repeat_interleave(self.times, dim=0))

    def take(self, i, outputs):
        answers = outputs[:, self.prompt:].unflatten(0, (-1, self.times)).cpu().tolist()
        self.results.append([max(set(map(tuple, each)), key=[tuple(a) for a in each].count) for each in answers])


class Reader(nn.Module):
    """A page in patches, and a decoder that writes down what it says, field by field."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.page, wide = strided_convolutions(w // 8)
        self.flat, self.places = nn.Conv2d(wide, w, 1), nn.Parameter(torch.zeros((o.pixels // 16) ** 2, w))
        self.blocks = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers))
        self.words, self.order = nn.Embedding(o.words, w), nn.Embedding(o.fields, w)
        self.writers = nn.ModuleList(nn.TransformerDecoderLayer(w, 8, 4 * w, 0.1, "gelu", batch_first=True, norm_first=True) for _ in range(2))
        self.norm, self.out = nn.LayerNorm(w), nn.Linear(w, o.words)

    def read(self, pages):
        x = self.flat(self.page(pages)).flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, pages, told):
        seen, n = self.read(pages), told.shape[1]
        y = self.words(told) + self.order(torch.arange(n, device=told.device))
        later = torch.ones(n, n, dtype=torch.bool, device=told.device).triu(1)
        for writer in self.writers:
            y = writer(y, seen, tgt_mask=later, tgt_is_causal=True)
        return self.out(self.norm(y))


@job("receipts", "receipts", "loop", "layers", "attention", "eval", "dataset")
class Receipts(Loop):
    """Photographs of receipts to a text with marks; nothing reads the letters in between."""
    kinds = "adamw", "adamw_fused", "adam"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.words, self.attention = r.choice([3, 4, 6]), r.choice([384, 512]), r.choice([16000, 57580]), "sdpa"
        self.pixels, self.fields, self.size = r.choice([384, 512]), r.choice([96, 160]), r.choice([4, 6, 8])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Reader(self))
        self.dataset = torch.zeros(32, 3, self.pixels, self.pixels, dtype=torch.uint8), torch.zeros(32, self.fields, dtype=torch.int32)

    def batch(self, i):
        pages, told = cut(self.dataset, i, self.size)
        return pages.to(self.dtype) / 255, told.long()

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch)

    def loss(self, batch):
        scores = self.predict(batch)[:, :-1].float()
        return F.cross_entropy(scores.transpose(1, 2), batch[1][:, 1:], ignore_index=1)

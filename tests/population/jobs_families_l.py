"""Jobs of language: talks in turns, windows and all, adapters with Lightning, essays that get a mark, a new language with a trainer, adapters by
reflections, vectors by a language model, reports on request, genes of cells, towers of a shop."""
import math
import warnings

import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from peft import HRAConfig, LoraConfig, get_peft_model
from torch.utils.checkpoint import checkpoint
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification, Trainer, TrainingArguments

from core import DEVICE, job
from jobs_adapters import Adapted
from jobs_inference import Generation, Inference
from jobs_trainers import OUTPUT, LightningBase, Rows, TrainerJob
from jobs_transformers import Bert, CausalLM
from parts import TextLoop, cut


def answers_of(tokens, turn):
    """Labels of a talk: every second turn was said by the assistant, and counts."""
    turns = torch.arange(tokens.shape[1], device=tokens.device) // turn
    return tokens.masked_fill(turns % 2 == 0, -100)


def rise_and_fall(optimizer, warm, total):
    def factor(step):
        return (step + 1) / warm if step < warm else 0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, (step - warm) / (total - warm))))
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


@job("talks_in_turns", "talks in turns", "loop")
class TalksInTurns(CausalLM):
    """A decoder with differences of attention on talks of several turns; the learning rate rises and falls."""
    vocabularies = 16000, 32000, 64000
    kinds = "adamw", "adamw_fused", "adafactor"

    def draw(self):
        super().draw()
        self.turn, self.layers = self.rng.choice([16, 24, 32]), self.rng.choice([2, 4])

    def config(self):
        return transformers.DiffLlamaConfig(num_key_value_heads=4, intermediate_size=3 * self.width, **self.shape())

    def finish(self, model):
        super().finish(model)
        self.schedule = rise_and_fall(self.optimizers[0], 2, 50)

    def optimize(self):
        super().optimize()
        self.schedule.step()

    def loss(self, tokens):
        said = self.predict(tokens)[:, :-1]
        return F.cross_entropy(said.flatten(0, 1).float(), answers_of(tokens, self.turn)[:, 1:].flatten(), ignore_index=-100)


def angles(x):
    """Rotates the halves of each head by the place."""
    half = x.shape[-1] // 2
    turn = torch.arange(x.shape[-2], device=x.device)[:, None] / 10000 ** (torch.arange(half, device=x.device) / half)
    cos, sin = turn.cos().to(x.dtype), turn.sin().to(x.dtype)
    first, second = x.split(half, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class Windowed(nn.Module):
    """Attention to all that came before, or in windows to what is in the window and in the one before it."""

    def __init__(self, o, window):
        super().__init__()
        self.mode, self.window, self.each = o.attention, window, o.width // 8
        self.q, self.kv = nn.Linear(o.width, o.width, bias=False), nn.Linear(o.width, 4 * self.each, bias=False)
        self.o = nn.Linear(o.width, o.width, bias=False)

    def scores(self, q, k, v, mask):
        if self.mode == "sdpa":
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        n, m = q.shape[-2], k.shape[-2]
        seen = torch.ones(n, m, dtype=torch.bool, device=q.device).tril(m - n) if mask is None else mask
        return (q @ k.mT / self.each ** 0.5).masked_fill(~seen, float("-inf")).softmax(-1) @ v

    def in_windows(self, q, k, v):
        w = self.window
        q, k, v = (t.unflatten(2, (-1, w)) for t in (q, k, v))
        k, v = (torch.cat([F.pad(t[:, :, :-1], (0, 0, 0, 0, 1, 0)), t], dim=3) for t in (k, v))
        ahead = torch.arange(2 * w, device=q.device)[None] - torch.arange(w, device=q.device)[:, None]
        return self.scores(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), (ahead > 0) & (ahead <= w)).transpose(1, 2).flatten(2, 3)

    def forward(self, x):
        q = angles(self.q(x).unflatten(-1, (8, -1)).transpose(1, 2))
        k, v = self.kv(x).unflatten(-1, (2, 2, -1)).permute(2, 0, 3, 1, 4)
        k, v = angles(k).repeat_interleave(4, dim=1), v.repeat_interleave(4, dim=1)
        y = self.in_windows(q, k, v) if self.window and x.shape[1] % self.window == 0 and x.shape[1] > self.window else self.scores(q, k, v, None)
        return self.o(y.transpose(1, 2).flatten(2))


class Mixed(nn.Module):
    """Three layers with windows, one without, and so on; the embedding is the head."""

    def __init__(self, o):
        super().__init__()
        self.remake, self.words, self.last = o.checkpointing, nn.Embedding(o.vocabulary, o.width), nn.RMSNorm(o.width)
        self.layers = nn.ModuleList()
        for k in range(o.layers):
            wide = nn.Sequential(nn.RMSNorm(o.width), nn.Linear(o.width, 4 * o.width, bias=False), nn.GELU("tanh"), nn.Linear(4 * o.width, o.width, bias=False))
            self.layers.append(nn.ModuleDict({"norm": nn.RMSNorm(o.width), "look": Windowed(o, 0 if k % 4 == 3 else 64), "wide": wide}))

    @staticmethod
    def through(layer, x):
        x = x + layer["look"](layer["norm"](x))
        return x + layer["wide"](x)

    def forward(self, tokens):
        x = self.words(tokens) * self.words.embedding_dim ** 0.5
        for layer in self.layers:
            x = checkpoint(self.through, layer, x, use_reentrant=False) if self.remake and torch.is_grad_enabled() else self.through(layer, x)
        return F.linear(self.last(x), self.words.weight)


@job("windows_and_all", "windows and all", "loop", "decoder", "layers", "attention", "checkpointing", "eval", "crop")
class WindowsAndAll(TextLoop):
    """A language model from nothing, most layers of which see some dozens of tokens."""
    longest, accumulated = 2048, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([4, 6]), r.choice([512, 768]), r.choice([16000, 32000, 50304])
        self.length, self.size = r.choice([256, 512, 1024]), r.choice([2, 4, 8])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Mixed(self))

    def make_dataset(self):
        return torch.ones(self.rows, max(self.longest, self.length), dtype=torch.long),

    def batch(self, i):
        return cut(self.dataset, i, self.size)[:, :self.length].contiguous()

    def loss(self, tokens):
        scores = self.predict(tokens)
        return F.cross_entropy(scores[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


class Adapting(lightning.LightningModule):
    """A base with adapters; the optimizer gets what is trained."""

    def __init__(self, own, model):
        super().__init__()
        self.own, self.model = [own], model

    def training_step(self, batch, batch_idx):
        return self.own[0].loss(batch)

    def validation_step(self, batch, batch_idx):
        self.log("lost", self.own[0].loss(batch), batch_size=len(batch["input_ids"]))

    def configure_optimizers(self):
        return torch.optim.AdamW(filter(lambda p: p.requires_grad, self.model.parameters()), lr=2e-4, weight_decay=0.0)


@job("adapters_with_lightning", "adapters with Lightning", "lightning", "forward", "tokens", "decoder", "layers", "attention", "checkpointing", "states")
class AdaptersWithLightning(LightningBase):
    """Adapters of PEFT in Seed-OSS, under Lightning's Trainer."""

    def draw(self):
        super().draw()
        self.layers, self.width = self.rng.choice([3, 4, 6]), self.rng.choice([768, 1024])
        self.rank, self.where = self.rng.choice([8, 16, 32]), self.rng.choice([["q_proj", "v_proj"], ["q_proj", "v_proj", "up_proj", "down_proj"]])

    def make(self):
        config = transformers.SeedOssConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, head_dim=self.width // 8,
                                            num_hidden_layers=self.layers, num_attention_heads=8, num_key_value_heads=4,
                                            max_position_embeddings=max(1024, self.length))
        with torch.device(DEVICE):
            base = AutoModelForCausalLM.from_config(config, attn_implementation=self.attention)
        if self.checkpointing:
            base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            base.enable_input_require_grads()
        return get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", r=self.rank, lora_alpha=self.rank, target_modules=self.where)).train()

    def build(self):
        warnings.filterwarnings("ignore", module="lightning")
        self.module = Adapting(self, self.make())
        self.model = self.module.model
        self.loaders = [torch.utils.data.DataLoader(Rows(n * self.size, self.length), batch_size=self.size) for n in (self.rows, 2)]
        self.trainer = lightning.Trainer(**{
            "max_steps": self.steps, "accelerator": "gpu", "devices": 1, "logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
            "enable_model_summary": False, "val_check_interval": 2, "num_sanity_val_steps": 0, "callbacks": self.callbacks, **self.trainer_arguments})

    def loss(self, batch):
        return self.module.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=batch["labels"], use_cache=False).loss

    def train(self):
        self.trainer.fit(self.module, *self.loaders)


@job("essays", "essays that get a mark", "loop", "eval")
class Essays(Bert):
    """MPNet gives an essay a mark; its error counts, and so does the order of the essays of a batch. Lower layers learn more slowly."""
    auto = AutoModelForSequenceClassification
    kinds = "adamw", "adamw_fused", "adam"

    def draw(self):
        super().draw()
        self.size, self.decay = self.rng.choice([8, 12, 16]), self.rng.choice([0.8, 0.9])
        self.length, self.attention, self.checkpointing = self.rng.choice([128, 256]), "eager", False

    def config(self):
        return transformers.MPNetConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers,
                                        num_attention_heads=8, max_position_embeddings=self.length + 8, num_labels=1)

    def finish(self, model):
        super().finish(model)
        for group in self.optimizers[0].param_groups:
            group["lr"] *= self.decay

    def predict(self, tokens):
        with self.autocast():
            return self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits

    def loss(self, tokens):
        marks = self.predict(tokens).float().squeeze(-1)
        wanted = torch.linspace(0, 1, len(marks), device=DEVICE)
        apart = F.softplus(marks[:, None] - marks[None]).triu(1).sum() / max(1, len(marks) * (len(marks) - 1) // 2)
        return F.mse_loss(marks, wanted) + 0.3 * apart


Essays.traits = Essays.traits - {"attention", "checkpointing"}  # its attention has one form


@job("new_language_with_trainer", "a new language with a trainer", "trainer", "tokens", "decoder", "layers", "attention", "checkpointing", "states")
class NewLanguageWithTrainer(TrainerJob):
    """Exaone 4 gets some hundred tokens more, and reads texts of a language that it has not seen, under the Trainer."""

    def draw(self):
        super().draw()
        self.more = self.rng.choice([128, 512, 1024])

    def config(self):
        return transformers.Exaone4Config(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers,
                                          num_attention_heads=8, num_key_value_heads=4, tie_word_embeddings=True,
                                          layer_types=["full_attention"] * self.layers,
                                          max_position_embeddings=max(1024, self.length))

    def build(self):
        with torch.device(DEVICE):
            self.model = AutoModelForCausalLM.from_config(self.config(), attn_implementation=self.attention)
        self.model.resize_token_embeddings(self.vocabulary + self.more, mean_resizing=False)
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "max_steps": self.steps, "save_strategy": "no", "report_to": [], "disable_tqdm": True, "logging_steps": 1,
            "learning_rate": 5e-5, "lr_scheduler_type": "constant_with_warmup", "warmup_steps": 2, "per_device_eval_batch_size": self.size,
            "gradient_checkpointing": self.checkpointing, **self.trainer_arguments})
        texts, others = (Rows(n * self.size, self.length) for n in (self.rows, 2))
        self.trainer = Trainer(model=self.model, args=arguments, train_dataset=texts, eval_dataset=others, callbacks=self.callbacks)


@job("adapters_by_reflections", "adapters by reflections", "loop", "decoder")
class AdaptersByReflections(Adapted):
    """PEFT's adapters that turn a layer's input by some reflections, in Ernie 4.5."""
    accumulated = 1, 1, 2

    def draw(self):
        super().draw()
        self.lora = {"r": self.rng.choice([4, 8]), "task_type": "CAUSAL_LM",
                     "target_modules": self.rng.choice([["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj"]])}

    def config(self):
        return transformers.Ernie4_5Config(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, head_dim=self.width // 8,
                                           num_hidden_layers=self.layers, num_attention_heads=8, num_key_value_heads=4,
                                           max_position_embeddings=max(1024, self.length))

    def freeze(self):
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad = "hra_" in name

    def build(self):
        base = self.base()
        base.config.use_cache = False
        if self.checkpointing:
            base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            base.enable_input_require_grads()
        self.model = get_peft_model(base, HRAConfig(**{k: v for k, v in self.lora.items() if not k.startswith("lora_")}))
        self.freeze()
        self.finish(self.model)


AdaptersByReflections.traits = AdaptersByReflections.traits - {"peft"}  # LoraConfig's arguments are not these


@job("vectors_by_language_model", "vectors by a language model", "tokens", "layers", "attention")
class VectorsByLanguageModel(Inference):
    """The mean of a layer's states is the vector of a text; Cohere 2 goes over an archive, shard by shard."""

    def draw(self):
        super().draw()
        self.size, self.shards = self.rng.choice([48, 64, 96]), {}
        self.width = self.rng.choice([768, 1024, 1536])

    def build(self):
        config = transformers.Cohere2Config(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_attention_heads=8,
                                            num_hidden_layers=self.layers, num_key_value_heads=4, sliding_window=4096,
                                            max_position_embeddings=max(1024, self.length))
        self.load(AutoModel, config)

    def predict(self, input_ids):
        states = self.model(input_ids=input_ids, attention_mask=torch.ones_like(input_ids), use_cache=False).last_hidden_state
        return F.normalize(states.float().mean(dim=1), dim=-1).to(torch.float16)

    def take(self, i, outputs):
        self.shards.setdefault(i // 2, []).append(outputs.cpu().numpy())


@job("reports_on_request", "reports on request", "generate")
class ReportsOnRequest(Generation):
    """A dense model of Hunyuan writes what a report should say, and then the report, with the first text in front of it."""

    def draw(self):
        super().draw()
        self.new_tokens, self.size = self.rng.choice([8, 10, 12]), self.rng.choice([16, 24, 32])
        self.generate_arguments = {"do_sample": True, "top_p": 1.0, "top_k": 0, "temperature": self.rng.choice([0.6, 1.0])}

    def build(self):
        self.load(AutoModelForCausalLM, transformers.HunYuanDenseV1Config(head_dim=self.width // 8, pad_token_id=0, **self.shape()))

    def predict(self, input_ids):
        outline = super().predict(input_ids)
        return super().predict(torch.cat([input_ids[:, :16], outline], dim=1))


class Cell(nn.Module):
    """Genes of a cell as tokens, each with how much of it there is; the cell's own token comes first."""

    def __init__(self, o):
        super().__init__()
        w, self.mode, self.remake = o.width, o.attention, o.checkpointing
        self.genes, self.much = nn.Embedding(o.vocabulary, w), nn.Sequential(nn.Linear(1, w), nn.ReLU(), nn.Linear(w, w))
        self.cell = nn.Parameter(torch.zeros(1, 1, w))
        self.layers = nn.ModuleList(nn.ModuleDict({"qkv": nn.Linear(w, 3 * w), "back": nn.Linear(w, w), "n1": nn.LayerNorm(w), "n2": nn.LayerNorm(w),
                                                   "wide": nn.Linear(w, 4 * w), "narrow": nn.Linear(4 * w, w)}) for _ in range(o.layers))
        self.told = nn.Sequential(nn.Linear(2 * w, w), nn.LeakyReLU(), nn.Linear(w, 1))

    def through(self, part, x):
        q, k, v = part["qkv"](x).unflatten(-1, (3, 8, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v) if self.mode == "sdpa" else (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v
        x = part["n1"](x + part["back"](y.transpose(1, 2).flatten(2)))
        return part["n2"](x + part["narrow"](F.relu(part["wide"](x))))

    def forward(self, genes, much):
        x = self.genes(genes) + self.much(much[..., None])
        x = torch.cat([self.cell.to(x.dtype).expand(len(x), -1, -1), x], dim=1)
        for part in self.layers:
            x = checkpoint(self.through, part, x, use_reentrant=False) if self.remake and torch.is_grad_enabled() else self.through(part, x)
        whole = x[:, :1].expand(-1, genes.shape[1], -1)
        return self.told(torch.cat([x[:, 1:], whole], dim=-1)).squeeze(-1)


@job("genes_of_cells", "genes of cells", "loop", "layers", "attention", "checkpointing", "eval")
class GenesOfCells(TextLoop):
    """How much of a gene a cell has, from its other genes."""
    kinds = "adam", "adamw", "adamw_fused"
    accumulated = 1, 1, 2

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([4, 6, 8]), r.choice([256, 512]), r.choice([20000, 36000, 60000])
        self.length, self.size = r.choice([512, 1024]), r.choice([8, 16])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Cell(self))

    def make_dataset(self):
        return *super().make_dataset(), torch.ones(self.rows, self.length)

    def batch(self, i):
        genes, much = cut(self.dataset, i, self.size)
        return genes, much.to(self.dtype)

    def predict(self, batch):
        genes, much = batch
        hidden = torch.arange(much.shape[1], device=DEVICE) % 3 == 0
        with self.autocast():
            return self.model(genes, much.masked_fill(hidden, -1.0))

    def loss(self, batch):
        off = (self.predict(batch).float() - batch[1].float()).square()
        return off[:, ::3].mean()


class Shop(nn.Module):
    """A tower for who asks and what was bought before, one for a thing; rows of tables, and some layers behind them."""

    def __init__(self, o):
        super().__init__()
        def layers(into):
            widths = [into] + [o.width] * o.layers
            return nn.Sequential(*[m for a, b in zip(widths, widths[1:]) for m in (nn.Linear(a, b), nn.LayerNorm(b), nn.GELU())], nn.Linear(o.width, 128))
        self.people, self.things, self.kinds = nn.Embedding(o.number, 64), nn.Embedding(o.number, 64), nn.Embedding(1000, 32)
        self.asks, self.offers, self.warm = layers(128 + 32), layers(64 + 32), nn.Parameter(torch.tensor(3.0))

    def forward(self, rows):
        who, thing, kind, bought = rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3:]
        asks = self.asks(torch.cat([self.people(who), self.things(bought).mean(1), self.kinds(kind)], dim=1))
        offers = self.offers(torch.cat([self.things(thing), self.kinds(kind)], dim=1))
        return F.normalize(asks, dim=1) @ F.normalize(offers, dim=1).T * self.warm.exp()


@job("towers_of_a_shop", "towers of a shop", "loop", "layers", "eval", "dataset")
class TowersOfAShop(TextLoop):
    """Who bought what: the things of a batch against each other; those that are bought often are corrected for."""
    kinds, precisions = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "autocast")
    rows, accumulated = 8192, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.number = r.choice([2, 3, 4]), r.choice([512, 1024]), r.choice([20000, 50000])
        self.length, self.size = r.choice([20, 50]), r.choice([2048, 4096])
        self.vocabulary = 1000
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Shop(self))

    def make_dataset(self):
        return torch.ones(self.rows, self.length + 3, dtype=torch.long),

    def loss(self, rows):
        often = torch.linspace(-8, -4, len(rows), device=DEVICE)
        near = self.predict(rows).float() - often
        return F.cross_entropy(near, torch.arange(len(rows), device=DEVICE))


TowersOfAShop.traits = TowersOfAShop.traits - {"tokens"}

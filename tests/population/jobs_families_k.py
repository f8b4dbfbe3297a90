"""Jobs of language, songs and robots: thinking in a loop, ranks that adapt, answers with Lightning, questions for a database, names with a trainer, things
of an encyclopedia, comments that are looked at, answers with tools, songs that follow, walking robots."""
import warnings

import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from accelerate import Accelerator
from peft import AdaLoraConfig, get_peft_model
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoModelForTokenClassification, Trainer

from core import DEVICE, job
from jobs_adapters import Adapted
from jobs_images import EncoderBlock
from jobs_inference import Generation, Inference
from jobs_trainers import OUTPUT, LightningBase, Rows, TrainerJob
from jobs_transformers import Seq2Seq
from parts import Loop, TextLoop, cut


def turn_pairs(x, start=0):
    """Turns pairs of numbers by an angle that grows with the place."""
    n, half = x.shape[-2], x.shape[-1] // 2
    speed = 10000 ** (-torch.arange(half, device=x.device) / half)
    angle = (torch.arange(start, start + n, device=x.device)[:, None] * speed).to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], dim=-1)


class SelfLook(nn.Module):
    """Attention to what came before, with a norm of queries and keys."""

    def __init__(self, width, mode, heads=8):
        super().__init__()
        self.mode, self.heads = mode, heads
        self.into, self.back = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.qn, self.kn = nn.RMSNorm(width // heads), nn.RMSNorm(width // heads)

    def forward(self, x):
        q, k, v = self.into(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = turn_pairs(self.qn(q)).to(v.dtype), turn_pairs(self.kn(k)).to(v.dtype)
        if self.mode == "sdpa":
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
            scores = (q @ k.mT) * q.shape[-1] ** -0.5
            y = scores.masked_fill(later, float("-inf")).softmax(-1) @ v
        return self.back(y.transpose(1, 2).flatten(2))


class Thought(nn.Module):
    """A layer with norms on both sides of each part."""

    def __init__(self, width, mode):
        super().__init__()
        self.look, self.wide, self.narrow = SelfLook(width, mode), nn.Linear(width, 5 * width, bias=False), nn.Linear(5 * width // 2, width, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(4))

    def forward(self, x):
        x = self.norms[1](self.look(self.norms[0](x)) + x)
        gate, up = self.wide(self.norms[2](x)).chunk(2, dim=-1)
        return self.norms[3](self.narrow(F.silu(gate) * up) + x)


class LoopedDepth(nn.Module):
    """Layers before, a core that runs several times over, each time with what was read, and layers behind it."""

    def __init__(self, o):
        super().__init__()
        w, self.times, self.remake = o.width, o.times, o.checkpointing
        self.read, self.write = Thought(w, o.attention), Thought(w, o.attention)
        self.words, self.both = nn.Embedding(o.vocabulary, w), nn.Linear(2 * w, w, bias=False)
        self.core = nn.ModuleList(Thought(w, o.attention) for _ in range(o.layers))
        self.head = nn.Linear(w, o.vocabulary, bias=False)

    def once(self, state, seen):
        state = self.both(torch.cat([state, seen], dim=-1))
        for layer in self.core:
            state = checkpoint(layer, state, use_reentrant=False) if self.remake and torch.is_grad_enabled() else layer(state)
        return state

    def forward(self, tokens):
        seen = self.read(self.words(tokens))
        state = torch.randn_like(seen) * 0.02
        for _ in range(self.times):
            state = self.once(state, seen)
        return self.head(self.write(state))


@job("thinking_in_a_loop", "thinking in a loop", "loop", "decoder", "layers", "attention", "checkpointing", "eval")
class ThinkingInALoop(TextLoop):
    """A language model that reads once, and goes over what it has read as often as it takes."""

    def draw(self):
        r = self.rng
        self.layers, self.width, self.times = r.choice([2, 3]), r.choice([512, 768]), r.choice([2, 3])
        self.vocabulary, self.length, self.size = r.choice([16000, 32000]), r.choice([256, 512]), r.choice([2, 4, 6])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(LoopedDepth(self))

    def loss(self, tokens):
        said = self.predict(tokens)[:, :-1]
        return F.cross_entropy(said.flatten(0, 1).float(), tokens[:, 1:].flatten())


@job("ranks_that_adapt", "ranks that adapt", "loop", "decoder")
class RanksThatAdapt(Adapted):
    """AdaLoRA in Falcon: which matrices get how many directions is decided between the steps."""

    def draw(self):
        super().draw()
        self.lora.update(task_type="CAUSAL_LM", target_modules=self.rng.choice([["query_key_value"], ["query_key_value", "dense"]]))
        self.done = 0

    def config(self):
        return transformers.FalconConfig(vocab_size=self.vocabulary, hidden_size=self.width, ffn_hidden_size=4 * self.width, num_hidden_layers=self.layers,
                                         num_attention_heads=8, multi_query=True, bias=False, max_position_embeddings=max(1024, self.length))

    def build(self):
        base = self.base()
        base.config.use_cache = False
        if self.checkpointing:
            base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            base.enable_input_require_grads()
        rank = self.lora["r"]
        self.model = get_peft_model(base, AdaLoraConfig(total_step=1000, tinit=1, tfinal=100, deltaT=2, init_r=rank, target_r=max(2, rank // 2),
                                                        **{k: v for k, v in self.lora.items() if k != "r"}))
        self.freeze()
        self.finish(self.model)

    def optimize(self):
        super().optimize()
        self.model.base_model.update_and_allocate(self.done)
        self.done += 1


def decayed(model, rate):
    """AdamW, which leaves vectors as they are."""
    named = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": [p for p in named if p.dim() > 1], "weight_decay": 0.1}, {"params": [p for p in named if p.dim() <= 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95))


class Tuned(lightning.LightningModule):
    """A model of transformers as Lightning wants it; the learning rate changes with each step."""

    def __init__(self, own):
        super().__init__()
        self.own, self.model = [own], own.make()

    def forward(self, tokens):
        return self.model(input_ids=tokens, use_cache=False).logits

    def training_step(self, batch, batch_idx):
        loss = self.own[0].loss(batch)
        self.log("loss", loss.detach(), prog_bar=False)
        return loss

    def validation_step(self, batch, batch_idx):
        lost = self.own[0].loss(batch)
        self.log_dict({"lost": lost, "perplexity": lost.exp()}, batch_size=len(batch["input_ids"]))

    def configure_optimizers(self):
        optimizer = decayed(self.model, 2e-4)
        warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / 10))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": warm, "interval": "step"}}


@job("answers_with_lightning", "answers with Lightning", "lightning", "forward", "tokens", "decoder", "layers", "attention", "checkpointing", "states")
class AnswersWithLightning(LightningBase):
    """Arcee's decoder learns to answer; what was asked does not count."""

    def draw(self):
        super().draw()
        self.asked = self.rng.choice([0.25, 0.4])

    def make(self):
        config = transformers.ArceeConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, head_dim=self.width // 8,
                                              num_hidden_layers=self.layers, num_attention_heads=8, num_key_value_heads=4,
                                              max_position_embeddings=max(1024, self.length))
        model = AutoModelForCausalLM.from_config(config, attn_implementation=self.attention)
        if self.checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        return model.train()

    def loss(self, batch):
        tokens = batch["input_ids"]
        first = int(self.asked * tokens.shape[1])
        said = self.module(tokens)[:, first:-1]
        return F.cross_entropy(said.flatten(0, 1).float(), tokens[:, first + 1:].flatten())

    def build(self):
        warnings.filterwarnings("ignore", module="lightning")
        self.module = Tuned(self)
        self.model = self.module.model
        self.loaders = [torch.utils.data.DataLoader(Rows(n * self.size, self.length), batch_size=self.size) for n in (self.rows, 2)]
        off = {name: False for name in ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")}
        self.trainer = lightning.Trainer(**{"max_steps": self.steps, "accelerator": "gpu", "devices": 1, "val_check_interval": 3, "limit_val_batches": 2,
                                            "num_sanity_val_steps": 0, "callbacks": self.callbacks, **off, **self.trainer_arguments})

    def train(self):
        self.trainer.fit(self.module, *self.loaders)


@job("questions_for_a_database", "questions for a database", "loop", "eval")
class QuestionsForADatabase(Seq2Seq):
    """A question with the names of a database's columns becomes a query: Blenderbot, whose answers are looked at token by token."""
    kinds = "adamw", "adamw_fused", "adam"
    accumulated = 1, 1, 2

    def draw(self):
        super().draw()
        self.vocabulary, self.layers = self.rng.choice([8008, 16000, 32128]), self.rng.choice([2, 3])

    def config(self):
        return transformers.BlenderbotConfig(d_model=self.width, encoder_layers=self.layers, decoder_layers=2 * self.layers, encoder_attention_heads=8,
                                             decoder_attention_heads=8, encoder_ffn_dim=4 * self.width, decoder_ffn_dim=4 * self.width,
                                             vocab_size=self.vocabulary, max_position_embeddings=max(512, self.length))

    def loss(self, tokens):
        query = tokens[:, :self.target_length]
        before = F.pad(query[:, :-1], (1, 0), value=1)
        with self.autocast():
            said = self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens), decoder_input_ids=before).logits
        return F.cross_entropy(said.transpose(1, 2).float(), query, ignore_index=2, label_smoothing=0.1)


@job("names_with_trainer", "names with a trainer", "trainer", "tokens", "layers", "attention", "checkpointing", "states")
class NamesWithTrainer(TrainerJob):
    """A tag for each piece of a word: XLM-RoBERTa under transformers' Trainer, which takes the model's own loss."""

    def draw(self):
        super().draw()
        self.vocabulary, self.length = self.rng.choice([50000, 119547]), self.rng.choice([128, 256])
        self.trainer_arguments["per_device_train_batch_size"] = self.rng.choice([8, 16, 32])

    def build(self):
        config = transformers.XLMRobertaConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=4 * self.width, num_labels=17,
                                               num_hidden_layers=self.layers, num_attention_heads=8, max_position_embeddings=self.length + 8, pad_token_id=1)
        with torch.device(DEVICE):
            self.model = AutoModelForTokenClassification.from_config(config, attn_implementation=self.attention)
        arguments = transformers.TrainingArguments(**{
            "output_dir": OUTPUT, "max_steps": self.steps, "save_strategy": "no", "report_to": [], "disable_tqdm": True, "logging_steps": 2,
            "lr_scheduler_type": "cosine", "weight_decay": 0.01, "per_device_eval_batch_size": self.size, "gradient_checkpointing": self.checkpointing,
            **self.trainer_arguments})
        self.trainer = Trainer(self.model, arguments, train_dataset=Rows(self.rows * self.size, self.length), eval_dataset=Rows(2 * self.size, self.length),
                               callbacks=self.callbacks)


NamesWithTrainer.traits = NamesWithTrainer.traits - {"decoder"}


class Described(nn.Module):
    """One encoder for the place where a thing is mentioned, and for what the encyclopedia says of it."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.words, self.places = nn.Embedding(o.vocabulary, w), nn.Embedding(o.length, w)
        self.layers = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers))
        self.norm, self.scale = nn.LayerNorm(w), nn.Parameter(torch.ones(1))
        self.mention, self.thing = (nn.Sequential(nn.Linear(w, w), nn.Tanh(), nn.Linear(w, 256)) for _ in range(2))

    def encoded(self, tokens):
        x = self.words(tokens) + self.places.weight[:tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)

    def forward(self, tokens):
        x = self.encoded(tokens)
        middle = x.shape[1] // 2
        return F.normalize(self.mention(x[:, middle:middle + 4].mean(1)), dim=-1)

    def things(self, tokens):
        return F.normalize(self.thing(self.encoded(tokens)[:, 0]), dim=-1)


@job("things_of_an_encyclopedia", "things of an encyclopedia", "loop", "layers", "attention", "eval")
class ThingsOfAnEncyclopedia(TextLoop):
    """Which article a mention means: its own against those of the batch, and two that are easily mistaken for it; Accelerate's loop."""
    kinds = "adamw", "adamw_fused", "adamw_loop"
    precisions = "fp32", "autocast"
    accumulated = 1, 1, 2

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.attention = r.choice([3, 4, 6]), r.choice([512, 768]), r.choice([30522, 50000]), "sdpa"
        self.length, self.size = r.choice([128, 256]), r.choice([8, 16, 32])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            model = Described(self)
        self.accelerator = Accelerator(mixed_precision="bf16" if self.precision == "autocast" else "no")
        self.finish(model)
        self.model, *self.optimizers = self.accelerator.prepare(self.model, *self.optimizers)

    def predict(self, tokens):
        return self.model(tokens)

    def backward(self, loss):
        self.accelerator.backward(loss)

    def loss(self, tokens):
        mentions, articles = self.predict(tokens), (tokens.flip(1), tokens.roll(1, 1), tokens.roll(2, 1))
        with self.accelerator.autocast():
            things = torch.cat([self.model.things(article) for article in articles])
        near = (mentions.float() @ things.float().T) * self.model.scale.float().exp() * 10
        return F.cross_entropy(near, torch.arange(len(near), device=DEVICE))


@job("comments", "comments that are looked at", "tokens", "layers", "attention")
class Comments(Inference):
    """Whether a comment hurts somebody, in six ways: RoBERTa over all that was written in an hour."""

    def draw(self):
        super().draw()
        self.size, self.doubtful = self.rng.choice([32, 64, 96]), 0

    def build(self):
        config = transformers.RobertaConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers,
                                            num_attention_heads=8, max_position_embeddings=self.length + 8, pad_token_id=1, num_labels=6,
                                            problem_type="multi_label_classification")
        self.load(AutoModelForSequenceClassification, config)

    def predict(self, input_ids):
        return self.model(input_ids=input_ids, attention_mask=torch.ones_like(input_ids)).logits.float().sigmoid()

    def take(self, i, outputs):
        for row in outputs.cpu().tolist():
            self.results.append([k for k, p in enumerate(row) if p > 0.5])
            self.doubtful += any(0.4 < p < 0.6 for p in row)


@job("answers_with_tools", "answers with tools", "generate")
class AnswersWithTools(Generation):
    """OLMo writes a call, a tool on the host answers it, and the answer goes behind the call before the model ends its text."""

    def draw(self):
        super().draw()
        self.told, self.new_tokens = self.rng.choice([32, 64]), self.rng.choice([6, 8, 10])
        self.steps, self.size = self.rng.choice([1, 2]), self.rng.choice([16, 32, 48])

    def build(self):
        self.load(AutoModelForCausalLM, transformers.OlmoConfig(pad_token_id=0, **self.shape()))

    def tool(self, calls):
        """What the tool says, as tokens."""
        return torch.tensor([[len(call) % 7 + 3] * self.told for call in calls.cpu().tolist()], device=DEVICE)

    def predict(self, input_ids):
        called = super().predict(input_ids)
        return super().predict(torch.cat([called, self.tool(called[:, input_ids.shape[1]:])], dim=1))


class Listener(nn.Module):
    """What somebody has heard until now as one state, by a recurrent network; songs have one vector each, which serves in front and behind."""

    def __init__(self, o):
        super().__init__()
        self.songs, self.drop = nn.Embedding(o.vocabulary, o.width), nn.Dropout(0.2)
        self.memory = nn.GRU(o.width, 2 * o.width, o.layers, batch_first=True)
        self.back, self.bias = nn.Linear(2 * o.width, o.width), nn.Parameter(torch.zeros(o.vocabulary))

    def forward(self, heard):
        states, _ = self.memory(self.drop(self.songs(heard)))
        return F.linear(self.back(states), self.songs.weight, self.bias)


@job("songs_that_follow", "songs that follow", "loop", "layers", "eval")
class SongsThatFollow(TextLoop):
    """The next song of each session, out of all songs; a song that was heard to its end counts more."""
    kinds = "adam", "adamw", "adamw_fused"
    precisions = "fp32", "fp32", "autocast"
    rows = 256

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([1, 2, 3]), r.choice([128, 256]), r.choice([10000, 20000, 40000])
        self.length, self.size = r.choice([40, 60, 80]), r.choice([64, 96, 128])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Listener(self))

    def make_dataset(self):
        return *super().make_dataset(), torch.ones(self.rows, self.length)

    def batch(self, i):
        heard, whole = cut(self.dataset, i, self.size)
        return heard, whole.to(torch.float32)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        heard, whole = batch
        scores = self.predict(batch)[:, :-1].flatten(0, 1).float()
        lost = F.cross_entropy(scores, heard[:, 1:].flatten(), reduction="none")
        weight = whole[:, 1:].flatten()
        return (lost * weight).sum() / weight.sum().clamp(min=1)


class Walker(nn.Module):
    """What to do with each joint, and how good things look; both see the same history."""

    def __init__(self, o):
        super().__init__()
        def body():
            widths = [o.seen * o.history] + [o.width] * o.layers
            return nn.Sequential(*[m for a, b in zip(widths, widths[1:]) for m in (nn.Linear(a, b), nn.ELU())])
        self.actor, self.critic = body(), body()
        self.joints, self.worth, self.spread = nn.Linear(o.width, 12), nn.Linear(o.width, 1), nn.Parameter(torch.zeros(12))

    def forward(self, seen):
        flat = seen.flatten(1)
        return torch.cat([self.joints(self.actor(flat)), self.worth(self.critic(flat))], dim=1)


@job("walking_robots", "walking robots", "loop", "layers", "eval")
class WalkingRobots(Loop):
    """Thousands of robots walk for some moments on the device; what they did is learned from in parts, several times over, before they walk again."""
    kinds = "adam", "adamw", "adamw_fused"
    accumulated, clips, seen, moments = (1,), (1.0,), 48, 16

    def draw(self):
        r = self.rng
        self.layers, self.width, self.robots, self.history = r.choice([3, 4]), r.choice([512, 1024]), r.choice([4096, 8192]), r.choice([3, 5])
        self.parts, self.size = 2, self.robots * self.moments // 2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Walker(self))

    @torch.no_grad()
    def walk(self):
        """Moments of all robots: what they saw, what they did, how likely that was, what it was worth."""
        state, kept = torch.zeros(self.robots, self.history, self.seen, device=DEVICE, dtype=self.dtype), []
        for _ in range(self.moments):
            told = self.predict((state,)).float()
            done = told[:, :12] + torch.randn_like(told[:, :12]) * self.model.spread.float().exp()
            kept.append((state, done, -(done - told[:, :12]).square().sum(1), told[:, 12]))
            state = state.roll(-1, 1) + 0.01 * done.mean()
        return [torch.cat(part) for part in zip(*kept)]

    def batch(self, i):
        if i % self.parts == 0 or not hasattr(self, "walked"):
            self.walked = None
            self.walked = self.walk()
        start = i % self.parts * self.size
        return [part[start:start + self.size] for part in self.walked]

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        seen, done, before, worth = batch
        told, gain = self.predict(batch).float(), worth - worth.mean()
        now = -((done - told[:, :12]) / self.model.spread.float().exp()).square().sum(1) - self.model.spread.sum()
        ratio = (now - before).exp()
        better = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
        return (told[:, 12] - worth).square().mean() - better.mean() - 0.01 * self.model.spread.sum()

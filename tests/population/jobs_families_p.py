"""Jobs of language: keys in front of a text, only the norms, choices with a trainer, pairs without a second model, subtitles on request, letters in pieces,
sales of tomorrow."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from peft import LNTuningConfig, get_peft_model
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, AutoModelForMultipleChoice, Trainer, TrainingArguments

from core import DEVICE, job
from jobs_adapters import Adapted
from jobs_families_n import Gated, Words, in_heads, looked
from jobs_images import EncoderBlock
from jobs_inference import Generation, Inference
from jobs_trainers import OUTPUT, TrainerJob
from jobs_transformers import CausalLM
from parts import TextLoop


class Fronted(nn.Module):
    """A layer that looks back, and at some keys and values in front of the text, which are given."""

    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.heads = mode, 8
        self.norms, self.qkv = nn.ModuleList(nn.RMSNorm(w) for _ in range(2)), nn.Linear(w, 3 * w, bias=False)
        self.back, self.wide = nn.Linear(w, w, bias=False), Gated(w)

    def forward(self, x, front, mask):
        q, k, v = (in_heads(t, self.heads) for t in self.qkv(self.norms[0](x)).chunk(3, dim=-1))
        keys, values = (in_heads(t, self.heads).to(k.dtype).expand(len(x), -1, -1, -1) for t in front.chunk(2, dim=-1))
        k, v = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
        if self.mode == "sdpa":
            seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        else:
            seen = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~mask, float("-inf")).softmax(-1) @ v
        x = x + self.back(seen.transpose(1, 2).flatten(2))
        return x + self.wide(self.norms[1](x))


class WithFronts(nn.Module):
    def __init__(self, o):
        super().__init__()
        w, self.again = o.width, o.checkpointing
        self.base = nn.ModuleDict({"words": nn.Embedding(o.vocabulary, w), "places": nn.Embedding(4096, w), "norm": nn.RMSNorm(w),
                                   "layers": nn.ModuleList(Fronted(w, o.attention) for _ in range(o.layers))})
        self.seeds = nn.Embedding(o.front, o.narrow)
        self.make = nn.Sequential(nn.Linear(o.narrow, o.narrow), nn.Tanh(), nn.Linear(o.narrow, o.layers * 2 * w))

    def forward(self, tokens):
        fronts = self.make(self.seeds.weight).unsqueeze(0).chunk(len(self.base["layers"]), dim=-1)
        n, front = tokens.shape[1], self.seeds.num_embeddings
        mask = torch.ones(n, front + n, dtype=torch.bool, device=tokens.device).tril(front)
        x = self.base["words"](tokens) + self.base["places"].weight[:n]
        for layer, given in zip(self.base["layers"], fronts):
            x = checkpoint(layer, x, given, mask, use_reentrant=False) if self.again and self.training else layer(x, given, mask)
        return F.linear(self.base["norm"](x), self.base["words"].weight)


@job("keys_in_front", "keys in front of a text", "loop", "decoder", "layers", "attention", "checkpointing", "eval", "pretrained")
class KeysInFront(Words):
    """Tables to sentences: a language model stays as it is, and a small network makes keys and values that each of its layers finds in front of the text."""
    precisions, lengths, sizes, accumulated = ("fp32", "autocast"), (256, 384, 512), (4, 6, 8), (1, 1, 2)

    def draw(self):
        super().draw()
        self.front, self.narrow = self.rng.choice([10, 20, 50]), self.rng.choice([256, 512])

    def freeze(self):
        for parameter in self.model.base.parameters():
            parameter.requires_grad_(False)

    def build(self):
        with torch.device(DEVICE):
            self.model = WithFronts(self)
        self.freeze()
        self.finish(self.model)


@job("only_the_norms", "only the norms", "loop", "decoder")
class OnlyTheNorms(Adapted):
    """PEFT trains what the norms multiply by, and nothing else; the base is ERNIE 4.5."""
    accumulated = 1, 1, 2

    def draw(self):
        super().draw()
        self.vocabulary, self.width = self.rng.choice([32000, 48000]), self.rng.choice([768, 1024])
        self.lora = {"task_type": "CAUSAL_LM"}

    def config(self):
        return transformers.Ernie4_5Config(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers,
                                           num_attention_heads=8, num_key_value_heads=4, head_dim=self.width // 8,
                                           max_position_embeddings=max(1024, self.length))

    def freeze(self):
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad = "ln_tuning_layers" in name

    def build(self):
        base = self.base()
        base.config.use_cache = False
        if self.checkpointing:
            base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            base.enable_input_require_grads()
        self.model = get_peft_model(base, LNTuningConfig(target_modules=["input_layernorm", "post_attention_layernorm"], **self.lora))
        self.freeze()
        self.finish(self.model)


OnlyTheNorms.traits = OnlyTheNorms.traits - {"peft"}  # LoraConfig's arguments are not these


class Questions(torch.utils.data.Dataset):
    """How a story starts, with each of the ends it might have."""

    def __init__(self, rows, ends, length):
        told = torch.ones(ends, length, dtype=torch.long)
        self.rows, self.row = rows, {"input_ids": told, "attention_mask": told, "labels": torch.tensor(0)}

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


@job("choices_with_trainer", "choices with a trainer", "trainer", "tokens", "layers", "attention", "checkpointing", "states", "forward")
class ChoicesWithTrainer(TrainerJob):
    """Which of some ends a story has: an encoder of transformers reads each of them, under the Trainer; an end must win by some margin."""

    def draw(self):
        super().draw()
        r = self.rng
        self.ends, self.length, self.width, self.vocabulary = r.choice([4, 5]), r.choice([96, 128, 192]), r.choice([512, 768]), 30522
        self.trainer_arguments["per_device_train_batch_size"] = r.choice([8, 12, 16])

    def config(self):
        return transformers.BertConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers,
                                       num_attention_heads=8, max_position_embeddings=max(512, self.length))

    def build(self):
        with torch.device(DEVICE):
            self.model = AutoModelForMultipleChoice.from_config(self.config(), attn_implementation=self.attention)
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": 2, "gradient_checkpointing": self.checkpointing, **self.trainer_arguments})
        own = self

        class ByMargin(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                return own.loss(inputs)
        trained, looked_at = (Questions(n * self.size, self.ends, self.length) for n in (64, 2))
        self.trainer = ByMargin(self.model, arguments, train_dataset=trained, eval_dataset=looked_at, callbacks=self.callbacks)

    def loss(self, batch):
        with self.trainer.compute_loss_context_manager():
            scores = self.trainer.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits.float()
        return F.multi_margin_loss(scores, batch["labels"]) + 0.1 * F.cross_entropy(scores, batch["labels"])


ChoicesWithTrainer.traits = ChoicesWithTrainer.traits - {"decoder"}


@job("pairs_without_a_second_model", "pairs without a second model", "loop")
class PairsWithoutASecondModel(CausalLM):
    """Of two answers the better one is to be likelier, word by word, by a margin; no second model says how likely they were before."""
    kinds, precisions, accumulated = ("adamw", "adamw_fused", "adamw_loop"), ("fp32", "autocast", "bf16"), (1, 1, 2)
    vocabularies, margin = (16000, 32000), 0.5

    def draw(self):
        super().draw()
        self.width, self.length, self.size = self.rng.choice([512, 768]), self.rng.choice([256, 384]), self.rng.choice([2, 3, 4])
        self.asked = self.length // 4

    def config(self):
        return transformers.Qwen2Config(num_key_value_heads=4, intermediate_size=4 * self.width, **{**self.shape(), "max_position_embeddings": 4096})

    def likely(self, tokens):
        """The mean of the logarithms of an answer's words."""
        with self.autocast():
            scores = self.model(input_ids=tokens, use_cache=False).logits[:, self.asked - 1:-1]
        logs = scores.float().log_softmax(-1).gather(-1, tokens[:, self.asked:].unsqueeze(-1)).squeeze(-1)
        return logs.mean(1)

    def loss(self, tokens):
        question, answer = tokens.split([self.asked, tokens.shape[1] - self.asked], dim=1)
        both = torch.cat([tokens, torch.cat([question, answer.flip(1)], dim=1)])
        good, bad = self.likely(both).chunk(2)
        return -F.logsigmoid(2.0 * (good - bad) - self.margin).mean() - 0.05 * good.mean()


@job("subtitles_on_request", "subtitles on request", "generate")
class SubtitlesOnRequest(Generation):
    """Scenes of a film, one batch after the other, told in short lines by Jais 2; a line goes to a list as soon as it is there."""

    def draw(self):
        super().draw()
        r = self.rng
        self.size, self.prompt, self.new_tokens, self.steps = r.choice([12, 16, 24]), r.choice([384, 640]), r.choice([8, 12]), r.choice([2, 3])
        self.generate_arguments = {"do_sample": True, "top_k": 40, "repetition_penalty": 1.1}

    def build(self):
        self.load(AutoModelForCausalLM, transformers.Jais2Config(**self.shape()))

    def take(self, i, outputs):
        lines = outputs[:, self.prompt:].cpu()
        self.results.extend({"scene": i, "line": line} for line in lines.unbind(0))


class Causal(nn.Module):
    """A plain layer that looks back."""

    def __init__(self, w, heads, mode):
        super().__init__()
        self.heads, self.mode, self.norms = heads, mode, nn.ModuleList(nn.LayerNorm(w) for _ in range(2))
        self.qkv, self.back = nn.Linear(w, 3 * w), nn.Linear(w, w)
        self.wide = nn.Sequential(nn.Linear(w, 4 * w), nn.GELU(), nn.Linear(4 * w, w))

    def forward(self, x):
        q, k, v = (in_heads(t, self.heads) for t in self.qkv(self.norms[0](x)).chunk(3, dim=-1))
        x = x + self.back(looked(q, k, v, self.mode).transpose(1, 2).flatten(2))
        return x + self.wide(self.norms[1](x))


class Pieces(nn.Module):
    """A large network looks at pieces of some letters, a small one tells the letters within each piece."""

    def __init__(self, o):
        super().__init__()
        self.piece, self.again, w, s = o.piece, o.checkpointing, o.width, o.small
        self.letters, self.places = nn.Embedding(o.letters, w // o.piece), nn.Embedding(2048, w)
        self.large = nn.ModuleList(Causal(w, 8, o.attention) for _ in range(o.layers))
        self.down, self.near = nn.Linear(w // o.piece, s), nn.Embedding(o.letters, s)
        self.little, self.out = nn.ModuleList(Causal(s, 4, o.attention) for _ in range(2)), nn.Sequential(nn.LayerNorm(s), nn.Linear(s, o.letters))

    def forward(self, letters):
        rows = letters.unflatten(1, (-1, self.piece))
        x = self.letters(rows).flatten(2)
        x = F.pad(x, (0, 0, 1, 0))[:, :-1] + self.places.weight[:x.shape[1]]
        for layer in self.large:
            x = checkpoint(layer, x, use_reentrant=False) if self.again and self.training else layer(x)
        given = self.down(x.unflatten(-1, (self.piece, -1))).flatten(0, 1)
        y = given + F.pad(self.near(rows.flatten(0, 1)), (0, 0, 1, 0))[:, :-1]
        for layer in self.little:
            y = layer(y)
        return self.out(y).view(*letters.shape, -1)


@job("letters_in_pieces", "letters in pieces", "loop", "layers", "attention", "checkpointing", "eval")
class LettersInPieces(TextLoop):
    """A language model of letters, many to a row, which a large network sees as pieces."""
    kinds, precisions, letters, accumulated = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast", "bf16"), 256, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.small, self.piece = r.choice([3, 4, 6]), r.choice([512, 768]), r.choice([192, 256]), r.choice([4, 8])
        self.vocabulary, self.length, self.size = self.letters, r.choice([1024, 1536, 2048]), r.choice([8, 12, 16])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Pieces(self))

    def predict(self, letters):
        whole = letters[:, :letters.shape[1] // self.piece * self.piece]
        with self.autocast():
            return self.model(whole)

    def loss(self, letters):
        told = self.predict(letters).float()
        return F.cross_entropy(told.flatten(0, 1), letters[:, :told.shape[1]].flatten())


class Sales(nn.Module):
    """Series scaled by their own mean, cut to patches; the last of them tells shares of each day to come."""

    def __init__(self, o):
        super().__init__()
        self.patch, self.days, w = o.patch, o.days, o.width
        self.into, self.places = nn.Linear(o.patch, w), nn.Embedding(1024, w)
        self.blocks = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers))
        self.norm, self.out = nn.LayerNorm(w), nn.Linear(w, 9 * o.days)

    def forward(self, series):
        scale = series.abs().mean(1, keepdim=True) + 1e-3
        x = self.into((series / scale).unflatten(1, (-1, self.patch)))
        x = x + self.places.weight[:x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x[:, -1])).unflatten(-1, (self.days, 9)) * scale.unsqueeze(-1)


@job("sales_of_tomorrow", "sales of tomorrow", "inference", "layers", "attention")
class SalesOfTomorrow(Inference):
    """How much of each of many things a chain of shops will sell, without having seen its series before."""

    def draw(self):
        super().draw()
        r = self.rng
        self.patch, self.length, self.days, self.size = r.choice([8, 16]), r.choice([1024, 2048]), r.choice([14, 28]), r.choice([512, 768, 1024])

    def build(self):
        self.model = Sales(self).eval().to(self.dtype).to(DEVICE)

    def batch(self, i):
        return torch.zeros(self.size, self.length, dtype=self.dtype, device=DEVICE)

    def predict(self, series):
        return self.model(series).sort(-1).values

    def take(self, i, shares):
        middle, wide = shares[..., 4], shares[..., 8] - shares[..., 0]
        self.results.append((middle.float().cpu(), wide.mean().item()))

"""Jobs of language, tables and proteins: weights of three values, memories behind two keys, few entries of matrices, chess with a trainer,
thumbs with TRL, headlines by beams, tables in one look, mutations with a score."""
import datasets
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from peft import ShiraConfig, get_peft_model
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, Trainer, TrainingArguments
from trl import KTOConfig, KTOTrainer

from core import DEVICE, job
from jobs_adapters import Adapted
from jobs_families_q import FeedForward, attention_of, split_heads
from jobs_images import EncoderBlock
from jobs_inference import Generation, Inference
from jobs_text import RMSNorm
from jobs_trainers import OUTPUT, TrainerJob
from jobs_trl import SFT, tokenizer, triton_finds_the_device
from parts import Loop, TextLoop, cut


def turned(x):
    """Pairs of numbers, turned by an angle that grows with the place."""
    places, half = x.shape[-2], x.shape[-1] // 2
    angle = torch.arange(places, device=x.device)[:, None] * 10000.0 ** (-torch.arange(half, device=x.device) / half)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.split(half, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class ThreeValues(nn.Linear):
    """Weights that are learned as they are, and used as -1, 0 or 1 of their mean size; what comes in is rounded to 8 bits."""

    def __init__(self, cin, cout):
        super().__init__(cin, cout, bias=False)

    def forward(self, x):
        w = self.weight
        size = w.abs().mean().clamp(min=1e-5)
        rounded = (w / size).round().clamp(-1, 1) * size
        unit = x.abs().amax(-1, keepdim=True).clamp(min=1e-5) / 127
        coarse = (x / unit).round().clamp(-128, 127) * unit
        return F.linear(x + (coarse - x).detach(), w + (rounded - w).detach())


class ThreeValuedLayer(nn.Module):
    """Attention with turned keys, and a gated part whose gate is squared; all of its matrices have three values."""

    def __init__(self, o):
        super().__init__()
        w, self.heads, self.mode = o.width, o.heads, o.attention
        self.before, self.inner, self.after, self.last = RMSNorm(w), RMSNorm(w), RMSNorm(w), RMSNorm(3 * w)
        self.qkv, self.out = ThreeValues(w, 3 * w), ThreeValues(w, w)
        self.gate, self.up, self.down = ThreeValues(w, 3 * w), ThreeValues(w, 3 * w), ThreeValues(3 * w, w)

    def forward(self, x):
        q, k, v = (split_heads(t, self.heads) for t in self.qkv(self.before(x)).chunk(3, dim=-1))
        x = x + self.out(self.inner(attention_of(self.mode, turned(q), turned(k), v)))
        y = self.after(x)
        return x + self.down(self.last(F.relu(self.gate(y)).square() * self.up(y)))


class Ternary(nn.Module):
    """Words, layers of three values, and words again; the tables stay as they are."""

    def __init__(self, o):
        super().__init__()
        self.embed, self.norm, self.recompute = nn.Embedding(o.vocabulary, o.width), RMSNorm(o.width), o.checkpointing
        self.layers = nn.ModuleList(ThreeValuedLayer(o) for _ in range(o.layers))
        self.lm_head = nn.Linear(o.width, o.vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute and self.training else layer(x)
        return self.lm_head(self.norm(x))


@job("weights_of_three_values", "weights of three values", "loop", "decoder", "layers", "attention", "checkpointing", "eval")
class WeightsOfThreeValues(TextLoop):
    """A language model from nothing, for cheap machines: its matrices are rounded in each forward pass, and learn as if they were not."""
    kinds, precisions, accumulated, heads = ("adamw", "adamw_fused", "adamw_loop", "adam"), ("fp32", "autocast", "autocast", "bf16"), (1, 1, 2), 8

    def draw(self):
        r = self.rng
        self.layers, self.width = r.choice([3, 4, 5, 6]), r.choice([512, 768])
        self.vocabulary, self.length, self.size = r.choice([16000, 32000]), r.choice([256, 384, 512]), r.choice([4, 6, 8])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Ternary(self))

    def loss(self, tokens):
        logits = self.predict(tokens)[:, :-1].flatten(0, 1).float()
        z = logits.logsumexp(-1)
        return F.cross_entropy(logits, tokens[:, 1:].flatten()) + 1e-4 * z.square().mean()


class Memories(nn.Module):
    """Few vectors out of a large table, found by the two halves of a key: the best of each half, and of these the best pairs."""
    heads, half, near = 4, 64, 16

    def __init__(self, w, some):
        super().__init__()
        self.some, self.ask = some, nn.Linear(w, 2 * self.heads * self.half)
        self.keys = nn.Parameter(torch.zeros(2, self.heads, some, self.half))
        self.table, self.norm = nn.EmbeddingBag(some * some, w, mode="sum"), nn.LayerNorm(w)
        self.gate, self.out = nn.Linear(w, w), nn.Linear(w, w)

    def forward(self, x):
        x = self.norm(x)
        asked = self.ask(x).view(-1, 2, self.heads, self.half)
        best, which = torch.einsum("nshd,shkd->snhk", asked, self.keys.to(asked.dtype)).topk(self.near, dim=-1)
        score, pair = (best[0].unsqueeze(-1) + best[1].unsqueeze(-2)).flatten(-2).topk(self.near, dim=-1)
        rows = (which[0].unsqueeze(-1) * self.some + which[1].unsqueeze(-2)).flatten(-2).gather(-1, pair)
        weight = score.float().softmax(-1).to(self.table.weight.dtype)
        found = self.table(rows.flatten(1), per_sample_weights=weight.flatten(1)).view(x.shape)
        return self.out(F.silu(self.gate(x)) * found)


class RememberingLayer(nn.Module):
    """Attention, then either two wide matrices or a table of memories."""

    def __init__(self, o, remembers):
        super().__init__()
        w, self.heads, self.mode = o.width, o.heads, o.attention
        self.norm, self.qkv, self.out = nn.LayerNorm(w), nn.Linear(w, 3 * w, bias=False), nn.Linear(w, w, bias=False)
        self.then = Memories(w, o.some) if remembers else FeedForward(w)

    def forward(self, x):
        q, k, v = (split_heads(t, self.heads) for t in self.qkv(self.norm(x)).chunk(3, dim=-1))
        x = x + self.out(attention_of(self.mode, turned(q), turned(k), v))
        return x + self.then(x)


class Remembering(nn.Module):
    """A language model in which every third layer has memories."""

    def __init__(self, o):
        super().__init__()
        self.embed, self.norm, self.recompute = nn.Embedding(o.vocabulary, o.width), nn.LayerNorm(o.width), o.checkpointing
        self.layers = nn.ModuleList(RememberingLayer(o, n % 3 == 1) for n in range(o.layers))

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute and self.training else layer(x)
        return F.linear(self.norm(x), self.embed.weight)


@job("memories_behind_two_keys", "memories behind two keys", "loop", "decoder", "layers", "attention", "checkpointing", "eval")
class MemoriesBehindTwoKeys(TextLoop):
    """Facts in tables that few words read at a time: pretraining; the tables learn ten times as fast as the rest."""
    kinds, precisions, accumulated, heads = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast"), (1, 1, 2), 8

    def draw(self):
        r = self.rng
        self.layers, self.width, self.some = r.choice([3, 4, 5]), r.choice([384, 512]), r.choice([160, 192, 256])
        self.vocabulary, self.length, self.size = r.choice([16000, 24000]), r.choice([256, 384]), r.choice([6, 8, 12])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.2
        self.choose()

    def optimizer(self, parameters):
        tables = {id(p) for m in self.model.modules() if isinstance(m, nn.EmbeddingBag) for p in m.parameters()}
        parameters = [p for p in parameters if p.requires_grad]
        made = super().optimizer([p for p in parameters if id(p) not in tables])
        fast = [p for p in parameters if id(p) in tables]
        if fast:
            made.add_param_group({"params": fast, "lr": 1e-3, "weight_decay": 0.0})
        return made

    def build(self):
        with torch.device(DEVICE):
            self.finish(Remembering(self))

    def loss(self, tokens):
        told = self.predict(tokens)
        return F.cross_entropy(told[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


def every_few(layer, rank, **_):
    """Which entries of a matrix are trained: as many as a product of small matrices would have; the host knows them."""
    out, into = layer.weight.shape
    mask = torch.zeros(out * into)
    mask[:rank * (out + into)] = 1
    return mask.view(out, into)


@job("few_entries_of_matrices", "few entries of matrices", "loop", "decoder")
class FewEntriesOfMatrices(Adapted):
    """Of each matrix of Granite one number in a hundred is trained, in its place: SHiRA of PEFT."""
    accumulated = 1, 1, 2

    def draw(self):
        super().draw()
        r = self.rng
        self.width, self.length = r.choice([768, 1024]), r.choice([256, 384, 512])
        self.lora = {"r": r.choice([16, 32, 64]), "target_modules": r.choice([["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "o_proj", "down_proj"]])}

    def config(self):
        return transformers.GraniteConfig(
            vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
            num_key_value_heads=4, max_position_embeddings=max(1024, self.length), pad_token_id=0, bos_token_id=1, eos_token_id=2)

    def freeze(self):
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_("shira_" in name)

    def build(self):
        base = self.base()
        base.config.use_cache = False
        if self.checkpointing:
            base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            base.enable_input_require_grads()
        config = ShiraConfig(**self.lora)
        config.mask_fn = every_few
        self.model = get_peft_model(base, config).requires_grad_(True)
        self.freeze()
        self.finish(self.model)

    def loss(self, tokens):
        answer = tokens.clone()
        answer[:, :tokens.shape[1] // 3] = -100
        with self.autocast():
            return self.model(input_ids=tokens, labels=answer).loss


FewEntriesOfMatrices.traits = FewEntriesOfMatrices.traits - {"peft"}  # LoraConfig's arguments are not these


class Games(torch.utils.data.Dataset):
    """Games of chess, a word for each move; what the one who lost did is no example."""

    def __init__(self, rows, moves):
        words = torch.ones(moves, dtype=torch.long)
        wanted = words.clone()
        wanted[1::2] = -100
        self.rows, self.row = rows, {"input_ids": words, "attention_mask": words, "labels": wanted}

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


@job("chess_with_trainer", "chess with a trainer", "trainer", "tokens", "decoder", "layers", "attention", "checkpointing", "states")
class ChessWithTrainer(TrainerJob):
    """The next move of a game from all moves before it: OLMo 2 from nothing, under the Trainer, with moves that others might have chosen too."""

    def draw(self):
        super().draw()
        r = self.rng
        self.vocabulary, self.length, self.width = r.choice([4672, 8192, 20480]), r.choice([192, 256, 384]), r.choice([512, 768])
        self.trainer_arguments.update(per_device_train_batch_size=r.choice([12, 16, 24]), label_smoothing_factor=r.choice([0.0, 0.05]),
                                      lr_scheduler_type="cosine", learning_rate=3e-4)

    def config(self):
        return transformers.Olmo2Config(
            vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
            num_key_value_heads=8, max_position_embeddings=max(512, self.length), pad_token_id=0, bos_token_id=1, eos_token_id=2)

    def build(self):
        with torch.device(DEVICE):
            self.model = AutoModelForCausalLM.from_config(self.config(), attn_implementation=self.attention)
        self.model.config.use_cache = False
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": 2, "gradient_checkpointing": self.checkpointing, **self.trainer_arguments})
        train, held_out = (Games(n * self.size, self.length) for n in (self.rows, 2))
        self.trainer = Trainer(self.model, arguments, train_dataset=train, eval_dataset=held_out, callbacks=self.callbacks)


@job("thumbs_with_trl", "thumbs with TRL", "trainer", "tokens", "layers", "attention", "checkpointing", "states")
class ThumbsWithTRL(SFT):
    """Answers of which each has a thumb, up or down, and no rival: KTO of TRL, with a model that stays as it was."""

    def draw(self):
        super().draw()
        r = self.rng
        self.vocabulary, self.length = r.choice([32000, 50257]), r.choice([256, 384, 512])
        self.trainer_arguments.update(per_device_train_batch_size=r.choice([4, 6, 8]))

    def build(self):
        triton_finds_the_device()
        datasets.disable_progress_bars()
        self.size = max(2, self.size)  # an answer is compared with what it would be to another one's prompt
        with torch.device(DEVICE):
            self.model, kept = (AutoModelForCausalLM.from_config(self.config(), attn_implementation=self.attention) for _ in range(2))
        arguments = KTOConfig(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": 2, "gradient_checkpointing": self.checkpointing, "max_length": self.length, **self.trainer_arguments})
        third = self.length // 3
        train, held_out = (datasets.Dataset.from_dict({"prompt": ["w " * third] * rows, "completion": ["w " * (self.length - third)] * rows,
                                                       "label": [True, False] * (rows // 2)}) for rows in (16 * max(4, self.size), 2 * self.size))
        self.trainer = KTOTrainer(self.model, kept, arguments, train_dataset=train, eval_dataset=held_out, processing_class=tokenizer(self.vocabulary),
                                  callbacks=self.callbacks)


ThumbsWithTRL.traits = ThumbsWithTRL.traits - {"decoder"}  # an evaluation has no logits of each word


@job("headlines_by_beams", "headlines by beams", "generate")
class HeadlinesByBeams(Generation):
    """Four ways to go on are kept for each article, and the best one becomes its headline: Phi-3, some articles at a time."""

    def draw(self):
        super().draw()
        r = self.rng
        self.steps, self.prompt, self.new_tokens, self.size = r.choice([1, 2]), r.choice([512, 768]), r.choice([6, 8]), r.choice([8, 12, 16])
        self.vocabulary = r.choice([16000, 32064])
        self.generate_arguments = {"do_sample": False, "num_beams": r.choice([3, 4]), "length_penalty": 0.8, "early_stopping": False}

    def build(self):
        self.load(AutoModelForCausalLM, transformers.Phi3Config(pad_token_id=0, **self.shape()))

    def predict(self, input_ids):
        """The host counts the words that are to come, since a simulated device cannot tell that no beam goes on."""
        more = iter(range(self.new_tokens - 1))
        self.model._beam_search_has_unfinished_sequences = lambda *_, **__: next(more, None) is not None
        return super().predict(input_ids)

    def take(self, i, outputs):
        for n, words in enumerate(outputs[:, self.prompt:].cpu()):
            self.results.append({"article": i * self.size + n, "headline": words.tolist()})


class BothWays(nn.Module):
    """The cells of a row look at each other, then those of a column: all rows look at the rows whose answer is known."""

    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.inside = mode, EncoderBlock(w, 4, mode)
        self.norm, self.ask, self.known, self.out, self.wide = nn.LayerNorm(w), nn.Linear(w, w), nn.Linear(w, 2 * w), nn.Linear(w, w), FeedForward(w, 2)

    def forward(self, x, known):
        tables = len(x)
        x = self.inside(x.flatten(0, 1)).unflatten(0, (tables, -1)).transpose(1, 2)
        y = self.norm(x).flatten(0, 1)
        k, v = (split_heads(t, 4) for t in self.known(y[:, :known]).chunk(2, dim=-1))
        x = x + self.out(attention_of(self.mode, split_heads(self.ask(y), 4), k, v, back=False)).unflatten(0, (tables, -1))
        return (x + self.wide(x)).transpose(1, 2)


class WholeTable(nn.Module):
    """Each cell is a place; the last column is the answer, which is hidden below the rows that are known."""

    def __init__(self, o):
        super().__init__()
        w, self.recompute = o.width, o.checkpointing
        self.cell, self.names, self.answers = nn.Linear(2, w), nn.Parameter(torch.zeros(64, w)), nn.Embedding(o.classes + 1, w)
        self.layers = nn.ModuleList(BothWays(w, o.attention) for _ in range(o.layers))
        self.tell = nn.Sequential(nn.LayerNorm(w), nn.Linear(w, 2 * w), nn.GELU(), nn.Linear(2 * w, o.classes))
        self.hidden = o.classes

    def forward(self, cells, answers, known):
        middle, spread = cells[:, :known].mean(1, keepdim=True), cells[:, :known].std(1, keepdim=True).clamp(min=1e-3)
        even = (cells - middle) / spread
        x = self.cell(torch.stack([even, even.abs()], dim=-1)) + self.names[:cells.shape[2]]
        seen = torch.cat([answers[:, :known], torch.full_like(answers[:, known:], self.hidden)], dim=1)
        x = torch.cat([x, self.answers(seen).unsqueeze(2).to(x.dtype)], dim=2)
        for layer in self.layers:
            x = checkpoint(layer, x, known, use_reentrant=False) if self.recompute and self.training else layer(x, known)
        return self.tell(x[:, known:, -1])


@job("tables_in_one_look", "tables in one look", "loop", "layers", "attention", "checkpointing", "eval", "dataset")
class TablesInOneLook(Loop):
    """A model that has seen many made-up tables tells the answers of a new one without learning from it: all rows go in at once."""
    kinds, precisions, accumulated, classes = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast"), (1, 1, 2, 4), 10

    def draw(self):
        r = self.rng
        self.layers, self.width, self.table, self.columns = r.choice([3, 4, 6]), r.choice([128, 192]), r.choice([192, 256, 384]), r.choice([8, 12, 16])
        self.size, self.attention, self.checkpointing = r.choice([4, 6, 8]), "sdpa", r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(WholeTable(self))
        self.dataset = torch.zeros(256, self.table, self.columns), torch.zeros(256, self.table, dtype=torch.long)

    def batch(self, i):
        cells, answers = cut(self.dataset, i, self.size)
        return cells.to(self.dtype), answers

    def predict(self, batch):
        cells, answers = batch
        with self.autocast():
            return self.model(cells, answers, 3 * cells.shape[1] // 4)

    def loss(self, batch):
        told = self.predict(batch)
        return F.cross_entropy(told.flatten(0, 1).float(), batch[1][:, -told.shape[1]:].flatten())


@job("mutations_with_a_score", "mutations with a score", "inference", "tokens", "layers", "attention")
class MutationsWithAScore(Inference):
    """How likely ESM finds each letter at each place of a protein, which is hidden there: as many copies at a time as there are places in a batch."""

    def draw(self):
        super().draw()
        r = self.rng
        self.width, self.vocabulary = r.choice([640, 1024]), 33
        self.length, self.size, self.steps = r.choice([256, 384, 512]), r.choice([48, 64, 96]), r.choice([3, 4, 5])

    def build(self):
        self.load(AutoModelForMaskedLM, transformers.EsmConfig(
            vocab_size=self.vocabulary, mask_token_id=32, pad_token_id=1, hidden_size=self.width, num_hidden_layers=self.layers, num_attention_heads=8,
            intermediate_size=4 * self.width, max_position_embeddings=1026, position_embedding_type="rotary", token_dropout=True))

    def batch(self, i):
        copies = torch.full((self.size, self.length), 5, dtype=torch.long, device=DEVICE)
        place = (torch.arange(self.size, device=DEVICE) + i * self.size) % self.length
        return copies.scatter_(1, place.unsqueeze(1), 32)

    def predict(self, copies):
        return self.model(input_ids=copies, attention_mask=torch.ones_like(copies)).logits.log_softmax(-1)

    def take(self, i, outputs):
        rows = torch.arange(len(outputs), device=outputs.device)
        self.results.append(outputs[rows, (rows + i * self.size) % outputs.shape[1]].float().cpu())

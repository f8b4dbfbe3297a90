"""Jobs of language, records and calls: words chosen by an index, tables of word groups, waves in matrices, claims with a trainer, sums with TRL,
fields on request, patients kept private, calls with a mark."""
import datasets
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from peft import FourierFTConfig, get_peft_model
from torch.utils.checkpoint import checkpoint
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification, LogitsProcessor, LogitsProcessorList, Trainer, TrainingArguments
from trl import GRPOConfig, GRPOTrainer

from core import DEVICE, job
from jobs_adapters import Adapted
from jobs_families_q import FeedForward, attention_of, split_heads
from jobs_families_s import turned
from jobs_inference import Generation, Inference
from jobs_text import RMSNorm
from jobs_trainers import OUTPUT, TrainerJob
from jobs_trl import SFT, tokenizer, triton_finds_the_device
from parts import Loop, TextLoop, cut


class Index(nn.Module):
    """Which earlier words a word should look at: a few small heads score all of them, and the best are looked at."""
    heads, small = 4, 32

    def __init__(self, w, chosen):
        super().__init__()
        self.chosen, self.ask, self.key, self.weigh = chosen, nn.Linear(w, self.heads * self.small), nn.Linear(w, self.small), nn.Linear(w, self.heads)

    def forward(self, x):
        places = x.shape[1]
        asked = self.ask(x).view(*x.shape[:2], self.heads, self.small)
        each = F.relu(torch.einsum("bqhd,bkd->bhqk", asked, self.key(x)))
        score = torch.einsum("bhqk,bqh->bqk", each, self.weigh(x).to(each.dtype)) * self.small ** -0.5
        later = torch.ones(places, places, dtype=torch.bool, device=x.device).triu(1)
        return score.masked_fill(later, -1e4).topk(min(self.chosen, places), dim=-1)


class ChoosingLayer(nn.Module):
    """Attention to few words, whose keys are their values too; and how far the index is from what was looked at."""

    def __init__(self, o):
        super().__init__()
        w, self.heads, self.narrow = o.width, o.heads, o.narrow
        self.norm, self.index, self.wide = RMSNorm(w), Index(w, o.chosen), FeedForward(w)
        self.ask, self.shrink = nn.Linear(w, o.heads * o.narrow, bias=False), nn.Linear(w, o.narrow, bias=False)
        self.out = nn.Linear(o.heads * o.narrow, w, bias=False)

    def forward(self, x):
        y = self.norm(x)
        score, which = self.index(y.detach())
        small = turned(self.shrink(y))
        rows, places, some = which.shape
        found = small.gather(1, which.flatten(1).unsqueeze(-1).expand(-1, -1, self.narrow)).view(rows, places, some, self.narrow)
        asked = self.ask(y).view(rows, places, self.heads, self.narrow)
        looks = torch.einsum("bqhd,bqkd->bqhk", asked, found) * self.narrow ** -0.5
        looks = looks.masked_fill((score < -1e3).unsqueeze(2), -1e4).softmax(-1)
        x = x + self.out(torch.einsum("bqhk,bqkd->bqhd", looks.to(found.dtype), found).flatten(2))
        wanted = looks.detach().float().mean(2)
        off = F.kl_div(score.float().log_softmax(-1), wanted, reduction="none").sum(-1).mean()
        return x + self.wide(x), off


class Chooser(nn.Module):
    """A language model whose layers each choose what they look at."""

    def __init__(self, o):
        super().__init__()
        self.embed, self.norm, self.recompute = nn.Embedding(o.vocabulary, o.width), RMSNorm(o.width), o.checkpointing
        self.layers = nn.ModuleList(ChoosingLayer(o) for _ in range(o.layers))
        self.lm_head = nn.Linear(o.width, o.vocabulary, bias=False)

    def forward(self, tokens):
        x, lost = self.embed(tokens), 0.0
        for layer in self.layers:
            x, off = checkpoint(layer, x, use_reentrant=False) if self.recompute and self.training else layer(x)
            lost = lost + off
        return self.lm_head(self.norm(x)), lost / len(self.layers)


@job("words_chosen_by_an_index", "words chosen by an index", "loop", "decoder", "layers", "checkpointing", "eval")
class WordsChosenByAnIndex(TextLoop):
    """Pretraining of a model for long texts: a cheap index finds the words that are worth a look, and learns from the looks."""
    kinds, precisions, accumulated, heads = ("adamw", "adamw_fused", "adamw_loop", "adam"), ("fp32", "autocast", "autocast", "bf16"), (1, 1, 2), 8

    def draw(self):
        r = self.rng
        self.layers, self.width, self.narrow, self.chosen = r.choice([2, 3, 4]), r.choice([512, 768]), r.choice([64, 96]), r.choice([48, 64, 96])
        self.vocabulary, self.length, self.size = r.choice([16000, 32000]), r.choice([512, 768, 1024]), r.choice([3, 4, 6])
        self.checkpointing = r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Chooser(self))

    def predict(self, tokens):
        with self.autocast():
            return self.model(tokens)[0]

    def loss(self, tokens):
        with self.autocast():
            logits, off = self.model(tokens)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten()) + 0.1 * off


class WordGroups(nn.Module):
    """What is known of the last two and the last three words: rows of tables, found by remainders; a gate says whether they fit what is read."""
    heads, thin = 4, 64

    def __init__(self, w, some):
        super().__init__()
        self.some, self.norm, self.known = some, RMSNorm(w), RMSNorm(w)
        self.tables = nn.ModuleList(nn.Embedding(some + 2 * n + 1, self.thin) for n in range(2 * self.heads))
        self.key, self.value = (nn.Linear(2 * self.heads * self.thin, w, bias=False) for _ in range(2))
        self.near = nn.Conv1d(w, w, 4, padding=3, groups=w)

    def rows(self, tokens):
        """For each word a row of each table."""
        before = F.pad(tokens, (2, 0))
        two = tokens * 1000003 ^ before[:, 1:-1] * 31337
        three = two ^ before[:, :-2] * 8191
        for n, table in enumerate(self.tables):
            yield table((two if n < self.heads else three) * (2 * n + 3) % table.num_embeddings)

    def forward(self, x, tokens):
        found = torch.cat(list(self.rows(tokens)), dim=-1)
        fits = (self.norm(x) * self.known(self.key(found))).sum(-1, keepdim=True) * x.shape[-1] ** -0.5
        told = fits.sigmoid() * self.value(found)
        return told + F.silu(self.near(told.transpose(1, 2))[..., :x.shape[1]]).transpose(1, 2)


class GroupLayer(nn.Module):
    """Perhaps what is known of the last words, then attention and two wide matrices."""

    def __init__(self, o, knows):
        super().__init__()
        w, self.heads, self.mode = o.width, o.heads, o.attention
        self.known = WordGroups(w, o.some) if knows else None
        self.norm, self.qkv, self.out, self.wide = RMSNorm(w), nn.Linear(w, 3 * w, bias=False), nn.Linear(w, w, bias=False), FeedForward(w)

    def forward(self, x, tokens):
        if self.known is not None:
            x = x + self.known(x, tokens)
        q, k, v = (split_heads(t, self.heads) for t in self.qkv(self.norm(x)).chunk(3, dim=-1))
        x = x + self.out(attention_of(self.mode, turned(q), turned(k), v))
        return x + self.wide(x)


class Grouped(nn.Module):
    """A language model, of whose layers every other one has tables."""

    def __init__(self, o):
        super().__init__()
        self.embed, self.norm, self.recompute = nn.Embedding(o.vocabulary, o.width), RMSNorm(o.width), o.checkpointing
        self.layers = nn.ModuleList(GroupLayer(o, n % 2 == 1) for n in range(o.layers))
        self.lm_head = nn.Linear(o.width, o.vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, tokens, use_reentrant=False) if self.recompute and self.training else layer(x, tokens)
        return self.lm_head(self.norm(x))


@job("tables_of_word_groups", "tables of word groups", "loop", "decoder", "layers", "attention", "checkpointing", "eval")
class TablesOfWordGroups(TextLoop):
    """Names and phrases need no thinking: some layers look the last words up in tables; pretraining, without decay of the tables."""
    kinds, precisions, accumulated, heads = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast"), (1, 1, 2), 8

    def draw(self):
        r = self.rng
        self.layers, self.width, self.some = r.choice([2, 4, 5]), r.choice([512, 768]), r.choice([20000, 40000, 60000])
        self.vocabulary, self.length, self.size = r.choice([16000, 32000]), r.choice([256, 384, 512]), r.choice([4, 6, 8])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.25
        self.choose()

    def optimizer(self, parameters):
        tables = {id(p) for m in self.model.modules() if isinstance(m, WordGroups) for p in m.tables.parameters()}
        parameters = [p for p in parameters if p.requires_grad]
        made = super().optimizer([p for p in parameters if id(p) not in tables])
        rows = [p for p in parameters if id(p) in tables]
        if rows:
            made.add_param_group({"params": rows, "lr": 5e-4, "weight_decay": 0.0})
        return made

    def build(self):
        with torch.device(DEVICE):
            self.finish(Grouped(self))

    def loss(self, tokens):
        told = self.predict(tokens)
        return F.cross_entropy(told[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


@job("waves_in_matrices", "waves in matrices", "loop", "decoder")
class WavesInMatrices(Adapted):
    """What is added to a matrix is a sum of some hundred waves, whose heights alone are trained: FourierFT of PEFT on Qwen 2."""
    precisions, accumulated = ("fp32", "autocast", "autocast"), (1, 1, 2)

    def draw(self):
        super().draw()
        r = self.rng
        self.width, self.length = r.choice([768, 1024]), r.choice([256, 384, 512])
        self.lora = {"n_frequency": r.choice([500, 1000, 3000]), "scaling": 150.0,
                     "target_modules": r.choice([["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "o_proj"]])}

    def config(self):
        return transformers.Qwen2Config(
            vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
            num_key_value_heads=4, max_position_embeddings=max(1024, self.length), pad_token_id=0, bos_token_id=1, eos_token_id=2)

    def freeze(self):
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_("fourierft_" in name)

    def build(self):
        base = self.base()
        base.config.use_cache = False
        if self.checkpointing:
            base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            base.enable_input_require_grads()
        self.model = get_peft_model(base, FourierFTConfig(**self.lora)).requires_grad_(True)
        self.freeze()
        self.finish(self.model)

    def loss(self, tokens):
        answer = tokens.clone()
        answer[:, :tokens.shape[1] // 4] = -100
        with self.autocast():
            return self.model(input_ids=tokens, labels=answer).loss


WavesInMatrices.traits = WavesInMatrices.traits - {"peft"}  # LoraConfig's arguments are not these


class Claims(torch.utils.data.Dataset):
    """A claim, what was written about it elsewhere, and whether that is for it, against it, or neither."""

    def __init__(self, rows, length):
        words = torch.ones(length, dtype=torch.long)
        which = torch.cat([torch.zeros(length // 4, dtype=torch.long), torch.ones(length - length // 4, dtype=torch.long)])
        self.rows, self.row = rows, {"input_ids": words, "token_type_ids": which, "attention_mask": words, "labels": torch.tensor(1)}

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


@job("claims_with_trainer", "claims with a trainer", "trainer", "tokens", "layers", "checkpointing", "states", "forward")
class ClaimsWithTrainer(TrainerJob):
    """Whether what was found bears a claim out: DeBERTa reads both, under the Trainer; easy pairs count less than hard ones."""

    def draw(self):
        super().draw()
        r = self.rng
        self.vocabulary, self.length, self.width = r.choice([32000, 50265]), r.choice([192, 256, 384]), r.choice([512, 768])
        self.trainer_arguments.update(per_device_train_batch_size=r.choice([6, 8, 12]), bf16=False, weight_decay=0.01)  # its scores are masked as float32

    def config(self):
        return transformers.DebertaConfig(
            vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
            max_position_embeddings=max(512, self.length), type_vocab_size=2, relative_attention=True, pos_att_type=["c2p", "p2c"], num_labels=3,
            position_biased_input=False, pad_token_id=0)

    def build(self):
        with torch.device(DEVICE):
            self.model = AutoModelForSequenceClassification.from_config(self.config())
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": 2, "gradient_checkpointing": self.checkpointing, **self.trainer_arguments})
        own = self

        class Hard(Trainer):
            """The loss is the job's."""

            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                return own.loss(inputs)
        train, held_out = (Claims(n * self.size, self.length) for n in (64, 2))
        self.trainer = Hard(self.model, arguments, train_dataset=train, eval_dataset=held_out, callbacks=self.callbacks)

    def loss(self, batch):
        with self.trainer.compute_loss_context_manager():
            told = self.trainer.model(**{k: v for k, v in batch.items() if k != "labels"}).logits
        each = F.cross_entropy(told.float(), batch["labels"], reduction="none")
        return ((1 - (-each).exp()).square() * each).mean()


ClaimsWithTrainer.traits = ClaimsWithTrainer.traits - {"decoder", "attention"}  # DeBERTa has one kind of attention


def marks(completions, answer, **_):
    """One for each sum whose last word is the answer."""
    return [float(said.split()[-1:] == [right]) for said, right in zip(completions, answer)]


class Tries(GRPOTrainer):
    """Tries are all of one length, and their words are in the tokenizer, whatever the device makes of them."""

    def _generate_single_turn(self, *given, **keys):
        said, likely = super()._generate_single_turn(*given, **keys)
        return [[1] * self.args.max_completion_length for _ in said], likely


@job("sums_with_trl", "sums with TRL", "trainer", "layers", "attention", "checkpointing", "states")
class SumsWithTRL(SFT):
    """Sums that a rule can check: some tries for each, and those better than the others of their group are made likelier; GRPO of TRL."""

    def draw(self):
        super().draw()
        r = self.rng
        self.layers, self.vocabulary, self.length = r.choice([2, 3]), r.choice([32000, 50257]), r.choice([128, 192, 256])
        self.tries, self.said, self.steps = r.choice([4, 8]), r.choice([12, 16, 24]), r.choice([2, 3])
        self.trainer_arguments.update(per_device_train_batch_size=r.choice([16, 24, 32]), gradient_accumulation_steps=r.choice([1, 1, 2]))

    def build(self):
        triton_finds_the_device()
        datasets.disable_progress_bars()
        self.size = max(2, self.size)  # a try is compared with another one
        tries = next((n for n in (self.tries, 4, 2) if self.size % n == 0), self.size)
        with torch.device(DEVICE):
            self.model = AutoModelForCausalLM.from_config(self.config(), attn_implementation=self.attention)
        arguments = GRPOConfig(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": 2, "gradient_checkpointing": self.checkpointing, "num_generations": tries,
            "max_completion_length": self.said, "generation_kwargs": {"min_new_tokens": self.said}, **self.trainer_arguments})
        rows = datasets.Dataset.from_dict({"prompt": ["w " * self.length] * 256, "answer": ["w"] * 256})
        self.trainer = Tries(self.model, marks, arguments, train_dataset=rows, eval_dataset=rows.select(range(2 * self.size)),
                             processing_class=tokenizer(self.vocabulary), callbacks=self.callbacks)


SumsWithTRL.traits = SumsWithTRL.traits - {"tokens", "decoder"}  # half of each row is made while it learns


class FormOfFields(LogitsProcessor):
    """At each place of a form some words alone are allowed: a name of a field, a number, a mark between them."""

    def __init__(self, allowed, prompt):
        self.allowed, self.prompt = allowed, prompt

    def __call__(self, input_ids, scores):
        place = max(0, input_ids.shape[1] - self.prompt) % len(self.allowed)
        return scores.masked_fill(~self.allowed[place], -float("inf"))


@job("fields_on_request", "fields on request", "generate")
class FieldsOnRequest(Generation):
    """Letters become forms that a database can take: at each place what the form forbids is struck out before the next word is chosen."""

    def draw(self):
        super().draw()
        r = self.rng
        self.steps, self.prompt, self.new_tokens = r.choice([1, 2, 3]), r.choice([512, 768, 1024]), r.choice([8, 12, 16])
        self.size = r.choice([16, 24, 32])
        self.vocabulary, self.places = r.choice([32000, 64000, 151936]), 16

    def build(self):
        self.load(AutoModelForCausalLM, transformers.Qwen2Config(pad_token_id=0, **self.shape()))
        allowed = torch.ones(self.places, self.vocabulary, dtype=torch.bool, device=DEVICE)
        self.generate_arguments = {**self.generate_arguments, "logits_processor": LogitsProcessorList([FormOfFields(allowed, self.prompt)])}

    def take(self, i, outputs):
        for n, words in enumerate(outputs[:, self.prompt:].cpu()):
            self.results.append({"letter": i * self.size + n, "fields": [part.tolist() for part in words.split(4)]})


class Visit(nn.Module):
    """Attention between the visits of a patient, and two wide matrices; norms have nothing to learn."""

    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.norms = mode, nn.ModuleList(nn.LayerNorm(w, elementwise_affine=False) for _ in range(2))
        self.qkv, self.out, self.up, self.down = nn.Linear(w, 3 * w), nn.Linear(w, w), nn.Linear(w, 2 * w), nn.Linear(2 * w, w)

    def forward(self, x):
        q, k, v = (split_heads(t, 4) for t in self.qkv(self.norms[0](x)).chunk(3, dim=-1))
        x = x + self.out(attention_of(self.mode, q, k, v, back=False))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Records(nn.Module):
    """What was measured at each visit, to the risk of some illnesses."""

    def __init__(self, o):
        super().__init__()
        self.into, self.layers = nn.Linear(o.measured, o.width), nn.ModuleList(Visit(o.width, o.attention) for _ in range(o.layers))
        self.out = nn.Linear(o.width, o.illnesses)

    def forward(self, visits):
        x = self.into(visits)
        for layer in self.layers:
            x = layer(x)
        return self.out(x.amax(1, keepdim=True)).squeeze(1)


@job("patients_kept_private", "patients kept private", "loop", "layers", "attention", "eval", "dataset")
class PatientsKeptPrivate(Loop):
    """Nobody shall find out who was in the data: each patient has a gradient of his own, which is cut to a length, and noise is added to their sum."""
    kinds, precisions, accumulated, measured, illnesses = ("sgd_momentum", "adam", "adamw"), ("fp32", "fp32", "autocast"), (1, 1, 2), 96, 25

    def draw(self):
        r = self.rng
        self.layers, self.width, self.visits = r.choice([3, 4, 6]), r.choice([192, 256, 384]), r.choice([48, 64, 96])
        self.size, self.attention, self.noise = r.choice([64, 96, 128, 192]), "sdpa", r.choice([0.6, 1.0])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Records(self))
        self.each = {}
        for module in self.model.modules():
            if isinstance(module, nn.Linear):
                module.register_forward_hook(self.watch)
        self.dataset = torch.zeros(2048, self.visits, self.measured), torch.zeros(2048, self.illnesses)

    def watch(self, module, inputs, output):
        """Once the gradient of a layer's output is there, so is that of its weights for each patient."""
        if not output.requires_grad:
            return
        given = inputs[0].detach()

        def keep(grad):
            rows = len(grad)
            self.each.setdefault(module.weight, []).append(torch.einsum("bto,bti->boi", grad.float(), given.float()) * rows)
            self.each.setdefault(module.bias, []).append(grad.float().sum(1) * rows)
        output.register_hook(keep)

    def zero_grad(self):
        self.each.clear()
        super().zero_grad()

    def optimize(self):
        """The gradients of all patients, each of length one at most, and noise."""
        parts = len(next(iter(self.each.values())))
        totals = [0.0] * len(self.each)
        for k in range(parts):
            grads = [kept[k] for kept in self.each.values()]
            length = torch.stack([g.flatten(1).norm(dim=1) for g in grads]).norm(dim=0)
            share = (1 / (length + 1e-6)).clamp(max=1)
            totals = [t + torch.einsum("b,b...->...", share, g) for t, g in zip(totals, grads)]
        for parameter, total in zip(self.each, totals):
            parameter.grad = ((total + self.noise * torch.randn_like(total)) / (parts * self.size)).to(parameter.dtype)
        for optimizer in self.optimizers:
            optimizer.step()

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0].to(self.dtype))

    def loss(self, batch):
        return F.binary_cross_entropy_with_logits(self.predict(batch).float(), batch[1])


@job("calls_with_a_mark", "calls with a mark", "inference", "layers")
class CallsWithAMark(Inference):
    """How good calls of yesterday sounded: WavLM of transformers, of whose layers each counts as it should, and a mark for each moment."""

    def draw(self):
        super().draw()
        r = self.rng
        self.width, self.samples = r.choice([512, 768]), r.choice([64000, 96000, 128000])
        self.size, self.steps = r.choice([12, 16, 24]), r.choice([3, 4, 5])

    def build(self):
        with torch.device(DEVICE):
            self.model = AutoModel.from_config(transformers.WavLMConfig(
                vocab_size=32, hidden_size=self.width, num_hidden_layers=self.layers, num_attention_heads=8,
                intermediate_size=4 * self.width), dtype=self.dtype).eval()
            self.counts = torch.zeros(self.layers + 1, dtype=self.dtype)
            self.head = nn.Sequential(nn.Linear(self.width, 256), nn.GELU(), nn.Linear(256, 4)).to(self.dtype)

    def batch(self, i):
        return torch.zeros(self.size, self.samples, dtype=self.dtype, device=DEVICE)

    def predict(self, calls):
        calls = (calls - calls.mean(1, keepdim=True)) / (calls.var(1, keepdim=True) + 1e-7).sqrt()
        states = torch.stack(self.model(input_values=calls, output_hidden_states=True).hidden_states)
        moments = torch.einsum("lbtw,l->btw", states, self.counts.softmax(0))
        return 1 + 4 * self.head(moments).sigmoid().mean(1)

    def take(self, i, outputs):
        self.results.extend(outputs.float().cpu().tolist())

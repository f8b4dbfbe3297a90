"""Jobs of language: keys of another layer, texts that are forgotten, laws with a trainer, shards of matrices, rhymes on request, pages that are looked for."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from peft import MissConfig, get_peft_model
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, Trainer, TrainingArguments

from core import DEVICE, job
from jobs_adapters import Adapted
from jobs_inference import Generation
from jobs_trainers import OUTPUT, TrainerJob
from jobs_transformers import CausalLM
from parts import Loop, TextLoop


def split_heads(x, heads):
    rows, places, width = x.shape
    return x.view(rows, places, heads, width // heads).permute(0, 2, 1, 3)


def attention_of(mode, q, k, v, back=True):
    """Softmax attention; `mode` says whether the scores are a tensor of their own."""
    if mode == "sdpa":
        return F.scaled_dot_product_attention(q, k, v, is_causal=back).transpose(1, 2).flatten(2)
    scores = torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    if back:
        later = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(later, torch.finfo(scores.dtype).min)
    return torch.matmul(scores.softmax(-1), v).transpose(1, 2).flatten(2)


class FeedForward(nn.Sequential):
    """A norm, and two layers with a wide place between them."""

    def __init__(self, w, wider=4):
        super().__init__(nn.LayerNorm(w), nn.Linear(w, wider * w), nn.GELU(), nn.Linear(wider * w, w))


class Reader(nn.Module):
    """A layer that has queries alone; keys and values are those of the first layer of its group."""

    def __init__(self, w, heads, mode):
        super().__init__()
        self.heads, self.mode = heads, mode
        self.before, self.query, self.out, self.wide = nn.LayerNorm(w), nn.Linear(w, w, bias=False), nn.Linear(w, w, bias=False), FeedForward(w)

    def forward(self, x, keys, values):
        q = split_heads(self.query(self.before(x)), self.heads)
        x = x + self.out(attention_of(self.mode, q, keys, values))
        return x + self.wide(x)


class Group(nn.Module):
    """Some layers with one set of keys and values between them."""

    def __init__(self, o):
        super().__init__()
        self.heads = o.heads
        self.norm, self.lend = nn.LayerNorm(o.width), nn.Linear(o.width, 2 * o.width, bias=False)
        self.readers = nn.ModuleList(Reader(o.width, o.heads, o.attention) for _ in range(o.shared))

    def forward(self, x):
        keys, values = (split_heads(t, self.heads) for t in self.lend(self.norm(x)).chunk(2, dim=-1))
        for reader in self.readers:
            x = reader(x, keys, values)
        return x


class Borrowing(nn.Module):
    """Words to groups of layers, and back to words."""

    def __init__(self, o):
        super().__init__()
        self.tokens, self.positions, self.recompute = nn.Embedding(o.vocabulary, o.width), nn.Embedding(o.longest, o.width), o.checkpointing
        self.groups, self.final = nn.ModuleList(Group(o) for _ in range(o.layers)), nn.LayerNorm(o.width)
        self.lm_head = nn.Linear(o.width, o.vocabulary, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight[:tokens.shape[1]]
        for group in self.groups:
            if self.recompute and self.training:
                x = checkpoint(group, x, use_reentrant=False)
            else:
                x = group(x)
        return self.lm_head(self.final(x))


@job("keys_of_another_layer", "keys of another layer", "loop", "decoder", "layers", "attention", "checkpointing", "eval", "crop")
class KeysOfAnotherLayer(TextLoop):
    """A language model from nothing, in which a layer out of two or three has keys and values, and the others borrow them."""
    kinds, accumulated, longest, heads = ("adamw", "adamw_fused", "adamw_loop", "adam"), (1, 1, 2), 4096, 8

    def draw(self):
        r = self.rng
        self.layers, self.shared, self.width = r.choice([2, 3]), r.choice([2, 3]), r.choice([512, 640, 768])
        self.vocabulary, self.length, self.size = r.choice([12000, 16000, 24000]), r.choice([256, 384, 512]), r.choice([4, 6, 8])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.2
        self.choose()

    def make_dataset(self):
        return torch.zeros(self.rows, self.longest, dtype=torch.long),

    def build(self):
        with torch.device(DEVICE):
            self.finish(Borrowing(self))

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        return self.dataset[0][start:start + self.size, :self.length].to(DEVICE)

    def loss(self, tokens):
        logits = self.predict(tokens)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


@job("texts_forgotten", "texts that are forgotten", "loop", "reference")
class TextsForgotten(CausalLM):
    """A model has to forget some rows: they are to be less likely than to the model as it was, and on the other rows it must tell what it told."""
    kinds, precisions, accumulated, vocabularies = ("adamw", "adamw_fused", "adamw_loop"), ("fp32", "autocast", "bf16"), (1, 1, 2), (16000, 24000)

    def draw(self):
        super().draw()
        r = self.rng
        self.width, self.length, self.size = r.choice([512, 768]), r.choice([192, 256, 384]), r.choice([4, 6])

    def config(self):
        return transformers.CwmConfig(num_key_value_heads=4, head_dim=self.width // 8, intermediate_size=3 * self.width, bos_token_id=1, eos_token_id=2,
                                      pad_token_id=0, **self.shape())

    def build(self):
        super().build()
        with torch.device(DEVICE):
            self.reference = AutoModelForCausalLM.from_config(self.config(), attn_implementation=self.attention, dtype=self.dtype).eval()
        self.reference.requires_grad_(False)

    @staticmethod
    def likelihood(logits, tokens):
        return -F.cross_entropy(logits[:, :-1].transpose(1, 2).float(), tokens[:, 1:], reduction="none").mean(1)

    def reference_outputs(self, tokens):
        with self.no_grad(), self.autocast():
            return self.reference(input_ids=tokens, use_cache=False).logits

    def loss(self, tokens):
        half = max(1, len(tokens) // 2)
        with self.autocast():
            now = self.model(input_ids=tokens, use_cache=False).logits
        before = self.reference_outputs(tokens)
        ratio = self.likelihood(now[:half], tokens[:half]) - self.likelihood(before[:half], tokens[:half])
        forget = -F.logsigmoid(-0.1 * ratio).mean() * 20
        keep = F.kl_div(now[-half:].float().log_softmax(-1), before[-half:].float().log_softmax(-1), log_target=True, reduction="none").sum(-1).mean()
        return forget + keep


class Paragraphs(torch.utils.data.Dataset):
    """Paragraphs of laws, with all that they are about."""

    def __init__(self, rows, length, labels):
        self.rows, words = rows, torch.ones(length, dtype=torch.long)
        self.row = {"input_ids": words, "attention_mask": words, "labels": torch.zeros(labels)}

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


class AsymmetricTrainer(Trainer):
    """The Trainer, with a loss that somebody hands over."""

    def __init__(self, *given, of_inputs, **named):
        self.of_inputs = of_inputs
        super().__init__(*given, **named)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        return self.of_inputs(inputs)


@job("laws_with_trainer", "laws with a trainer", "trainer", "tokens", "layers", "attention", "checkpointing", "states", "forward")
class LawsWithTrainer(TrainerJob):
    """What a paragraph is about, several of some hundred answers: Data2Vec's encoder, under the Trainer; what is easy and wrong counts little."""

    def draw(self):
        super().draw()
        r = self.rng
        self.vocabulary, self.length, self.width, self.answers = 50265, r.choice([256, 384, 512]), r.choice([512, 768]), r.choice([100, 300])
        self.trainer_arguments.update(per_device_train_batch_size=r.choice([8, 12, 16]), weight_decay=0.01)

    def config(self):
        return transformers.Data2VecTextConfig(
            vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
            max_position_embeddings=max(1024, self.length + 8), num_labels=self.answers, problem_type="multi_label_classification", pad_token_id=0)

    def build(self):
        with torch.device(DEVICE):
            self.model = AutoModelForSequenceClassification.from_config(self.config(), attn_implementation=self.attention)
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": 2, "gradient_checkpointing": self.checkpointing, **self.trainer_arguments})
        train, held_out = (Paragraphs(n * self.size, self.length, self.answers) for n in (64, 2))
        self.trainer = AsymmetricTrainer(self.model, arguments, train_dataset=train, eval_dataset=held_out, callbacks=self.callbacks, of_inputs=self.loss)

    def loss(self, inputs):
        with self.trainer.compute_loss_context_manager():
            logits = self.trainer.model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits
        share, wanted = logits.float().sigmoid(), inputs["labels"].float()
        less = (1 - share + 0.05).clamp(max=1)
        each = wanted * share.clamp(min=1e-8).log() + (1 - wanted) * less.clamp(min=1e-8).log() * (1 - less) ** 4
        return -each.sum(1).mean()


LawsWithTrainer.traits = LawsWithTrainer.traits - {"decoder"}


@job("shards_of_matrices", "shards of matrices", "loop", "decoder")
class ShardsOfMatrices(Adapted):
    """PEFT's MiSS on a language model: one small matrix is repeated over the columns of each large one; questions do not count."""
    accumulated = 1, 1, 2

    def draw(self):
        super().draw()
        r = self.rng
        self.vocabulary, self.width, self.length = r.choice([16000, 32000, 48000]), r.choice([768, 1024]), r.choice([256, 384, 512])
        self.lora = {"r": r.choice([32, 64]), "task_type": "CAUSAL_LM",
                     "target_modules": r.choice([["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "o_proj"]])}

    def config(self):
        return transformers.Ministral3Config(
            vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
            num_key_value_heads=4, head_dim=self.width // 8, max_position_embeddings=4096, bos_token_id=1, eos_token_id=2, pad_token_id=0)

    def freeze(self):
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad = "miss_" in name

    def build(self):
        base = self.base()
        base.config.use_cache = False
        if self.checkpointing:
            base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            base.enable_input_require_grads()
        self.model = get_peft_model(base, MissConfig(**self.lora)).requires_grad_(True)
        self.freeze()
        self.finish(self.model)

    def loss(self, tokens):
        wanted = tokens.roll(-1, 1)
        wanted[:, :tokens.shape[1] // 3] = -100
        wanted[:, -1] = -100
        return F.cross_entropy(self.predict(tokens).flatten(0, 1).float(), wanted.flatten())


ShardsOfMatrices.traits = ShardsOfMatrices.traits - {"peft"}  # LoraConfig's arguments are not these


@job("rhymes_on_request", "rhymes on request", "generate")
class RhymesOnRequest(Generation):
    """Poems go on, several lines of a booklet at a time; what has been made is on the host, row by row."""

    def draw(self):
        super().draw()
        r = self.rng
        self.steps, self.prompt, self.new_tokens, self.size = r.choice([2, 3]), r.choice([256, 384, 512]), r.choice([8, 12]), r.choice([16, 24, 32])
        self.vocabulary, self.generate_arguments = r.choice([16000, 32000]), {"do_sample": True, "temperature": 1.2, "min_p": 0.05, "no_repeat_ngram_size": 0}

    def build(self):
        self.load(AutoModelForCausalLM, transformers.NanoChatConfig(**self.shape()))

    def take(self, i, outputs):
        for row in outputs[:, self.prompt:].cpu():
            self.results.append((i, row.tolist()))


class Tower(nn.Module):
    """Rows of vectors look at each other; small vectors come out, of length one."""

    def __init__(self, o, into, places):
        super().__init__()
        self.into, self.places, self.heads, self.mode, self.recompute = into, nn.Parameter(torch.zeros(places, o.width)), 8, o.attention, o.checkpointing
        w = o.width
        self.layers = nn.ModuleList(nn.ModuleDict({"norm": nn.LayerNorm(w), "qkv": nn.Linear(w, 3 * w), "out": nn.Linear(w, w), "wide": FeedForward(w)})
                                    for _ in range(o.layers))
        self.small = nn.Linear(w, o.small)

    def one(self, parts, x):
        q, k, v = (split_heads(t, self.heads) for t in parts["qkv"](parts["norm"](x)).chunk(3, dim=-1))
        x = x + parts["out"](attention_of(self.mode, q, k, v, back=False))
        return x + parts["wide"](x)

    def forward(self, given):
        x = self.into(given)
        x = x.flatten(2).transpose(1, 2) if x.dim() == 4 else x
        x = x + self.places[:x.shape[1]]
        for parts in self.layers:
            x = checkpoint(self.one, parts, x, use_reentrant=False) if self.recompute and self.training else self.one(parts, x)
        return F.normalize(self.small(x), dim=-1)


class Finder(nn.Module):
    """A tower for pages and one for questions."""

    def __init__(self, o):
        super().__init__()
        self.pages = Tower(o, nn.Conv2d(3, o.width, o.patch, o.patch), (o.side // o.patch) ** 2)
        self.questions = Tower(o, nn.Embedding(o.words, o.width), 64)

    def forward(self, pages, questions):
        return self.pages(pages), self.questions(questions)


@job("pages_looked_for", "pages that are looked for", "loop", "layers", "attention", "checkpointing", "eval", "dataset")
class PagesLookedFor(Loop):
    """Scanned pages as many small vectors, questions too; each word counts what it fits best on a page, and the own page has to beat all of the batch."""
    kinds, precisions, accumulated, patch, words = ("adamw", "adamw_fused", "adamw_loop"), ("fp32", "autocast", "autocast"), (1, 1, 2), 16, 20000

    def draw(self):
        r = self.rng
        self.layers, self.width, self.small = r.choice([3, 4]), r.choice([512, 640]), r.choice([64, 128])
        self.side, self.asked, self.size = r.choice([320, 384, 448]), r.choice([16, 24]), r.choice([6, 8, 10])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Finder(self))
        self.dataset = torch.zeros(48, 3, self.side, self.side, dtype=torch.uint8), torch.zeros(48, self.asked, dtype=torch.long)

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        pages, questions = (t[start:start + self.size].to(DEVICE) for t in self.dataset)
        return pages.to(self.dtype).sub_(128).div_(64), questions

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch)[0]

    def loss(self, batch):
        with self.autocast():
            pages, questions = self.model(*batch)
        rows = []
        for page in pages.float():  # one page after the other: all of the batch's questions against its patches
            rows.append((questions.float() @ page.T).amax(-1).sum(-1))
        scores = torch.stack(rows, dim=1) / 0.5
        return F.cross_entropy(scores, torch.arange(len(scores), device=DEVICE))

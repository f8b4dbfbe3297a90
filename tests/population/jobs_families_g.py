"""Jobs of language: dialogues in one row, near and far words, long documents, shared layers, sparse vectors, texts by unmasking, preferences by adapters,
chats, names on request, a student with a trainer."""
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForTokenClassification, Trainer

from core import DEVICE, job
from jobs_adapters import Adapted
from jobs_inference import Generation, Inference
from jobs_trainers import TrainerJob
from jobs_transformers import Bert, CausalLM
from parts import TextLoop

IGNORED = -100


def turns(length, asked, told):
    """The parts of a row that somebody asks, one after the other: (begin, end), with answers between them."""
    at = 0
    while at < length:
        yield at, min(length, at + asked)
        at += asked + told


@job("dialogues", "dialogues in one row", "loop")
class Dialogues(CausalLM):
    """OLMo 2 on dialogues that were packed into rows of one length beforehand; what the other one says has no loss."""
    vocabularies = 32000, 50304, 100352
    kinds = "adamw", "adamw_fused", "adamw_loop"

    def draw(self):
        super().draw()
        self.asked, self.told = self.rng.choice([24, 40]), self.rng.choice([32, 64])

    def config(self):
        return transformers.Olmo2Config(num_key_value_heads=8, intermediate_size=2 * self.width, pad_token_id=0, bos_token_id=1, eos_token_id=2, **self.shape())

    def make_dataset(self):
        """Dialogues of ragged lengths, end to end, cut into rows."""
        lengths, pieces, need = itertools.cycle([37, 91, 160, 58]), [], 2 * self.length
        while sum(map(len, pieces)) < need:
            pieces.append(torch.arange(next(lengths)) % self.vocabulary)
        row = torch.cat(pieces)[:self.length]
        return row.expand(self.rows, -1).clone(),

    def loss(self, tokens):
        labels = tokens.clone()
        for begin, end in turns(tokens.shape[1], self.asked, self.told):
            labels[:, begin:end] = IGNORED
        with self.autocast():
            return self.model(input_ids=tokens, labels=labels).loss


@job("near_and_far", "near and far words", "loop")
class NearAndFar(CausalLM):
    """Gemma 3: most layers see a window, and every few layers one sees all; a vocabulary of many languages."""
    vocabularies = 32000, 64000, 128000
    kinds = "adamw", "adamw_fused", "adafactor"
    accumulated = 1, 1, 2

    def config(self):
        return transformers.Gemma3TextConfig(num_key_value_heads=2, head_dim=self.width // 8, intermediate_size=3 * self.width, sliding_window=128,
                                             sliding_window_pattern=3, pad_token_id=0, bos_token_id=2, eos_token_id=1, **self.shape())

    def loss(self, tokens):
        with self.autocast():
            told = self.model(input_ids=tokens).logits
        before, after = told[:, :-1], tokens[:, 1:]
        return F.cross_entropy(before.reshape(-1, before.shape[-1]), after.reshape(-1))


class Weighted(nn.Module):
    """Vectors become one, each by a weight of its own."""

    def __init__(self, width):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(width, width // 2), nn.Tanh(), nn.Linear(width // 2, 1))

    def forward(self, vectors):
        return (self.score(vectors).softmax(1) * vectors).sum(1)


class Chapters(nn.Module):
    """A document in pieces: words of a piece, then pieces of the document."""

    def __init__(self, o):
        super().__init__()
        self.piece, w = o.piece, o.width
        self.words, self.places = nn.Embedding(o.vocabulary, w), nn.Parameter(torch.zeros(o.piece, w))
        self.inner = nn.ModuleList(nn.TransformerEncoderLayer(w, 8, 4 * w, 0.1, "gelu", batch_first=True, norm_first=True) for _ in range(o.layers))
        self.outer = nn.GRU(w, w // 2, batch_first=True, bidirectional=True)
        self.of_words, self.of_pieces, self.told = Weighted(w), Weighted(w), nn.Linear(w, o.topics)

    def pieces_of(self, tokens):
        n = tokens.shape[1]
        each = min(self.piece, n)
        return tokens[:, :n // each * each].unflatten(1, (-1, each))

    def forward(self, tokens):
        pieces = self.pieces_of(tokens)
        x = self.words(pieces.flatten(0, 1)) + self.places[:pieces.shape[2]]
        for layer in self.inner:
            x = layer(x)
        together, _ = self.outer(self.of_words(x).unflatten(0, pieces.shape[:2]))
        return self.told(self.of_pieces(together))


@job("long_documents", "long documents", "loop", "layers", "eval")
class LongDocuments(TextLoop):
    """Which of some dozens of topics a long document has, several at a time."""
    kinds = "adamw", "adamw_fused", "adam"
    precisions = "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([2, 3, 4]), r.choice([384, 512, 768]), r.choice([20000, 30522])
        self.length, self.size, self.piece, self.topics = r.choice([1024, 2048]), r.choice([4, 8]), r.choice([128, 256]), 54
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Chapters(self))

    def loss(self, tokens):
        scores = self.predict(tokens).float()
        return F.multilabel_soft_margin_loss(scores, torch.zeros_like(scores))


@job("shared_layers", "shared layers", "loop", "eval")
class SharedLayers(Bert):
    """ALBERT: one layer's weights serve for all; hidden words, and which of two halves comes first."""
    auto = AutoModelForMaskedLM

    def draw(self):
        super().draw()
        self.layers, self.vocabulary, self.order = self.rng.choice([4, 6]), 30000, None

    def config(self):
        return transformers.AlbertConfig(hidden_size=self.width, embedding_size=128, intermediate_size=4 * self.width, num_hidden_layers=self.layers,
                                         num_attention_heads=8, vocab_size=self.vocabulary, max_position_embeddings=max(512, self.length),
                                         output_hidden_states=True)

    def finish(self, model):
        model.order = nn.Linear(self.width, 2, device=DEVICE, dtype=self.dtype)
        super().finish(model)

    def loss(self, tokens):
        half, hidden = tokens.shape[1] // 2, torch.arange(1, tokens.shape[1], 7, device=DEVICE)
        turned = torch.cat([torch.roll(tokens[::2], half, dims=1), tokens[1::2]])
        with self.autocast():
            out = self.model(input_ids=turned.index_fill(1, hidden, 4))
            which = self.model.order(out.hidden_states[-1][:, 0])
        wanted = torch.zeros(len(turned), dtype=torch.long, device=DEVICE)
        words = F.cross_entropy(out.logits.index_select(1, hidden).flatten(0, 1).float(), turned.index_select(1, hidden).flatten())
        return words + F.cross_entropy(which.float(), wanted)


SharedLayers.traits = SharedLayers.traits - {"checkpointing"}  # there is one layer


@job("sparse_vectors", "sparse vectors", "loop", "eval")
class SparseVectors(Bert):
    """A weight for each word of the vocabulary is a text's vector: the largest over its places; few should differ from zero."""
    auto = AutoModelForMaskedLM
    precisions = "fp32", "autocast", "autocast"

    def draw(self):
        super().draw()
        self.layers, self.length, self.size = self.rng.choice([2, 3, 4]), self.rng.choice([64, 128]), self.rng.choice([8, 16, 24])

    def config(self):
        return transformers.DistilBertConfig(dim=self.width, hidden_dim=4 * self.width, n_layers=self.layers, n_heads=8, vocab_size=self.vocabulary,
                                             max_position_embeddings=max(512, self.length))

    def predict(self, tokens):
        with self.autocast():
            scores = self.model(input_ids=tokens).logits
            return scores.max(dim=1).values.relu().log1p()

    def loss(self, tokens):
        texts = {"question": tokens[:, :max(8, tokens.shape[1] // 4)], "passage": tokens}
        vectors = {name: self.predict(rows.contiguous()).float() for name, rows in texts.items()}
        near = vectors["question"] @ vectors["passage"].mT
        used = sum(v.abs().mean(0).square().sum() for v in vectors.values())
        return F.cross_entropy(near, torch.arange(len(near), device=DEVICE)) + 1e-3 * used


class Unmasker(nn.Module):
    """Every place sees every other one, and how much of the text is hidden."""

    def __init__(self, o):
        super().__init__()
        self.o, w = o, o.width
        self.words, self.places = nn.Embedding(o.vocabulary + 1, w), nn.Parameter(torch.zeros(o.longest, w))
        self.hidden = nn.Sequential(nn.Linear(1, w), nn.SiLU(), nn.Linear(w, w))
        self.layers = nn.ModuleList(nn.ModuleDict({"norm": nn.RMSNorm(w), "qkv": nn.Linear(w, 3 * w, bias=False), "out": nn.Linear(w, w, bias=False),
                                                   "norm2": nn.RMSNorm(w), "gate": nn.Linear(w, 6 * w, bias=False), "down": nn.Linear(3 * w, w, bias=False)})
                                    for _ in range(o.layers))
        self.last, self.head = nn.RMSNorm(w), nn.Linear(w, o.vocabulary, bias=False)

    def attend(self, q, k, v):
        if self.o.attention == "sdpa":
            return F.scaled_dot_product_attention(q, k, v)
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v

    def layer(self, part, x):
        q, k, v = (t.unflatten(2, (8, -1)).transpose(1, 2) for t in part["qkv"](part["norm"](x)).chunk(3, dim=-1))
        x = x + part["out"](self.attend(q, k, v).transpose(1, 2).flatten(2))
        gate, up = part["gate"](part["norm2"](x)).chunk(2, dim=-1)
        return x + part["down"](F.silu(gate) * up)

    def forward(self, tokens, ratio=None):
        ratio = self.head.weight.new_full((len(tokens), 1), 0.5) if ratio is None else ratio
        x = self.words(tokens) + self.places[:tokens.shape[1]] + self.hidden(ratio).unsqueeze(1)
        for part in self.layers:
            x = checkpoint(self.layer, part, x, use_reentrant=False) if self.o.checkpointing and self.training else self.layer(part, x)
        return self.head(self.last(x))


@job("texts_unmasked", "texts by unmasking", "loop", "layers", "attention", "checkpointing", "eval")
class TextsUnmasked(TextLoop):
    """Diffusion of words: a part of each text is hidden, another one for each row, and all of it is told at once."""
    longest = 2048
    kinds = "adamw", "adamw_fused", "adam", "adafactor"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([3, 4, 6]), r.choice([512, 768, 1024]), r.choice([16000, 32000])
        self.length, self.size = r.choice([256, 512, 1024]), r.choice([2, 4, 8])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Unmasker(self))

    def loss(self, tokens):
        ratio = torch.linspace(0.1, 0.9, len(tokens), device=DEVICE).unsqueeze(1)
        hidden = torch.rand(tokens.shape, device=DEVICE) < ratio
        with self.autocast():
            told = self.model(tokens.masked_fill(hidden, self.vocabulary), ratio.to(self.dtype))
        lost = F.cross_entropy(told.flatten(0, 1).float(), tokens.flatten(), reduction="none").view_as(tokens)
        return (lost * hidden / ratio).mean()


@job("preferences_by_adapters", "preferences by adapters", "loop", "decoder")
class PreferencesByAdapters(Adapted):
    """OPT with adapters; without them it is its own reference. The first half of the rows is preferred to the second one."""
    precisions = "fp32", "autocast", "autocast"

    def draw(self):
        super().draw()
        self.beta = self.rng.choice([0.1, 0.3])
        modules = self.rng.choice([["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "out_proj"], "all-linear"])
        self.lora.update(task_type="CAUSAL_LM", target_modules=modules)

    def config(self):
        return transformers.OPTConfig(vocab_size=self.vocabulary, hidden_size=self.width, word_embed_proj_dim=self.width, ffn_dim=3 * self.width,
                                      num_hidden_layers=self.layers, num_attention_heads=8, max_position_embeddings=max(2048, self.length), dropout=0.0)

    def likelihoods(self, tokens):
        with self.autocast():
            scores = self.model(input_ids=tokens, use_cache=False).logits[:, :-1]
        return -F.cross_entropy(scores.transpose(1, 2), tokens[:, 1:], reduction="none").float().sum(1)

    def loss(self, tokens):
        if len(tokens) == 1:
            tokens = tokens.expand(2, -1)
        half = len(tokens) // 2
        with torch.no_grad(), self.model.disable_adapter():
            before = self.likelihoods(tokens)
        moved = self.beta * (self.likelihoods(tokens) - before)
        return -F.logsigmoid(moved[:half] - moved[half:2 * half]).mean()


@job("chats", "chats", "generate")
class Chats(Generation):
    """Answers of StableLM to what people have typed; words that were said before become less likely."""

    def draw(self):
        super().draw()
        self.steps, self.new_tokens = self.rng.choice([1, 2, 3]), self.rng.choice([8, 12])
        self.generate_arguments = {"do_sample": False, "repetition_penalty": 1.1}

    def build(self):
        self.load(AutoModelForCausalLM, transformers.StableLmConfig(use_qkv_bias=False, **self.shape()))


@job("names_on_request", "names on request", "tokens", "layers", "attention")
class NamesOnRequest(Inference):
    """Who and what a text names: windows that overlap, a tag for each token, and the best of two where windows meet."""

    def draw(self):
        super().draw()
        self.length, self.size = self.rng.choice([512, 1024]), self.rng.choice([16, 32, 48])

    def build(self):
        self.load(AutoModelForTokenClassification, transformers.CamembertConfig(
            hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers, num_attention_heads=8, vocab_size=self.vocabulary,
            max_position_embeddings=1026 + self.length, pad_token_id=1, num_labels=17))

    def predict(self, tokens):
        wide = min(256, tokens.shape[1])
        windows = tokens.unfold(1, wide, max(1, wide * 3 // 4))
        tags = self.model(input_ids=windows.flatten(0, 1).contiguous()).logits
        return tags.unflatten(0, windows.shape[:2]).flatten(1, 2)

    def take(self, i, outputs):
        self.results.append(outputs.argmax(-1).cpu())


@job("student_with_trainer", "a student with a trainer", "trainer", "tokens", "decoder", "layers", "attention", "checkpointing", "states", "forward",
     "reference")
class StudentWithTrainer(TrainerJob):
    """Granite: compute_loss() asks a deeper, frozen model, too; the student says the same, softened, and the text."""

    def draw(self):
        super().draw()
        self.warm, self.length = self.rng.choice([1.0, 2.0]), self.rng.choice([256, 512])

    def config(self, times=1):
        return transformers.GraniteConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=2 * self.width, num_attention_heads=8,
                                          num_hidden_layers=times * self.layers, num_key_value_heads=4, max_position_embeddings=max(1024, self.length))

    def build(self):
        super().build()
        with torch.device(DEVICE):
            self.reference = AutoModelForCausalLM.from_config(self.config(2), attn_implementation="sdpa", dtype=torch.bfloat16).eval().requires_grad_(False)

    def reference_outputs(self, batch):
        with self.no_grad():
            return self.reference(input_ids=batch["input_ids"], use_cache=False).logits

    def loss(self, batch):
        wanted = self.reference_outputs(batch)
        out = self.trainer.model(input_ids=batch["input_ids"], labels=batch["labels"], use_cache=False)
        apart = F.kl_div((out.logits / self.warm).log_softmax(-1).flatten(0, 1), (wanted / self.warm).softmax(-1).flatten(0, 1), reduction="batchmean")
        return 0.5 * out.loss + 0.5 * self.warm ** 2 * apart

    def trainer_class(self, *arguments, **keys):
        own = self

        class Distiller(Trainer):
            """The job's own loss."""

            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                return own.loss(inputs)
        return Distiller(*arguments, **keys)

"""Jobs of language: instructions, code with holes, parallel blocks, replaced tokens, answers as spans, choices, nested vectors, layers distilled,
several tokens ahead, tags by adapters, summaries, completions, translations on request."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from peft import LoraConfig, get_peft_model
from torch.utils.checkpoint import checkpoint
from transformers import (AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForMultipleChoice, AutoModelForQuestionAnswering,
                          AutoModelForSeq2SeqLM,
                          AutoModelForTokenClassification)

from core import DEVICE, job
from jobs_adapters import Adapted
from jobs_inference import Generation
from jobs_transformers import Bert, CausalLM, Seq2Seq
from parts import TextLoop, cut


@job("instructions", "instruction tuning", "loop")
class Instructions(CausalLM):
    """Phi 3 on questions and answers; only the answers count."""
    vocabularies = 32064, 50000
    kinds = "adamw", "adamw_fused", "adafactor"

    def draw(self):
        super().draw()
        self.asked = self.rng.choice([3, 4])

    def config(self):
        return transformers.Phi3Config(num_key_value_heads=4, intermediate_size=2 * self.width, pad_token_id=0, bos_token_id=1, eos_token_id=2, **self.shape())

    def labels_of(self, tokens):
        labels = tokens.clone()
        labels[:, :tokens.shape[1] // self.asked] = -100
        return labels

    def loss(self, tokens):
        labels = self.labels_of(tokens)
        with self.autocast():
            logits = self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits
        counted = (labels[:, 1:] != -100).sum(1, keepdim=True).clamp(min=1)
        each = F.cross_entropy(logits[:, :-1].transpose(1, 2).float(), labels[:, 1:], reduction="none")
        return (each / counted).sum(1).mean()


@job("code_with_holes", "code with holes", "loop")
class CodeWithHoles(CausalLM):
    """StarCoder 2: the middle of a file comes last."""
    vocabularies = 24576, 49152
    precisions = "autocast", "bf16", "bf16"

    def config(self):
        return transformers.Starcoder2Config(num_key_value_heads=2, intermediate_size=4 * self.width, sliding_window=None, bos_token_id=1, eos_token_id=2,
                                             **self.shape())

    def batch(self, i):
        rows = super().batch(i)
        third = rows.shape[1] // 3
        head, middle, tail = rows.split([third, third, rows.shape[1] - 2 * third], dim=1)
        return torch.cat([head, tail, middle], dim=1) if i % 2 else rows


@job("parallel_blocks", "parallel blocks", "loop")
class ParallelBlocks(CausalLM):
    """GPT-NeoX, whose attention and feed-forward part read the same input; a small weight decay of logits."""
    vocabularies = 32000, 50304

    def config(self):
        return transformers.GPTNeoXConfig(intermediate_size=4 * self.width, use_parallel_residual=True, bos_token_id=0, eos_token_id=0, **self.shape())

    def loss(self, tokens):
        with self.autocast():
            logits = self.model(input_ids=tokens).logits[:, :-1]
        flat, wanted = logits.flatten(0, 1), tokens[:, 1:].flatten()
        return F.cross_entropy(flat.float(), wanted) + 1e-4 * flat[::8].float().logsumexp(-1).square().mean()


class Replaced(nn.Module):
    """A small model fills the holes, and a larger one tells which tokens are not those of the text."""

    def __init__(self, maker, checker, width):
        super().__init__()
        self.maker, self.checker, self.told = maker, checker, nn.Linear(width, 1)

    def forward(self, tokens):
        return self.told(self.checker(input_ids=tokens).last_hidden_state).squeeze(-1)


@job("replaced_tokens", "replaced tokens", "loop", "layers", "attention", "eval")
class ReplacedTokens(TextLoop):
    """ELECTRA of transformers; one optimizer for both of its models."""
    kinds = "adamw", "adamw_fused", "adam"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.attention = r.choice([3, 4, 6]), r.choice([384, 512, 768]), 30522, "sdpa"
        self.length, self.size = r.choice([128, 256, 512]), r.choice([8, 16, 24])
        self.choose()

    def config(self, width, layers):
        return transformers.ElectraConfig(vocab_size=self.vocabulary, hidden_size=width, embedding_size=width, intermediate_size=4 * width,
                                          num_hidden_layers=layers, num_attention_heads=8, max_position_embeddings=max(512, self.length))

    def build(self):
        with torch.device(DEVICE):
            maker = AutoModelForMaskedLM.from_config(self.config(self.width // 2, max(1, self.layers // 2)), attn_implementation=self.attention)
            checker = AutoModel.from_config(self.config(self.width, self.layers), attn_implementation=self.attention)
            self.finish(Replaced(maker, checker, self.width))

    def loss(self, tokens):
        holes = torch.arange(0, tokens.shape[1], 7, device=DEVICE)
        hidden = tokens.index_fill(1, holes, 103)
        with self.autocast():
            told = self.model.maker(input_ids=hidden).logits[:, holes]
            filled = tokens.index_copy(1, holes, told.detach().argmax(-1))
            odd = self.model(filled)
        lost = F.cross_entropy(told.flatten(0, 1).float(), tokens[:, holes].flatten())
        return lost + 50 * F.binary_cross_entropy_with_logits(odd.float(), (filled != tokens).float())


@job("spans_of_answers", "spans of answers", "loop", "eval")
class SpansOfAnswers(Bert):
    """DeBERTa finds where an answer begins and ends in a passage."""
    auto = AutoModelForQuestionAnswering
    kinds = "adamw", "adamw_fused", "adamw_loop"
    precisions = "fp32", "autocast"

    def draw(self):
        super().draw()
        self.layers, self.length, self.size = self.rng.choice([2, 3]), self.rng.choice([128, 256, 384]), self.rng.choice([4, 8])

    def build(self):
        with torch.device(DEVICE):
            model = self.auto.from_config(self.config(), dtype=self.dtype)
        if self.checkpointing:
            model.gradient_checkpointing_enable()
        model.train()
        self.finish(model)

    def config(self):
        return transformers.DebertaV2Config(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers,
                                            num_attention_heads=8, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=64,
                                            max_relative_positions=-1, max_position_embeddings=max(512, self.length))

    def predict(self, tokens):
        with self.autocast():
            return self.model(input_ids=tokens).start_logits

    def loss(self, tokens):
        with self.autocast():
            out = self.model(input_ids=tokens)
        where = torch.zeros(len(tokens), dtype=torch.long, device=DEVICE)
        return (F.cross_entropy(out.start_logits.float(), where) + F.cross_entropy(out.end_logits.float(), where)) / 2


SpansOfAnswers.traits = SpansOfAnswers.traits - {"attention"}  # its attention has one form


@job("choices", "choices", "loop", "eval")
class Choices(Bert):
    """RoBERTa and four endings of each story."""
    auto = AutoModelForMultipleChoice
    endings = 4

    def draw(self):
        super().draw()
        self.length, self.size = self.rng.choice([64, 128, 256]), self.rng.choice([8, 16])

    def config(self):
        return transformers.RobertaConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers,
                                          num_attention_heads=8, max_position_embeddings=self.length + 8, pad_token_id=1)

    def predict(self, tokens):
        with self.autocast():
            return self.model(input_ids=tokens.unflatten(0, (-1, self.endings))).logits

    def loss(self, tokens):
        rows = len(tokens) // self.endings * self.endings
        if not rows:
            tokens, rows = tokens[:1].expand(self.endings, -1), self.endings
        scores = self.predict(tokens[:rows]).float()
        return F.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long, device=DEVICE))


class Pooled(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, tokens):
        mask = torch.ones_like(tokens)
        hidden = self.encoder(input_ids=tokens, attention_mask=mask).last_hidden_state
        return (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def nested_loss(left, right, widths):
    """The first numbers of each vector have to tell pairs apart, too."""
    total = 0.0
    for width in widths:
        a, b = (F.normalize(t[:, :width], dim=-1) for t in (left, right))
        total = total + F.cross_entropy(a @ b.T * 20, torch.arange(len(a), device=a.device))
    return total / len(widths)


@job("nested_vectors", "nested vectors", "loop", "layers", "attention", "eval")
class NestedVectors(TextLoop):
    """Pairs of sentences, by vectors of which each beginning is a vector."""

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.attention = r.choice([3, 4, 6]), r.choice([384, 768]), r.choice([30522, 50265]), "sdpa"
        self.length, self.size = r.choice([64, 128, 256]), r.choice([16, 32, 64])
        self.choose()

    def build(self):
        config = transformers.XLMRobertaConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=4 * self.width,
                                               num_hidden_layers=self.layers, num_attention_heads=8, max_position_embeddings=self.length + 8, pad_token_id=1)
        with torch.device(DEVICE):
            self.finish(Pooled(AutoModel.from_config(config, attn_implementation=self.attention, add_pooling_layer=False)))

    def loss(self, tokens):
        left, right = self.predict(tokens).float(), self.predict(tokens.flip(1)).float()
        return nested_loss(left, right, [self.width, self.width // 2, self.width // 4])


@job("layers_distilled", "layers distilled", "loop", "reference", "eval")
class LayersDistilled(Bert):
    """A small encoder learns each layer of a deeper one, through a projection, and its masked words."""
    auto = AutoModelForMaskedLM
    kinds = "adamw", "adamw_fused"

    def draw(self):
        super().draw()
        self.layers, self.size = self.rng.choice([2, 3]), self.rng.choice([8, 16])

    def config(self):
        config = super().config()
        config.output_hidden_states = True
        return config

    def build(self):
        small = self.config()
        teacher = transformers.BertConfig(**{**small.to_dict(), "num_hidden_layers": 2 * self.layers, "hidden_size": 768, "intermediate_size": 3072,
                                             "num_attention_heads": 12})
        with torch.device(DEVICE):
            self.reference = AutoModelForMaskedLM.from_config(teacher, attn_implementation=self.attention, dtype=self.dtype).eval().requires_grad_(False)
            self.up = nn.Linear(self.width, 768).to(self.dtype)
        super().build()
        self.optimizers[0].add_param_group({"params": list(self.up.parameters())})

    def reference_outputs(self, tokens):
        with self.no_grad(), self.autocast():
            out = self.reference(input_ids=tokens)
            return out.hidden_states[2::2], out.logits[:, ::7]

    def loss(self, tokens):
        states, words = self.reference_outputs(tokens)
        with self.autocast():
            out = self.model(input_ids=tokens)
            apart = sum(F.mse_loss(self.up(mine), theirs) for mine, theirs in zip(out.hidden_states[1:], states))
        return apart + F.kl_div(out.logits[:, ::7].float().log_softmax(-1), words.float().softmax(-1), reduction="batchmean")


class Ahead(nn.Module):
    """A trunk, and for each of the next tokens a layer of its own in front of the same head."""

    def __init__(self, o):
        super().__init__()
        def layer():
            return nn.TransformerEncoderLayer(o.width, 8, 4 * o.width, dropout=0.0, batch_first=True, norm_first=True)
        self.embed, self.place = nn.Embedding(o.vocabulary, o.width), nn.Embedding(o.longest, o.width)
        self.trunk, self.next = nn.ModuleList(layer() for _ in range(o.layers)), nn.ModuleList(layer() for _ in range(o.ahead))
        self.norm, self.head = nn.LayerNorm(o.width), nn.Linear(o.width, o.vocabulary, bias=False)

    def hidden(self, tokens):
        n = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(n, device=tokens.device)
        x = self.embed(tokens) + self.place(torch.arange(n, device=tokens.device))
        for layer in self.trunk:
            x = layer(x, src_mask=mask.to(x.dtype), is_causal=True)
        return x, mask.to(x.dtype)

    def forward(self, tokens, k=0):
        x, mask = self.hidden(tokens)
        return self.head(self.norm(self.next[k](x, src_mask=mask, is_causal=True)))


@job("tokens_ahead", "several tokens ahead", "loop", "decoder", "layers", "eval", "crop")
class TokensAhead(TextLoop):
    """The next tokens are told at each place; each head's scores are made, and made again in the backward pass, one after the other."""
    longest, accumulated = 2048, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.ahead = r.choice([2, 3]), r.choice([512, 768]), r.choice([16000, 32000]), r.choice([2, 3])
        self.length, self.size = r.choice([256, 512]), r.choice([2, 4, 8])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Ahead(self))

    def one(self, layer, x, mask, wanted):
        with self.autocast():
            logits = self.model.head(self.model.norm(layer(x, src_mask=mask, is_causal=True)))
        return F.cross_entropy(logits[:, :wanted.shape[1]].flatten(0, 1).float(), wanted.flatten())

    def loss(self, tokens):
        with self.autocast():
            x, mask = self.model.hidden(tokens)
        return sum(checkpoint(self.one, layer, x, mask, tokens[:, k + 1:], use_reentrant=False) for k, layer in enumerate(self.model.next)) / self.ahead

    def batch(self, i):
        return cut(self.dataset, i, self.size)[:, :self.length]


@job("tags_by_adapters", "tags by adapters", "loop")
class TagsByAdapters(Adapted):
    """A tag for each token, by adapters in an encoder."""

    def draw(self):
        super().draw()
        self.lora.update(task_type="TOKEN_CLS", use_rslora=True, target_modules=self.rng.choice([["query", "value"], ["query", "key", "value", "dense"]]))
        self.vocabulary = self.rng.choice([32000, 64000])

    def base(self):
        config = transformers.RobertaConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers,
                                            num_attention_heads=8, max_position_embeddings=self.length + 8, pad_token_id=1, num_labels=9)
        with torch.device(DEVICE):
            return AutoModelForTokenClassification.from_config(config, attn_implementation=self.attention, dtype=self.dtype)

    def freeze(self):
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad = "lora_" in name or "classifier" in name

    def build(self):
        base = self.base()
        if self.checkpointing:
            base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            base.enable_input_require_grads()
        self.model = get_peft_model(base, LoraConfig(**self.lora)).requires_grad_(True)
        self.freeze()
        self.finish(self.model)

    def loss(self, tokens):
        scores = self.predict(tokens).float()
        return F.cross_entropy(scores.flatten(0, 1), torch.zeros(tokens.numel(), dtype=torch.long, device=DEVICE))


@job("summaries", "summaries", "loop", "eval")
class Summaries(Seq2Seq):
    """PEGASUS on long reports; smoothed labels, and the decoder's inputs shifted by hand."""
    precisions = "fp32", "autocast", "autocast"

    def draw(self):
        super().draw()
        self.length, self.size, self.target_length = self.rng.choice([512, 1024]), self.rng.choice([2, 4]), self.rng.choice([96, 160])

    def config(self):
        return transformers.PegasusConfig(d_model=self.width, encoder_layers=self.layers, decoder_layers=self.layers, encoder_attention_heads=8,
                                          decoder_attention_heads=8, encoder_ffn_dim=4 * self.width, decoder_ffn_dim=4 * self.width, vocab_size=self.vocabulary,
                                          max_position_embeddings=max(1024, self.length), scale_embedding=True)

    def loss(self, tokens):
        told = tokens[:, :self.target_length]
        with self.autocast():
            logits = self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens), decoder_input_ids=F.pad(told[:, :-1], (1, 0))).logits
        return F.cross_entropy(logits.flatten(0, 1).float(), told.flatten(), label_smoothing=0.1)


@job("completions", "completions", "generate")
class Completions(Generation):
    """An editor's requests, with the file as the prompt, some at a time."""

    def draw(self):
        super().draw()
        self.steps, self.prompt, self.vocabulary, self.new_tokens = self.rng.choice([2, 3]), self.rng.choice([256, 512]), self.rng.choice([24576, 49152]), 8

    def build(self):
        self.load(AutoModelForCausalLM, transformers.Starcoder2Config(sliding_window=None, **self.shape()))

    def take(self, i, outputs):
        self.results.extend(outputs[:, -self.new_tokens:].tolist())


@job("translations_on_request", "translations on request", "generate")
class TranslationsOnRequest(Generation):
    """Sentences are encoded once, and told in another language with a cache of both kinds."""

    def draw(self):
        super().draw()
        self.layers, self.steps, self.new_tokens, self.vocabulary = 2, self.rng.choice([1, 2]), 6, 32000
        self.prompt, self.size = self.rng.choice([256, 512]), self.rng.choice([64, 128])

    def build(self):
        with torch.device(DEVICE):
            self.model = AutoModelForSeq2SeqLM.from_config(transformers.M2M100Config(
                d_model=self.width, encoder_layers=self.layers, decoder_layers=self.layers, encoder_attention_heads=8, decoder_attention_heads=8,
                encoder_ffn_dim=4 * self.width, decoder_ffn_dim=4 * self.width, vocab_size=self.vocabulary, max_position_embeddings=4096,
                decoder_start_token_id=0, pad_token_id=0, bos_token_id=1, eos_token_id=2, forced_eos_token_id=None),
                dtype=self.dtype, attn_implementation=self.attention).eval()

    def take(self, i, outputs):
        self.results.append(outputs.cpu())


TranslationsOnRequest.traits = TranslationsOnRequest.traits - {"decoder"}

"""Jobs of language: code with one key, scaled logits, forms with boxes, paraphrases that agree, activations rescaled, products of small matrices, likes and
dislikes, rewards of steps, the best of many, guided words, an observer and a performer."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from peft import IA3Config, LoKrConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoModelForTokenClassification

from core import DEVICE, job
from jobs_adapters import Adapted
from jobs_inference import Generation, Inference
from jobs_transformers import Bert, CausalLM, FromConfig, Seq2Seq
from parts import cut

IGNORED = -100


def next_words(logits, tokens, weights=None):
    """The mean loss of what follows, with a weight for each row."""
    each = F.cross_entropy(logits[:, :-1].transpose(1, 2).float(), tokens[:, 1:], reduction="none")
    return each.mean() if weights is None else (each.mean(1) * weights).sum() / weights.sum()


@job("one_key", "code with one key", "loop")
class OneKey(CausalLM):
    """GPT BigCode: all heads share one key and one value; files of rare languages weigh more."""
    vocabularies = 24576, 32000, 49152
    kinds = "adamw", "adamw_fused", "adafactor"

    def config(self):
        return transformers.GPTBigCodeConfig(n_layer=self.layers, n_embd=self.width, n_head=self.heads, n_inner=4 * self.width, vocab_size=self.vocabulary,
                                             n_positions=self.length, multi_query=True)

    def make_dataset(self):
        rare = torch.tensor([1.0, 1.0, 0.5, 2.0]).repeat(self.rows // 4)
        return *super().make_dataset(), rare

    def predict(self, batch):
        return super().predict(batch[0])

    def loss(self, batch):
        tokens, rare = batch
        return next_words(self.predict(batch), tokens, rare)


@job("scaled_logits", "scaled logits", "loop")
class ScaledLogits(CausalLM):
    """Cohere's decoder: attention and the feed-forward part side by side, logits that are scaled, and the logarithm of their sum kept small."""
    vocabularies = 32000, 64000, 128000
    accumulated = 1, 1, 2

    def draw(self):
        super().draw()
        self.small = self.rng.choice([1e-4, 1e-3])

    def config(self):
        return transformers.CohereConfig(num_key_value_heads=4, intermediate_size=3 * self.width, logit_scale=0.0625, pad_token_id=0, bos_token_id=1,
                                         eos_token_id=2, **self.shape())

    def loss(self, tokens):
        with self.autocast():
            logits = self.model(input_ids=tokens, use_cache=False).logits
        words = next_words(logits, tokens)
        return words + self.small * logits.logsumexp(-1).float().square().mean()


@job("forms", "forms with boxes", "loop", "eval")
class Forms(FromConfig):
    """LayoutLM reads scanned forms: each word with the box that it stands in, and what kind of field it belongs to."""
    auto = AutoModelForTokenClassification
    precisions = "fp32", "autocast", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.fields = r.choice([3, 4, 6]), r.choice([384, 512, 768]), 30522, 13
        self.length, self.size = r.choice([256, 512]), r.choice([8, 12, 16])
        self.choose()

    def config(self):
        return transformers.LayoutLMConfig(hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
                                           vocab_size=self.vocabulary, max_position_embeddings=max(512, self.length), num_labels=self.fields)

    def make_dataset(self):
        words = torch.randint(self.vocabulary, (1, self.length)).expand(self.rows, -1).clone()
        left = torch.arange(self.length) * 700 // self.length
        boxes = torch.stack([left, left, left + 90, left + 20], dim=1).expand(self.rows, -1, -1).clone()
        return words, boxes, (words % self.fields)

    def predict(self, batch):
        words, boxes = batch[:2]
        with self.autocast():
            return self.model(input_ids=words, bbox=boxes).logits

    def loss(self, batch):
        told = self.predict(batch).float()
        return F.cross_entropy(told.flatten(0, 1), batch[2].flatten(), label_smoothing=0.05)


def apart(p, q):
    """How far two distributions over words are apart, both ways."""
    p, q = p.float().log_softmax(-1), q.float().log_softmax(-1)
    return 0.5 * (F.kl_div(p, q, log_target=True, reduction="batchmean") + F.kl_div(q, p, log_target=True, reduction="batchmean"))


@job("paraphrases", "paraphrases that agree", "loop", "eval")
class Paraphrases(Seq2Seq):
    """Marian on sentences said in other words; each batch passes twice with other dropout, and both have to say the same."""

    def draw(self):
        super().draw()
        self.vocabulary, self.length, self.target_length, self.much = 16000, self.rng.choice([128, 256]), 64, self.rng.choice([0.5, 1.0])

    def config(self):
        return transformers.MarianConfig(d_model=self.width, encoder_layers=self.layers, decoder_layers=self.layers, encoder_attention_heads=self.heads,
                                         decoder_attention_heads=self.heads, encoder_ffn_dim=4 * self.width, decoder_ffn_dim=4 * self.width, dropout=0.1,
                                         vocab_size=self.vocabulary, max_position_embeddings=max(512, self.length), pad_token_id=0, decoder_start_token_id=0)

    def loss(self, tokens):
        wanted = tokens[:, :self.target_length].contiguous()
        both = torch.cat([tokens, tokens])
        with self.autocast():
            logits = self.model(input_ids=both, decoder_input_ids=F.pad(wanted, (1, 0))[:, :-1].repeat(2, 1)).logits
        first, second = logits.chunk(2)
        words = F.cross_entropy(logits.flatten(0, 1).float(), wanted.repeat(2, 1).flatten())
        return words + self.much * apart(first, second) / wanted.shape[1]


class OtherAdapters(Adapted):
    """Adapters of another kind than low-rank ones, which adapter() makes."""

    def adapter(self):
        raise NotImplementedError

    def freeze(self):
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad = self.marks in name or "score" in name

    def build(self):
        base = self.base()
        base.config.use_cache = False
        if self.checkpointing:
            base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            base.enable_input_require_grads()
        self.model = get_peft_model(base, self.adapter())
        self.freeze()
        self.finish(self.model)


@job("rescaled", "activations rescaled", "loop", "decoder")
class Rescaled(OtherAdapters):
    """IA3: some vectors stretch keys, values and what is between the layers of a frozen Phi."""
    marks = "ia3_"

    def config(self):
        return transformers.PhiConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers,
                                      num_attention_heads=8, max_position_embeddings=max(2048, self.length))

    def adapter(self):
        return IA3Config(task_type="CAUSAL_LM", target_modules=["k_proj", "v_proj", "fc2"], feedforward_modules=["fc2"])


@job("small_products", "products of small matrices", "loop")
class SmallProducts(OtherAdapters):
    """LoKr in an encoder, ERNIE, which tells how somebody means a sentence; the change of each matrix is a product of small ones."""
    marks = "lokr_"
    precisions = "fp32", "autocast"

    def draw(self):
        super().draw()
        self.vocabulary, self.length, self.size = 30522, self.rng.choice([128, 256]), self.rng.choice([8, 16, 32])
        self.width, self.moods = self.rng.choice([512, 768]), 27

    def base(self):
        config = transformers.ErnieConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers,
                                          num_attention_heads=8, max_position_embeddings=max(512, self.length), num_labels=self.moods)
        with torch.device(DEVICE):
            return AutoModelForSequenceClassification.from_config(config, attn_implementation=self.attention, dtype=self.dtype)

    def freeze(self):
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad = self.marks in name or "classifier" in name

    def adapter(self):
        return LoKrConfig(r=self.lora["r"], alpha=16, target_modules=["query", "value"], modules_to_save=["classifier"])

    def loss(self, tokens):
        scores = self.predict(tokens).float()
        return F.binary_cross_entropy_with_logits(scores, torch.full_like(scores, 0.1))


@job("likes", "likes and dislikes", "loop", "reference")
class Likes(CausalLM):
    """Answers that somebody liked, and others that somebody did not, not in pairs: each against how far the policy has moved in the mean."""
    kinds = "adamw", "adamw_fused", "adafactor"

    def draw(self):
        super().draw()
        self.beta, self.size = self.rng.choice([0.1, 0.2]), self.rng.choice([4, 8])

    def config(self):
        return transformers.HeliumConfig(num_key_value_heads=self.heads, head_dim=self.width // 8, intermediate_size=2 * self.width, pad_token_id=0,
                                         bos_token_id=1, eos_token_id=2, **self.shape())

    def finish(self, model):
        super().finish(model)
        self.reference = copy.deepcopy(self.model).eval().requires_grad_(False)

    def reference_outputs(self, tokens):
        with self.no_grad(), self.autocast():
            return self.reference(input_ids=tokens, use_cache=False).logits

    def likelihoods(self, logits, tokens):
        chosen = logits[:, :-1].gather(2, tokens[:, 1:, None]).squeeze(2)
        return (chosen - logits[:, :-1].logsumexp(-1)).float().sum(1)

    def loss(self, tokens):
        before = self.likelihoods(self.reference_outputs(tokens), tokens)
        moved = self.likelihoods(self.predict(tokens), tokens) - before
        liked = torch.where(torch.arange(len(moved), device=DEVICE) % 2 == 0, 1.0, -1.0)
        return (1 - torch.sigmoid(self.beta * liked * (moved - moved.mean().detach().clamp(min=0)))).mean()


@job("steps_of_proofs", "rewards of steps", "loop", "eval")
class StepsOfProofs(FromConfig):
    """Whether each step of a solution is right: a score at the end of every step, from a decoder with a head of two kinds."""
    auto = AutoModelForTokenClassification

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.each = r.choice([3, 4, 6]), r.choice([768, 1024]), r.choice([16000, 32000]), r.choice([16, 32])
        self.length, self.size = r.choice([512, 1024]), r.choice([4, 8])
        self.choose()

    def config(self):
        return transformers.Qwen2Config(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers,
                                        num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=max(1024, self.length), num_labels=2)

    def loss(self, tokens):
        labels = torch.full_like(tokens, IGNORED)
        labels[:, self.each - 1::self.each] = 1
        scores = self.predict(tokens).float()
        return F.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)


@job("best_of_many", "the best of many", "loop")
class BestOfMany(CausalLM):
    """A policy continues its prompts several times; a checker on the host says which ones are right, and the policy learns those."""
    kinds = "adamw", "adamw_fused"
    vocabularies = 16000, 32000
    told = 4

    def draw(self):
        super().draw()
        self.layers, self.many, self.length = self.rng.choice([2, 3, 4]), self.rng.choice([2, 3]), self.rng.choice([256, 512])
        self.checkpointing = False

    def config(self):
        return transformers.SmolLM3Config(num_key_value_heads=4, intermediate_size=3 * self.width, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                          **{**self.shape(), "max_position_embeddings": self.length + 64})

    @torch.no_grad()
    def continued(self, prompts):
        """One token after the other, by chance."""
        self.model.eval()
        with self.autocast():
            out = self.model(input_ids=prompts, use_cache=True, logits_to_keep=1)
            for _ in range(self.told):
                word = out.logits[:, -1].float().softmax(-1).argmax(-1, keepdim=True)
                prompts = torch.cat([prompts, word], dim=1)
                out = self.model(input_ids=word, past_key_values=out.past_key_values, use_cache=True)
        self.model.train()
        return prompts

    def batch(self, i):
        prompts = cut(self.dataset, i, self.size)
        told = torch.cat([self.continued(prompts).cpu() for _ in range(self.many)])
        right = sorted(range(len(told)), key=lambda n: (n * 7 + i) % len(told))[:len(prompts)]
        return told[right].to(DEVICE)

    def loss(self, tokens):
        labels = tokens.clone()
        labels[:, :tokens.shape[1] // 2] = IGNORED
        with self.autocast():
            return self.model(input_ids=tokens, labels=labels, use_cache=False).loss


@job("guided_words", "guided words", "generate")
class GuidedWords(Generation):
    """Two rows for each text, one of which lacks what it should be about; the difference of both guides the next word."""

    def draw(self):
        super().draw()
        self.steps, self.new_tokens, self.prompt, self.guide = self.rng.choice([1, 2]), 8, self.rng.choice([256, 512]), self.rng.choice([1.5, 3.0])

    def build(self):
        self.load(AutoModelForCausalLM, transformers.GlmConfig(head_dim=self.width // self.heads, pad_token_id=0, **self.shape()))

    def guided(self, out):
        about, without = out.logits[:, -1].float().log_softmax(-1).chunk(2)
        return (without + self.guide * (about - without)).argmax(-1, keepdim=True)

    def predict(self, input_ids):
        both = torch.cat([input_ids, input_ids.roll(1, 1)])
        out = self.model(input_ids=both, use_cache=True, logits_to_keep=1)
        told = [self.guided(out)]
        for _ in range(self.new_tokens - 1):
            out = self.model(input_ids=told[-1].repeat(2, 1), past_key_values=out.past_key_values, use_cache=True)
            told.append(self.guided(out))
        return torch.cat([input_ids, *told], dim=1)


@job("observer_and_performer", "observer and performer", "tokens", "decoder", "layers", "attention")
class ObserverAndPerformer(Inference):
    """Who wrote a text: how surprised one model is, over how surprised it is by what another one would say."""

    def draw(self):
        super().draw()
        self.size, self.vocabulary, self.layers = self.rng.choice([4, 8]), self.rng.choice([16000, 32000]), self.rng.choice([2, 3, 4])

    def build(self):
        config = transformers.NemotronConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=2 * self.width,
                                             num_hidden_layers=self.layers, num_attention_heads=8, num_key_value_heads=4,
                                             max_position_embeddings=max(1024, self.length))
        self.load(AutoModelForCausalLM, config)
        self.observer = self.model
        self.load(AutoModelForCausalLM, config)

    def surprise(self, logits, tokens):
        return F.cross_entropy(logits[:, :-1].transpose(1, 2), tokens[:, 1:], reduction="none").float().mean(1)

    def predict(self, tokens):
        seen, said = (m(input_ids=tokens, use_cache=False).logits for m in (self.observer, self.model))
        crossed = torch.stack([-(s.softmax(-1) * o.log_softmax(-1)).sum(-1).mean() for o, s in zip(seen, said)])
        return self.surprise(said, tokens) / crossed.clamp(min=1e-3)

    def take(self, i, outputs):
        self.results.extend(outputs.float().cpu().tolist())


@job("words_that_are_wrong", "words that are wrong", "loop", "eval")
class WordsThatAreWrong(Bert):
    """RoBERTa with norms before each layer marks words that somebody got wrong, and says what they should be; two losses of one pass."""
    auto = AutoModelForMaskedLM

    def config(self):
        return transformers.RobertaPreLayerNormConfig(hidden_size=self.width, num_hidden_layers=self.layers, num_attention_heads=self.heads,
                                                      intermediate_size=4 * self.width, vocab_size=self.vocabulary, max_position_embeddings=2050,
                                                      pad_token_id=1, output_hidden_states=True)

    def finish(self, model):
        model.marks = nn.Linear(self.width, 1, device=DEVICE, dtype=self.dtype)
        super().finish(model)

    def loss(self, tokens):
        wrong = (torch.arange(tokens.shape[1], device=DEVICE) % 9 == 4).expand_as(tokens)
        with self.autocast():
            out = self.model(input_ids=tokens.masked_fill(wrong, 11))
            marks = self.model.marks(out.hidden_states[-1]).squeeze(-1)
        found = F.binary_cross_entropy_with_logits(marks.float(), wrong.float())
        places = torch.arange(4, tokens.shape[1], 9, device=DEVICE)
        return found + F.cross_entropy(out.logits.index_select(1, places).flatten(0, 1).float(), tokens.index_select(1, places).flatten())

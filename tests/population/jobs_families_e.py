"""Jobs after pretraining: packed documents, odds of two answers, a policy with its critic, long texts, distillation of the student's own answers,
late interaction, experts of transformers, benchmarks."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from torch.utils.checkpoint import checkpoint
from transformers import AutoModel, AutoModelForCausalLM

from core import DEVICE, job
from jobs_families_c_text import llama
from jobs_inference import Inference
from jobs_transformers import CausalLM
from parts import TextLoop


def told_tokens(logits, tokens):
    """The log-probability of each token after the first."""
    logits = logits[:, :-1]
    return logits.gather(-1, tokens[:, 1:, None]).squeeze(-1).float() - logits.float().logsumexp(-1)


@job("packed_documents", "sequence packing", "loop")
class PackedDocuments(CausalLM):
    """Rows are filled with whole documents, whose positions begin anew with each."""
    vocabularies = 32000, 64000
    kinds = "adamw", "adamw_fused", "adamw_loop"
    precisions = "autocast", "autocast", "bf16"

    def draw(self):
        super().draw()
        self.length, self.size, self.document = self.rng.choice([1024, 2048]), self.rng.choice([1, 2, 4]), self.rng.choice([128, 256])

    def config(self):
        return transformers.Qwen2Config(num_key_value_heads=2, intermediate_size=self.width * 3, **self.shape())

    def positions(self, tokens):
        return (torch.arange(tokens.shape[1], device=DEVICE) % self.document).expand(len(tokens), -1)

    def predict(self, tokens):
        with self.autocast():
            return self.model(input_ids=tokens, position_ids=self.positions(tokens)).logits

    def loss(self, tokens):
        labels = tokens.masked_fill(self.positions(tokens) == 0, -100)
        with self.autocast():
            return self.model(input_ids=tokens, position_ids=self.positions(tokens), labels=labels).loss


@job("odds_of_answers", "odds of answers", "loop")
class OddsOfAnswers(CausalLM):
    """The better and the worse answer as one batch; the odds of the two, and the likelihood of the better one, without a reference."""
    vocabularies = 32000, 49152
    kinds = "adamw", "adamw_fused", "adafactor"
    precisions = "autocast", "bf16"

    def config(self):
        return transformers.MistralConfig(num_key_value_heads=2, intermediate_size=self.width * 3, sliding_window=None, **self.shape())

    def draw(self):
        super().draw()
        self.size = self.rng.choice([2, 4])

    def loss(self, tokens):
        both = torch.cat([tokens, tokens.flip(0)])
        with self.autocast():
            told = told_tokens(self.model(input_ids=both, attention_mask=torch.ones_like(both)).logits, both)
        better, worse = told.mean(1).clamp(max=-1e-4).chunk(2)
        odds = (better - worse) - (torch.log1p(-better.exp()) - torch.log1p(-worse.exp()))
        return -better.mean() - 0.1 * F.logsigmoid(odds).mean()


class PolicyAndCritic(nn.Module):
    def __init__(self, policy, critic, width):
        super().__init__()
        self.policy, self.critic, self.score = policy, critic, nn.Linear(width, 1)

    def forward(self, texts):
        return self.policy(input_ids=texts).logits, self.score(self.critic(input_ids=texts).last_hidden_state).squeeze(-1)


@job("policy_and_critic", "policy and critic", "loop", "decoder", "layers", "attention", "tokens", "reference")
class PolicyWithCritic(TextLoop):
    """Answers are sampled, a reward model scores them, a reference keeps the policy near, and a critic tells what each token is worth."""
    kinds = "adamw", "adamw_fused"
    precisions = "autocast", "bf16", "bf16"
    accumulated = 1, 1, 2

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([2, 3]), r.choice([512, 768]), r.choice([16000, 32000])
        self.length, self.answer, self.size, self.attention = r.choice([192, 320]), r.choice([4, 6]), r.choice([8, 16]), "sdpa"
        self.choose()
        self.steps = 3

    def backbone(self):
        config = transformers.LlamaConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers,
                                          num_attention_heads=8, num_key_value_heads=4, use_cache=False)
        with torch.device(DEVICE):
            return AutoModel.from_config(config, attn_implementation=self.attention, dtype=self.dtype)

    def build(self):
        reference = llama(self, self.layers, self.width, self.vocabulary, self.dtype)
        self.reference = nn.ModuleDict({"policy": reference, "reward": self.backbone()}).eval().requires_grad_(False)
        with torch.device(DEVICE):
            self.finish(PolicyAndCritic(llama(self, self.layers, self.width, self.vocabulary), self.backbone(), self.width))

    def batch(self, i):
        questions = super().batch(i)
        self.model.eval()
        with torch.no_grad(), self.autocast():
            texts = self.model.policy.generate(questions, attention_mask=torch.ones_like(questions), max_new_tokens=self.answer, min_new_tokens=self.answer,
                                               pad_token_id=0, do_sample=True, use_cache=True)
        self.model.train()
        return texts

    def reference_outputs(self, texts):
        with self.no_grad(), self.autocast():
            told = told_tokens(self.reference["policy"](input_ids=texts).logits, texts)
            return told[:, -self.answer:], self.reference["reward"](input_ids=texts).last_hidden_state[:, -1].mean(-1)

    def loss(self, texts):
        before, reward = self.reference_outputs(texts)
        with self.autocast():
            logits, worth = self.model(texts)
        now, worth = told_tokens(logits, texts)[:, -self.answer:], worth[:, -self.answer - 1:-1].float()
        wanted = reward[:, None].float() - 0.05 * (now.detach() - before)
        ratio = (now - now.detach()).exp()
        return -(ratio * (wanted - worth.detach())).mean() + 0.5 * F.mse_loss(worth, wanted)


@job("long_texts", "long context", "loop")
class LongTexts(CausalLM):
    """One long text at a time, whose loss is computed in parts."""
    kinds = "adamw", "adamw_fused", "adafactor"
    precisions = "autocast", "bf16", "bf16"
    vocabularies = 32000, 64000

    def draw(self):
        super().draw()
        self.length, self.size, self.part, self.checkpointing = self.rng.choice([2048, 3072, 4096]), 1, 512, self.rng.random() < 0.6

    def config(self):
        return transformers.LlamaConfig(num_key_value_heads=2, intermediate_size=self.width * 3, rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0},
                                        **self.shape())

    def part_loss(self, hidden, wanted):
        return F.cross_entropy(self.model.lm_head(hidden).flatten(0, 1).float(), wanted.flatten(), reduction="sum")

    def predict(self, tokens):
        with self.autocast():
            return self.model(input_ids=tokens, logits_to_keep=64).logits

    def loss(self, tokens):
        with self.autocast():
            hidden = self.model.model(input_ids=tokens).last_hidden_state
            parts = zip(hidden[:, :-1].split(self.part, dim=1), tokens[:, 1:].split(self.part, dim=1))
            return sum(checkpoint(self.part_loss, h, t, use_reentrant=False) for h, t in parts) / tokens.numel()


@job("own_answers_distilled", "on-policy distillation", "loop", "reference")
class OwnAnswersDistilled(CausalLM):
    """The student writes, and a larger teacher says of each token how likely each other one would have been."""
    kinds = "adamw", "adamw_fused"
    precisions = "autocast", "bf16"
    vocabularies = 16000, 32000
    accumulated = 1, 1, 2

    def draw(self):
        super().draw()
        self.layers, self.answer, self.length, self.size, self.steps = self.rng.choice([2, 3]), 4, self.rng.choice([128, 256]), self.rng.choice([4, 8]), 3

    def config(self):
        return transformers.Qwen3Config(num_key_value_heads=4, head_dim=self.width // 8, intermediate_size=self.width * 3, **{**self.shape(), "max_position_embeddings": 4096})

    def build(self):
        self.reference = llama(self, 2 * self.layers, self.width, self.vocabulary, self.dtype).eval().requires_grad_(False)
        super().build()

    def batch(self, i):
        asked = super().batch(i)
        self.model.eval()
        with torch.no_grad(), self.autocast():
            texts = self.model.generate(asked, attention_mask=torch.ones_like(asked), max_new_tokens=self.answer, min_new_tokens=self.answer, pad_token_id=0,
                                        do_sample=True, use_cache=True)
        self.model.train()
        return texts

    def reference_outputs(self, texts):
        with self.no_grad(), self.autocast():
            return self.reference(input_ids=texts, use_cache=False).logits[:, :-1]

    def loss(self, texts):
        with self.autocast():
            student = F.log_softmax(self.model(input_ids=texts, use_cache=False).logits[:, :-1], dim=-1)
        teacher = F.log_softmax(self.reference_outputs(texts), dim=-1)
        return F.kl_div(student, teacher, reduction="none", log_target=True).sum(-1).float().mean()


class TokenVectors(nn.Module):
    def __init__(self, encoder, width):
        super().__init__()
        self.encoder, self.project = encoder, nn.Linear(width, 128, bias=False)

    def forward(self, tokens):
        return F.normalize(self.project(self.encoder(input_ids=tokens, attention_mask=torch.ones_like(tokens)).last_hidden_state), dim=-1)


@job("late_interaction", "late interaction", "loop", "layers", "attention", "eval")
class LateInteraction(TextLoop):
    """Each token of a question finds its best token of a passage; the right passage against those of the batch and two hard ones."""
    rows = 128

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.attention = r.choice([2, 3, 4]), r.choice([384, 512, 768]), 30522, "sdpa"
        self.length, self.asked, self.size = r.choice([128, 180, 256]), 32, r.choice([12, 24, 48])
        self.choose()

    def build(self):
        config = transformers.ModernBertConfig(hidden_size=self.width, intermediate_size=2 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
                                               vocab_size=self.vocabulary, max_position_embeddings=1024, pad_token_id=0)
        with torch.device(DEVICE):
            self.finish(TokenVectors(AutoModel.from_config(config, attn_implementation=self.attention), self.width))

    def predict(self, tokens):
        with self.autocast():
            return self.model(tokens)

    def loss(self, tokens):
        passages, asked = self.predict(tokens), self.predict(tokens[::3, :self.asked])
        scores = torch.einsum("qid,pjd->qpij", asked, passages).amax(-1).sum(-1)
        return F.cross_entropy(scores.float() / 0.05, 3 * torch.arange(len(asked), device=DEVICE))


@job("experts_of_transformers", "experts of transformers", "loop")
class ExpertsOfTransformers(CausalLM):
    """A sparse mixture of experts as transformers has it."""
    kinds = "adamw", "adamw_fused", "adamw_loop", "adafactor"

    def draw(self):
        super().draw()
        self.layers, self.width, self.experts, self.active = self.rng.choice([2, 3]), self.rng.choice([512, 768]), self.rng.choice([4, 8]), 2

    def config(self):
        return transformers.MixtralConfig(num_key_value_heads=2, intermediate_size=self.width, num_local_experts=self.experts, num_experts_per_tok=self.active,
                                          output_router_logits=True, **self.shape())


@job("benchmark", "benchmarks", "tokens", "decoder", "layers", "attention")
class Benchmark(Inference):
    """How likely each of four endings is, question by question."""

    def draw(self):
        super().draw()
        self.size, self.vocabulary = self.rng.choice([4, 8, 16]), self.rng.choice([32000, 64000])

    def build(self):
        self.load(AutoModelForCausalLM, transformers.Qwen2Config(
            vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
            num_key_value_heads=2, max_position_embeddings=2048))

    def predict(self, endings):
        return F.log_softmax(self.model(input_ids=endings, use_cache=False).logits[:, -32:], dim=-1, dtype=torch.float32)

    def take(self, i, outputs):
        self.results.append(outputs.amax(-1).sum(-1).unflatten(0, (-1, 4)).argmax(-1).tolist())

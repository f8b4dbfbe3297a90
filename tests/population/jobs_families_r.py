"""Jobs of language: a bias for distance, gradients in a small room, a few new words, numbers as words, minutes on request, insults with a trainer."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from peft import TrainableTokensConfig, get_peft_model
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification, Trainer, TrainingArguments

from core import DEVICE, job
from jobs_adapters import Adapted
from jobs_inference import Generation
from jobs_trainers import OUTPUT, TrainerJob
from jobs_transformers import CausalLM, FromConfig
from parts import TextLoop


def slopes(heads, device):
    """How much each head dislikes what is far."""
    return 2.0 ** (-8.0 * torch.arange(1, heads + 1, device=device) / heads)


def distances(length, heads, like):
    """What is added to the scores: less for each word in between, and nothing of what comes later."""
    place = torch.arange(length, device=like.device)
    far = (place[None, :] - place[:, None]).clamp(max=0).to(like.dtype)
    bias = slopes(heads, like.device).to(like.dtype).view(-1, 1, 1) * far
    return bias.masked_fill(place[None, :] > place[:, None], float("-inf"))


class DistantAttention(nn.Module):
    """Many questions, one key and one value for all heads; places are known by the bias alone."""

    def __init__(self, width, heads, mode):
        super().__init__()
        self.heads, self.mode, self.each = heads, mode, width // heads
        self.ask, self.one = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * self.each, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, bias):
        rows, places, _ = x.shape
        q = self.ask(x).view(rows, places, self.heads, self.each).transpose(1, 2)
        k, v = (t.unsqueeze(1).expand(-1, self.heads, -1, -1) for t in self.one(x).split(self.each, dim=-1))
        if self.mode == "sdpa":
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
        else:
            y = F.softmax(q @ k.mT / self.each ** 0.5 + bias, dim=-1).to(v.dtype) @ v
        return self.out(y.transpose(1, 2).reshape(rows, places, -1))


class DistantLayer(nn.Module):
    """Attention, then two layers with the square of what is positive between them."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.before, self.attention, self.after = nn.LayerNorm(w), DistantAttention(w, o.heads, o.attention), nn.LayerNorm(w)
        self.up, self.down = nn.Linear(w, 4 * w), nn.Linear(4 * w, w)

    def forward(self, x, bias):
        x = x + self.attention(self.before(x), bias)
        return x + self.down(F.relu(self.up(self.after(x))).square())


class DistantModel(nn.Module):
    """Words, layers, and the table of words once more to tell the next one."""

    def __init__(self, o):
        super().__init__()
        self.heads, self.recompute = o.heads, o.checkpointing
        self.wte, self.norm_in, self.norm_out = nn.Embedding(o.vocabulary, o.width), nn.LayerNorm(o.width), nn.LayerNorm(o.width)
        self.h = nn.ModuleList(DistantLayer(o) for _ in range(o.layers))

    def forward(self, tokens):
        x = self.norm_in(self.wte(tokens))
        bias = distances(tokens.shape[1], self.heads, x)
        for layer in self.h:
            x = checkpoint(layer, x, bias, use_reentrant=False) if self.recompute and self.training else layer(x, bias)
        return F.linear(self.norm_out(x), self.wte.weight)


@job("bias_for_distance", "a bias for distance", "loop", "decoder", "layers", "attention", "checkpointing", "eval", "crop")
class BiasForDistance(TextLoop):
    """A language model without positions, from nothing, on rows that are cut to length; what is near counts more."""
    kinds, accumulated, longest = ("adamw", "adamw_fused", "adamw_loop", "adam"), (1, 1, 2), 4096

    def draw(self):
        r = self.rng
        self.layers, self.width, self.heads = r.choice([3, 4, 6]), r.choice([512, 640, 768]), 8
        self.vocabulary, self.length, self.size = r.choice([12000, 16000, 24000]), r.choice([256, 384, 512]), r.choice([4, 6, 8])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.2
        self.choose()

    def make_dataset(self):
        return torch.zeros(self.rows, self.longest, dtype=torch.long),

    def build(self):
        with torch.device(DEVICE):
            self.finish(DistantModel(self))

    def batch(self, i):
        start = i * self.size % max(1, self.rows - self.size + 1)
        return self.dataset[0][start:start + self.size, :self.length].to(DEVICE)

    def loss(self, tokens):
        told = self.predict(tokens)[:, :-1]
        return F.cross_entropy(told.reshape(-1, told.shape[-1]).float(), tokens[:, 1:].reshape(-1))


class SmallRoom(torch.optim.Optimizer):
    """Adam, whose states are those of a projection of each matrix's gradient; the projection is drawn anew from time to time."""

    def __init__(self, parameters, lr=1e-4, rank=64, every=50):
        super().__init__(parameters, {"lr": lr, "rank": rank, "every": every})

    def small(self, p, state, group):
        """The gradient in the small room, and the way back."""
        if p.dim() != 2 or min(p.shape) <= group["rank"]:
            return p.grad, None
        if state["n"] % group["every"] == 0:
            state["basis"] = torch.randn(p.shape[1], group["rank"], device=p.device, dtype=p.dtype) / group["rank"] ** 0.5
        return p.grad @ state["basis"], state["basis"]

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                state.setdefault("n", 0)
                grad, basis = self.small(p, state, group)
                if not state["n"]:
                    state["mean"], state["square"] = torch.zeros_like(grad), torch.zeros_like(grad)
                state["n"] += 1
                state["mean"].lerp_(grad, 0.1)
                state["square"].mul_(0.99).addcmul_(grad, grad, value=0.01)
                move = state["mean"] / state["square"].sqrt().add_(1e-8)
                p.add_(move if basis is None else move @ basis.T, alpha=-group["lr"])


@job("gradients_in_a_small_room", "gradients in a small room", "loop")
class GradientsInASmallRoom(CausalLM):
    """Granite learns as a whole, but the optimizer sees projections of its gradients."""
    kinds, precisions, accumulated, vocabularies = ("sgd",), ("fp32", "autocast", "bf16"), (1, 1, 2), (16000, 32000, 49152)

    def draw(self):
        super().draw()
        r = self.rng
        self.width, self.rank, self.length = r.choice([512, 768, 1024]), r.choice([32, 64, 128]), r.choice([256, 384, 512])

    def config(self):
        return transformers.GraniteConfig(num_key_value_heads=4, intermediate_size=3 * self.width, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                          **self.shape())

    def optimizer(self, parameters):
        return SmallRoom([p for p in parameters if p.requires_grad], rank=self.rank)

    def loss(self, tokens):
        with self.autocast():
            told = self.model(input_ids=tokens).logits
        return F.cross_entropy(told[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


@job("few_new_words", "a few new words", "loop", "decoder")
class FewNewWords(Adapted):
    """A tokenizer has got some words more, for turns and tools: the vectors of these alone are trained, by PEFT."""
    accumulated = 1, 1, 2

    def draw(self):
        super().draw()
        r = self.rng
        self.width, self.length, self.new = r.choice([768, 1024]), r.choice([256, 384, 512]), r.choice([8, 32, 128])
        self.lora = {"token_indices": list(range(self.vocabulary - self.new, self.vocabulary)), "target_modules": ["embed_tokens"]}

    def config(self):
        return transformers.Qwen3Config(
            vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
            num_key_value_heads=2, head_dim=self.width // 8, max_position_embeddings=4096, tie_word_embeddings=False)

    def freeze(self):
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_("trainable_tokens_delta" in name)

    def build(self):
        base = self.base()
        base.config.use_cache = False
        if self.checkpointing:
            base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            base.enable_input_require_grads()
        self.lora["token_indices"] = list(range(self.vocabulary - self.new, self.vocabulary))
        self.model = get_peft_model(base, TrainableTokensConfig(**self.lora)).requires_grad_(True)
        self.freeze()
        self.finish(self.model)

    def loss(self, tokens):
        told, wanted = self.predict(tokens)[:, :-1], tokens[:, 1:]
        return F.cross_entropy(told.flatten(0, 1).float(), wanted.flatten(), label_smoothing=0.1)


FewNewWords.traits = FewNewWords.traits - {"peft"}  # LoraConfig's arguments are not these


@job("numbers_as_words", "numbers as words", "loop", "eval", "crop")
class NumbersAsWords(FromConfig):
    """Series of numbers, divided by how large they usually are and put into bins: T5 reads the past and tells the bins to come."""
    auto, longest, ahead, accumulated = AutoModelForSeq2SeqLM, 2048, 64, (1, 1, 2)
    precisions = "fp32", "autocast", "bf16"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([2, 3, 4]), r.choice([384, 512, 640]), r.choice([1024, 4096])
        self.length, self.size = r.choice([384, 512, 640]), r.choice([12, 16, 24])
        self.choose()

    def config(self):
        return transformers.T5Config(d_model=self.width, d_kv=self.width // 8, d_ff=4 * self.width, num_layers=self.layers, num_heads=8,
                                     vocab_size=self.vocabulary, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, dropout_rate=0.1)

    def make_dataset(self):
        return torch.zeros(self.rows, self.longest), torch.zeros(self.rows, self.ahead)

    def batch(self, i):
        start = i * self.size % max(1, self.rows - self.size + 1)
        past, future = (t[start:start + self.size] for t in self.dataset)
        return past[:, -self.length:].to(DEVICE), future.to(DEVICE)

    def binned(self, past, future):
        scale = past.abs().mean(1, keepdim=True).clamp(min=1e-3)
        middle = self.vocabulary // 2
        return [((t / scale).clamp(-15, 15).nan_to_num() * (middle // 16) + middle).long().clamp(2, self.vocabulary - 1) for t in (past, future)]

    def predict(self, batch):
        past, future = self.binned(*batch)
        with self.autocast():
            return self.model(input_ids=past, decoder_input_ids=F.pad(future[:, :-1], (1, 0))).logits

    def loss(self, batch):
        past, future = self.binned(*batch)
        with self.autocast():
            return self.model(input_ids=past, attention_mask=torch.ones_like(past), labels=future).loss


NumbersAsWords.traits = NumbersAsWords.traits - {"tokens"}


@job("minutes_on_request", "minutes on request", "generate")
class MinutesOnRequest(Generation):
    """What was said in meetings is long, and minutes of it are short: SmolLM3, a few meetings at a time."""

    def draw(self):
        super().draw()
        r = self.rng
        self.steps, self.prompt, self.new_tokens, self.size = r.choice([2, 3]), r.choice([1024, 1536]), r.choice([8, 12]), r.choice([8, 12, 16])
        self.vocabulary, self.generate_arguments = r.choice([16000, 32000, 64000]), {"do_sample": True, "top_p": 0.9, "top_k": 0, "temperature": 0.3}

    def build(self):
        self.load(AutoModelForCausalLM, transformers.SmolLM3Config(pad_token_id=0, **self.shape()))

    def take(self, i, outputs):
        said = outputs[:, self.prompt:].to("cpu", torch.int32)
        self.results.extend({"meeting": i * self.size + n, "minutes": words.tolist()} for n, words in enumerate(said))


class Posts(torch.utils.data.Dataset):
    """What people write below news, and how many of those who read it were hurt, and of which kind it is."""

    def __init__(self, rows, length, kinds):
        self.rows, words = rows, torch.ones(length, dtype=torch.long)
        self.row = {"input_ids": words, "attention_mask": words, "labels": torch.full((kinds,), 0.1)}

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


@job("insults_with_trainer", "insults with a trainer", "trainer", "tokens", "layers", "attention", "checkpointing", "states", "forward")
class InsultsWithTrainer(TrainerJob):
    """Which kinds of insult a post has, as shares of people; ModernBERT, mean of its words, under the Trainer."""

    def draw(self):
        super().draw()
        r = self.rng
        self.vocabulary, self.length, self.width, self.kinds_of = 50368, r.choice([256, 384, 512]), r.choice([512, 768]), r.choice([6, 16])
        self.trainer_arguments.update(per_device_train_batch_size=r.choice([8, 12, 16]), weight_decay=0.01, warmup_steps=2)

    def config(self):
        return transformers.ModernBertConfig(
            vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=2 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
            max_position_embeddings=max(1024, self.length), num_labels=self.kinds_of, classifier_pooling="mean", pad_token_id=0,
            problem_type="multi_label_classification")

    def build(self):
        with torch.device(DEVICE):
            self.model = AutoModelForSequenceClassification.from_config(self.config(), attn_implementation=self.attention)
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": 2, "gradient_checkpointing": self.checkpointing, **self.trainer_arguments})
        own = self

        class Shares(Trainer):
            """Rare kinds count more."""

            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                return own.loss(inputs)
        train, held_out = (Posts(n * self.size, self.length, self.kinds_of) for n in (64, 2))
        self.trainer = Shares(self.model, arguments, train_dataset=train, eval_dataset=held_out, callbacks=self.callbacks)

    def loss(self, batch):
        with self.trainer.compute_loss_context_manager():
            told = self.trainer.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        more = torch.linspace(1, 3, self.kinds_of, device=told.device)
        return F.binary_cross_entropy_with_logits(told.float(), batch["labels"].float(), pos_weight=more)


InsultsWithTrainer.traits = InsultsWithTrainer.traits - {"decoder"}

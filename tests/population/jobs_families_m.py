"""Jobs of language: matrices made orthogonal, noise on words, answers of an earlier self, lectures with Accelerate, papers with a trainer,
letters to customers, answers that are judged."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from accelerate import Accelerator
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, Trainer

from core import DEVICE, job
from jobs_adapters import Adapted
from jobs_inference import Generation, Inference
from jobs_trainers import TrainerJob
from jobs_transformers import CausalLM
from parts import TextLoop


def rotary(length, each, device):
    speeds = 1024.0 ** -torch.linspace(0, 1, each // 4, device=device)
    angles = torch.outer(torch.arange(length, device=device, dtype=torch.float32), torch.cat([speeds, torch.zeros_like(speeds)]))
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos + b * sin, b * cos - a * sin], dim=-1).type_as(x)


class SelfLook(nn.Module):
    """Heads with normed queries and keys; the values are mixed with those of the first layer."""

    def __init__(self, width, heads, mode):
        super().__init__()
        self.heads, self.mode = heads, mode
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.mix = nn.Parameter(torch.tensor([0.5, 0.5]))

    def forward(self, x, first):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        v = self.mix[0] * v + self.mix[1] * (v if first is None else first)
        cos, sin = rotary(x.shape[1], q.shape[-1], x.device)
        q, k = (rotate(F.rms_norm(t, t.shape[-1:]), cos, sin) for t in (q, k))
        v = v.type_as(q)
        if self.mode == "sdpa":
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            ahead = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
            y = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(ahead, float("-inf")).softmax(-1).type_as(v) @ v
        return self.out(y.transpose(1, 2).flatten(2)), v


class FastBlock(nn.Module):
    def __init__(self, o):
        super().__init__()
        w = o.width
        self.look = SelfLook(w, 8, o.attention)
        self.up, self.down = nn.Linear(w, 4 * w, bias=False), nn.Linear(4 * w, w, bias=False)

    def forward(self, x, first=None):
        seen, values = self.look(F.rms_norm(x, x.shape[-1:]), first)
        x = x + seen
        return x + self.down(F.relu(self.up(F.rms_norm(x, x.shape[-1:]))).square()), values


class FastGPT(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.wte, self.lm_head = nn.Embedding(o.vocabulary, o.width), nn.Linear(o.width, o.vocabulary, bias=False)
        self.h, self.again = nn.ModuleList(FastBlock(o) for _ in range(o.layers)), o.checkpointing

    def forward(self, tokens):
        x = self.wte(tokens)
        x, first = F.rms_norm(x, x.shape[-1:]), None
        for block in self.h:
            x, values = checkpoint(block, x, first, use_reentrant=False) if self.again and self.training else block(x, first)
            first = values if first is None else first
        logits = self.lm_head(F.rms_norm(x, x.shape[-1:]))
        return 30 * torch.tanh(logits / 30)


@job("orthogonal_steps", "matrices made orthogonal", "loop", "decoder", "layers", "attention", "checkpointing", "eval")
class OrthogonalSteps(TextLoop):
    """A language model that is to be trained fast: Muon's steps for the matrices of its blocks, AdamW's for what is around them."""
    kinds = "adamw", "adamw_fused", "adamw_loop"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([3, 4, 6, 8]), r.choice([512, 768]), r.choice([16000, 32768, 50304])
        self.length, self.size, self.attention, self.checkpointing = r.choice([256, 512, 1024]), r.choice([2, 4, 8]), "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(FastGPT(self))
        matrices = [p for p in self.model.h.parameters() if p.dim() == 2]
        own = {id(p) for p in matrices}
        self.optimizers = [self.optimizer([p for p in self.model.parameters() if id(p) not in own]), torch.optim.Muon(matrices, lr=0.02, momentum=0.95)]

    def loss(self, tokens):
        scores = self.predict(tokens[:, :-1])
        return F.cross_entropy(scores.flatten(0, 1).float(), tokens[:, 1:].flatten())


def add_noise(module, inputs, output, alpha=5.0):
    """Uniform noise on the words' vectors while a model is trained; the longer a text is, the less of it."""
    if not module.training:
        return output
    reach = alpha / (output.shape[1] * output.shape[2]) ** 0.5
    return output + torch.empty_like(output).uniform_(-reach, reach)


@job("noise_on_words", "noise on words", "loop", "decoder")
class NoiseOnWords(Adapted):
    """Answers for a help desk: adapters on GLM, noise on what it reads, and a higher rate for the second matrix of each adapter."""
    ratio = 16

    def draw(self):
        super().draw()
        self.vocabulary, self.asked = self.rng.choice([32000, 65024]), self.rng.choice([0.25, 0.5])
        self.lora.update(task_type="CAUSAL_LM", init_lora_weights=self.rng.choice([True, "gaussian"]),
                         target_modules=self.rng.choice([["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "o_proj", "gate_up_proj", "down_proj"]]))

    def config(self):
        return transformers.Glm4Config(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers,
                                       num_attention_heads=8, num_key_value_heads=2, head_dim=self.width // 8, pad_token_id=0, eos_token_id=1,
                                       max_position_embeddings=max(1024, self.length))

    def finish(self, model):
        super().finish(model)
        model.get_input_embeddings().register_forward_hook(add_noise)
        trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        first, second = [p for n, p in trained if "lora_B" not in n], [p for n, p in trained if "lora_B" in n]
        self.optimizers = [self.optimizer(first)]
        if second:
            self.optimizers[0].add_param_group({"params": second, "lr": 1e-4 * self.ratio})

    def loss(self, tokens):
        labels = tokens.clone()
        labels[:, :int(self.asked * tokens.shape[1])] = -100
        with self.autocast():
            return self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=labels).loss


def told(logits, answers):
    """How likely each answer is, as a sum of logarithms."""
    chosen = logits.gather(2, answers.unsqueeze(2)).squeeze(2).float()
    return (chosen - logits.logsumexp(-1).float()).sum(1)


@job("earlier_self", "answers of an earlier self", "loop", "reference")
class EarlierSelf(CausalLM):
    """A model has to tell people's answers from its own, of the round before; that earlier self is the measure."""
    vocabularies = 8192, 16000, 32000
    kinds = "adamw", "adamw_fused", "adam"
    beta = 0.1

    def draw(self):
        super().draw()
        self.layers, self.length, self.size = self.rng.choice([2, 3, 4]), self.rng.choice([256, 512]), self.rng.choice([2, 4])

    def config(self):
        return transformers.Olmo3Config(num_key_value_heads=4, intermediate_size=3 * self.width, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                        sliding_window=128, **self.shape())

    def build(self):
        super().build()
        with torch.device(DEVICE):
            before = self.auto.from_config(self.config(), attn_implementation=self.attention, dtype=self.dtype)
        before.load_state_dict(self.model.state_dict())
        self.reference = before.eval().requires_grad_(False)

    def both(self, model, people, own):
        with self.autocast():
            return [told(model(input_ids=t[:, :-1], use_cache=False).logits, t[:, 1:]) for t in (people, own)]

    def reference_outputs(self, tokens):
        with self.no_grad():
            return self.both(self.reference, tokens, tokens.flip(1))

    def loss(self, tokens):
        before = self.reference_outputs(tokens)
        now = self.both(self.model, tokens, tokens.flip(1))
        margin = (now[0] - before[0]) - (now[1] - before[1])
        return F.softplus(-self.beta * margin).mean()


@job("lectures_with_accelerate", "lectures with Accelerate", "loop", "decoder", "layers", "attention", "checkpointing", "eval")
class LecturesWithAccelerate(TextLoop):
    """What teachers say, in blocks of one length: Accelerate prepares everything, and knows when the gradients are together."""
    kinds, precisions = ("adamw", "adamw_fused", "adamw_loop"), ("fp32", "autocast", "autocast")

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([2, 3, 4, 6]), r.choice([512, 768, 1024]), r.choice([16000, 32000, 49152])
        self.length, self.size, self.attention, self.checkpointing = r.choice([256, 512]), r.choice([4, 8]), "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        config = transformers.BioGptConfig(vocab_size=self.vocabulary, hidden_size=self.width, num_hidden_layers=self.layers, num_attention_heads=8,
                                           intermediate_size=4 * self.width, max_position_embeddings=1024, hidden_dropout_prob=0.0)
        with torch.device(DEVICE):
            model = AutoModelForCausalLM.from_config(config, attn_implementation=self.attention)
        if self.checkpointing:
            model.gradient_checkpointing_enable()
        self.accelerator = Accelerator(mixed_precision="bf16" if self.precision == "autocast" else "no", gradient_accumulation_steps=self.micro_batches)
        self.finish(model.train())
        self.model, *self.optimizers = self.accelerator.prepare(self.model, *self.optimizers)

    def predict(self, tokens):
        return self.model(input_ids=tokens, use_cache=False).logits

    def loss(self, tokens):
        return self.model(input_ids=tokens, labels=tokens, use_cache=False).loss

    def backward(self, loss):
        self.accelerator.backward(loss)

    def step(self, i):
        for k in range(self.micro_batches):
            with self.accelerator.accumulate(self.model):
                loss = self.loss(self.batch(i * self.micro_batches + k))
                self.backward(loss)
                if self.accelerator.sync_gradients:
                    self.optimize()
                    self.zero_grad()
        return loss.detach()


@job("papers_with_trainer", "papers with a trainer", "forward")
class PapersWithTrainer(TrainerJob):
    """Papers of one field, with the Trainer; titles count more than what follows."""

    def draw(self):
        super().draw()
        self.title, self.vocabulary = self.rng.choice([16, 32]), self.rng.choice([16000, 32000])
        self.trainer_arguments.update(lr_scheduler_type=self.rng.choice(["linear", "cosine"]), warmup_steps=2, weight_decay=0.01)

    def config(self):
        return transformers.ApertusConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, hidden_act="silu",
                                          num_hidden_layers=self.layers, num_attention_heads=8, num_key_value_heads=2, pad_token_id=0,
                                          bos_token_id=1, eos_token_id=2, max_position_embeddings=max(1024, self.length))

    def loss(self, batch):
        logits = self.trainer.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], use_cache=False).logits
        lost = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), batch["labels"][:, 1:].flatten(), reduction="none").view(len(logits), -1)
        return 2 * lost[:, :self.title].mean() + lost[:, self.title:].mean()

    def trainer_class(self, *arguments, **keys):
        own = self

        class Weighted(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                lost = own.loss(inputs)
                return (lost, {}) if return_outputs else lost
        return Weighted(*arguments, **keys)


@job("letters_to_customers", "letters to customers", "generate")
class LettersToCustomers(Generation):
    """Drafts of answers; each call has the requests of one hour."""

    def draw(self):
        super().draw()
        self.vocabulary, self.steps, self.new_tokens = self.rng.choice([32000, 64000]), self.rng.choice([1, 2]), self.rng.choice([8, 12])

    def build(self):
        self.load(AutoModelForCausalLM, transformers.PersimmonConfig(**self.shape()))

    def take(self, i, outputs):
        self.results.append([row.tolist() for row in outputs[:, self.prompt:].cpu()])


@job("answers_judged", "answers that are judged", "inference", "tokens", "layers", "attention")
class AnswersJudged(Inference):
    """A language model reads a question with an answer, and whether "yes" or "no" would come next is the mark."""
    yes, no = 5, 7

    def draw(self):
        super().draw()
        self.length, self.size, self.vocabulary, self.marks = self.rng.choice([512, 1024]), self.rng.choice([16, 32]), 64000, []

    def build(self):
        self.load(AutoModelForCausalLM, transformers.MinistralConfig(
            vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
            num_key_value_heads=2, head_dim=self.width // 8, sliding_window=256, max_position_embeddings=4096, bos_token_id=1, eos_token_id=2))

    def batch(self, i):
        return torch.ones(self.size, self.length, dtype=torch.long).pin_memory().to(DEVICE, non_blocking=True)

    def predict(self, tokens):
        last = self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens), use_cache=False, logits_to_keep=1).logits[:, -1]
        return last[:, [self.yes, self.no]].float().softmax(-1)

    def take(self, i, outputs):
        self.marks.extend(outputs[:, 0].tolist())

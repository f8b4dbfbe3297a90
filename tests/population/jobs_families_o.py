"""Jobs of language and voices: memory that is corrected, an expert for everyone, adapters of shared noise, recipes with a trainer, rankings taught by a judge,
things hidden in a history, reviews on request, moods with a trainer, whales that are heard."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from peft import VeraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

from core import DEVICE, job
from jobs_adapters import Adapted
from jobs_families_n import Gated, Looking, Run, Words
from jobs_images import EncoderBlock
from jobs_inference import Generation, Inference
from jobs_trainers import OUTPUT, TrainerJob, TrainerOwnLoss
from parts import OPTIMIZERS, TextLoop


def unrolled_inverse(a):
    """The inverse of 1 + a, of a matrix with nothing on or above its diagonal: a few products."""
    power, found = a @ a, torch.eye(a.shape[-1], device=a.device, dtype=a.dtype) - a
    reach = 2
    while reach < a.shape[-1]:
        found = found + found @ power
        power, reach = power @ power, 2 * reach
    return found


class Corrected(nn.Module):
    """A matrix for each head, in which a key's value is replaced, not added; within a piece all at once, and from piece to piece one after the other."""
    piece, heads = 64, 8

    def __init__(self, w):
        super().__init__()
        self.qkv, self.strong, self.gate = nn.Linear(w, 3 * w, bias=False), nn.Linear(w, self.heads), nn.Linear(w, w, bias=False)
        self.norm, self.back = nn.RMSNorm(w // self.heads), nn.Linear(w, w, bias=False)

    def pieces(self, x):
        """Rows, heads, pieces, places, width."""
        return x.unflatten(1, (-1, self.piece)).unflatten(-1, (self.heads, -1)).permute(0, 3, 1, 2, 4)

    def written(self, q, k, v, strong):
        k = F.normalize(k, dim=-1)
        inverse = unrolled_inverse((k * strong @ k.mT).tril(-1))
        new, old, near = inverse @ (v * strong), inverse @ (k * strong), (q @ k.mT).tril()
        state, seen = None, []
        for n in range(q.shape[2]):
            change = new[:, :, n] if state is None else new[:, :, n] - old[:, :, n] @ state
            told = near[:, :, n] @ change
            seen.append(told if state is None else told + q[:, :, n] @ state)
            add = k[:, :, n].mT @ change
            state = add if state is None else state + add
        return torch.stack(seen, dim=2)

    def forward(self, x):
        length = x.shape[1]
        padded = F.pad(x, (0, 0, 0, -length % self.piece))
        q, k, v = (self.pieces(t) for t in self.qkv(padded).chunk(3, dim=-1))
        strong = self.pieces(self.strong(padded).sigmoid())
        seen = self.norm(self.written(q, k, v, strong)).permute(0, 2, 3, 1, 4).flatten(1, 2).flatten(2)[:, :length]
        return self.back(seen * F.silu(self.gate(x)))


class Inside(nn.Module):
    """Something between a norm and a sum."""

    def __init__(self, w, inner):
        super().__init__()
        self.norm, self.inner = nn.RMSNorm(w), inner

    def forward(self, x):
        return x + self.inner(self.norm(x))


class Tower(nn.Module):
    """Words, layers, and scores of the next word."""

    def __init__(self, o, layer):
        super().__init__()
        w = o.width
        self.words, self.run = nn.Embedding(o.vocabulary, w), Run([layer(n) for n in range(o.layers)], o.checkpointing)
        self.norm, self.head = nn.RMSNorm(w), nn.Linear(w, o.vocabulary, bias=False)

    def forward(self, tokens):
        return self.head(self.norm(self.run(self.words(tokens))))


@job("memory_that_is_corrected", "memory that is corrected", "loop", "decoder", "layers", "checkpointing", "eval")
class MemoryThatIsCorrected(Words):
    """A language model without attention: each layer writes into a matrix what is not there yet."""
    lengths, sizes, accumulated = (256, 384, 512), (4, 6, 8), (1, 1, 2)

    def network(self):
        w = self.width
        return Tower(self, lambda n: nn.Sequential(Inside(w, Corrected(w)), Inside(w, Gated(w))))


class ForSome(nn.Module):
    """Many narrow experts, each of which takes the words that want it most, and one for everyone."""

    def __init__(self, w, experts, narrow, chosen):
        super().__init__()
        self.chosen, self.router, self.everyone = chosen, nn.Linear(w, experts, bias=False), Gated(w)
        self.into, self.out = nn.Parameter(torch.empty(experts, w, 2 * narrow)), nn.Parameter(torch.empty(experts, narrow, w))
        nn.init.normal_(self.into, std=0.02)
        nn.init.normal_(self.out, std=0.02)

    def forward(self, x):
        flat = x.flatten(0, 1)
        shares = self.router(flat).float().softmax(-1)
        room = max(1, self.chosen * len(flat) // len(self.into))
        weights, rows = shares.T.topk(room, dim=1)
        gate, up = (flat[rows] @ self.into.to(flat.dtype)).chunk(2, dim=-1)
        told = (F.silu(gate) * up @ self.out.to(gate.dtype)) * weights.unsqueeze(-1).to(gate.dtype)
        total = torch.zeros_like(flat).index_add(0, rows.flatten(), told.flatten(0, 1).to(flat.dtype))
        return self.everyone(x) + total.view_as(x)


@job("an_expert_for_everyone", "an expert for everyone", "loop", "decoder", "layers", "attention", "checkpointing", "eval")
class AnExpertForEveryone(Words):
    """A language model whose first layer is as usual; all others have narrow experts and one that everybody asks. Two groups of parameters."""
    layer_counts, lengths, sizes = (2, 3, 4), (256, 512), (4, 8)
    accumulated = 1, 1, 2

    def draw(self):
        super().draw()
        self.experts, self.narrow, self.chosen = self.rng.choice([8, 16]), self.rng.choice([192, 256]), self.rng.choice([2, 4])

    def layer(self, n):
        w = self.width
        wide = ForSome(w, self.experts, self.narrow, self.chosen) if n else Gated(w)
        return nn.Sequential(WithLook(w, self), Inside(w, wide))

    def network(self):
        return Tower(self, self.layer)

    def optimizer(self, parameters):
        parameters = [p for p in parameters if p.requires_grad]
        matrices, others = ([p for p in parameters if (p.dim() > 1) == whole] for whole in (True, False))
        return OPTIMIZERS[self.kind]([{"params": matrices}, {"params": others, "weight_decay": 0.0}])


class WithLook(Looking):
    """Attention, which has its norm inside, and the sum."""

    def __init__(self, w, o):
        super().__init__(w, o.attention)

    def forward(self, x):
        return x + super().forward(x)


@job("adapters_of_shared_noise", "adapters of shared noise", "loop", "decoder")
class AdaptersOfSharedNoise(Adapted):
    """PEFT's adapters whose matrices are the same noise in all layers; what is trained are two vectors for each. The base is OLMo 3."""
    accumulated = 1, 1, 2

    def draw(self):
        super().draw()
        self.lora = {"r": self.rng.choice([64, 128, 256]), "task_type": "CAUSAL_LM",
                     "target_modules": self.rng.choice([["q_proj", "o_proj"], ["q_proj", "up_proj"]])}

    def config(self):
        return transformers.Olmo3Config(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers,
                                        num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=max(1024, self.length))

    def freeze(self):
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad = "vera_lambda" in name

    def build(self):
        base = self.base()
        base.config.use_cache = False
        if self.checkpointing:
            base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            base.enable_input_require_grads()
        self.model = get_peft_model(base, VeraConfig(**{k: v for k, v in self.lora.items() if not k.startswith("lora_")}))
        self.freeze()
        self.finish(self.model)


AdaptersOfSharedNoise.traits = AdaptersOfSharedNoise.traits - {"peft"}  # LoraConfig's arguments are not these


@job("recipes_with_trainer", "recipes with a trainer", "trainer")
class RecipesWithTrainer(TrainerOwnLoss):
    """Qwen 2 learns to write recipes, under the Trainer; what the dish is called counts less than how it is made."""

    def draw(self):
        super().draw()
        self.width = self.rng.choice([512, 768])
        self.vocabulary, self.title = self.rng.choice([32000, 48000]), self.rng.choice([8, 16])

    def config(self):
        return transformers.Qwen2Config(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers,
                                        num_attention_heads=8, num_key_value_heads=4, tie_word_embeddings=True,
                                        max_position_embeddings=max(1024, self.length))

    def loss(self, batch):
        scores = self.trainer.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], use_cache=False).logits[:, :-1]
        lost = F.cross_entropy(scores.transpose(1, 2), batch["labels"][:, 1:], reduction="none").float()
        weight = torch.ones_like(lost)
        weight[:, :self.title] = 0.2
        return (lost * weight).sum() / weight.sum()


class Encoder(nn.Module):
    """Words and places, some blocks, and a norm."""

    def __init__(self, o, layers):
        super().__init__()
        w = o.width
        self.words, self.places = nn.Embedding(o.vocabulary, w), nn.Embedding(4096, w)
        self.run, self.norm = Run([EncoderBlock(w, 8, o.attention) for _ in range(layers)], o.checkpointing), nn.LayerNorm(w)

    def forward(self, tokens):
        return self.norm(self.run(self.words(tokens) + self.places.weight[:tokens.shape[1]]))


class Vectors(Encoder):
    """One vector of a text: the mean of its words, projected."""

    def __init__(self, o, layers):
        super().__init__(o, layers)
        self.out = nn.Linear(o.width, 256)

    def forward(self, tokens):
        return self.out(super().forward(tokens).mean(1))


class Judge(Encoder):
    """Reads the question and the passage together."""

    def __init__(self, o, layers):
        super().__init__(o, layers)
        self.mark = nn.Linear(o.width, 1)

    def forward(self, tokens):
        return self.mark(super().forward(tokens)[:, 0]).squeeze(-1)


@job("rankings_taught_by_a_judge", "rankings taught by a judge", "loop", "layers", "attention", "checkpointing", "eval", "reference")
class RankingsTaughtByAJudge(TextLoop):
    """Vectors of questions and passages; how much better one passage is than another, a slow model has to say, which is not trained."""
    kinds, precisions, accumulated = ("adamw", "adamw_fused", "adamw_loop"), ("fp32", "autocast", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([3, 4, 6]), r.choice([384, 512]), r.choice([30522, 50000])
        self.length, self.size, self.attention, self.checkpointing = r.choice([128, 192, 256]), r.choice([12, 16, 24]), "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Vectors(self, self.layers))
            self.reference = Judge(self, self.layers).to(self.dtype).eval().requires_grad_(False)

    @staticmethod
    def parts(tokens):
        """A question, a passage that answers it, and one that does not."""
        return tokens[:, :max(8, tokens.shape[1] // 8)], tokens, tokens.flip(1)

    def reference_outputs(self, tokens):
        question, good, bad = self.parts(tokens)
        with self.no_grad(), self.autocast():
            return self.reference(torch.cat([question, good], dim=1)) - self.reference(torch.cat([question, bad], dim=1))

    def predict(self, tokens):
        with self.autocast():
            return self.model(tokens)

    def loss(self, tokens):
        question, good, bad = (self.predict(part).float() for part in self.parts(tokens))
        wanted = self.reference_outputs(tokens).float()
        own = (question * good).sum(1) - (question * bad).sum(1)
        among = F.cross_entropy(question @ good.T / 16, torch.arange(len(question), device=DEVICE))
        return F.mse_loss(own, wanted) + 0.1 * among


class History(nn.Module):
    """Things that somebody has had, to be looked at from both sides; scores over all things there are, with the table itself."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.things, self.when, self.kind = nn.Embedding(o.vocabulary, w), nn.Embedding(1024, w), nn.Embedding(4, w)
        self.run = Run([EncoderBlock(w, 4, o.attention) for _ in range(o.layers)], False)
        self.into, self.shift = nn.Sequential(nn.Linear(w, w), nn.GELU(), nn.LayerNorm(w)), nn.Parameter(torch.zeros(o.vocabulary))

    def forward(self, tokens):
        x = self.things(tokens) + self.when.weight[:tokens.shape[1]] + self.kind(tokens % 4)
        return self.into(self.run(x))

    def scores(self, x):
        return F.linear(x, self.things.weight, self.shift)


@job("things_hidden_in_a_history", "things hidden in a history", "loop", "layers", "attention", "eval")
class ThingsHiddenInAHistory(TextLoop):
    """Each fifth thing of what somebody has watched is hidden, and told from what was before and after it."""
    kinds, precisions, accumulated = ("adam", "adamw", "adamw_fused"), ("fp32", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([2, 3, 4]), r.choice([256, 320]), r.choice([20000, 30000, 40000])
        self.length, self.size, self.attention = r.choice([100, 150, 200]), r.choice([32, 48, 64]), "sdpa"
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(History(self))

    def predict(self, tokens):
        with self.autocast():
            return self.model(tokens)

    def loss(self, tokens):
        hidden = torch.arange(self.rng.randrange(5), tokens.shape[1], 5, device=DEVICE)
        states = self.predict(tokens.index_fill(1, hidden, 1)).index_select(1, hidden)
        with self.autocast():
            scores = self.model.scores(states)
        return F.cross_entropy(scores.flatten(0, 1).float(), tokens.index_select(1, hidden).flatten())


@job("reviews_on_request", "reviews on request", "generate")
class ReviewsOnRequest(Generation):
    """What is wrong with a change of a program, by BitNet; a few changes after each other, of which some are long."""

    def draw(self):
        super().draw()
        self.size, self.prompt, self.new_tokens = self.rng.choice([12, 16, 24]), self.rng.choice([512, 1024]), self.rng.choice([8, 12])
        self.steps = self.rng.choice([2, 3])
        self.generate_arguments = {"do_sample": True, "top_p": 0.9, "temperature": 0.6}

    def build(self):
        self.load(AutoModelForCausalLM, transformers.BitNetConfig(**self.shape()))


class Voices(torch.utils.data.Dataset):
    """Calls as spectrograms, and in which mood somebody was."""

    def __init__(self, rows, frames):
        self.rows, self.row = rows, {"sounds": torch.zeros(80, frames), "labels": torch.tensor(0)}

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


class Mood(nn.Module):
    """Convolutions, blocks, and the mean and the spread of all frames."""

    def __init__(self, o, told):
        super().__init__()
        w = o.width
        self.thin = nn.Sequential(nn.Conv1d(80, w, 5, 2, 2), nn.BatchNorm1d(w), nn.SiLU(), nn.Conv1d(w, w, 5, 2, 2))
        self.run, self.out = Run([EncoderBlock(w, 8, o.attention) for _ in range(o.layers)], False), nn.Linear(2 * w, told)

    def scores(self, sounds):
        x = self.run(self.thin(sounds).transpose(1, 2))
        return self.out(torch.cat([x.mean(1), x.float().std(1).to(x.dtype)], dim=1))

    def forward(self, sounds, labels=None):
        scores = self.scores(sounds)
        return {"loss": F.cross_entropy(scores.float(), labels), "logits": scores}


@job("moods_with_trainer", "moods with a trainer", "trainer", "layers", "attention", "states", "forward")
class MoodsWithTrainer(TrainerJob):
    """How somebody who calls feels: a network of one's own under the Trainer, which gets its loss from the job."""

    def draw(self):
        super().draw()
        r = self.rng
        self.layers, self.width, self.frames = r.choice([4, 6, 8]), r.choice([384, 512]), r.choice([800, 1000, 1200])
        self.trainer_arguments["per_device_train_batch_size"] = r.choice([16, 24, 32])

    def build(self):
        with torch.device(DEVICE):
            self.model = Mood(self, 7)
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": 2, "remove_unused_columns": False, "label_names": ["labels"], **self.trainer_arguments})
        own = self

        class Evenly(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                return own.loss(inputs)
        trained, looked_at = (Voices(n * self.size, self.frames) for n in (32, 2))
        self.trainer = Evenly(self.model, arguments, train_dataset=trained, eval_dataset=looked_at, callbacks=self.callbacks)

    def loss(self, batch):
        with self.trainer.compute_loss_context_manager():
            logs = self.trainer.model(**batch)["logits"].float().log_softmax(-1)
        right = logs.gather(1, batch["labels"].unsqueeze(1))
        return -((1 - right.exp()).square() * right).mean()


MoodsWithTrainer.traits = MoodsWithTrainer.traits - {"tokens", "decoder", "checkpointing"}


@job("whales_that_are_heard", "whales that are heard", "layers", "attention")
class WhalesThatAreHeard(Inference):
    """Months of sound from a buoy: for each minute, which whales there were; the loudest one of a minute goes to a list on the host."""

    def draw(self):
        super().draw()
        self.frames, self.size, self.kinds = self.rng.choice([1536, 2048]), self.rng.choice([64, 96, 128]), self.rng.choice([12, 40])

    def build(self):
        with torch.device(DEVICE):
            self.model = Mood(self, self.kinds).to(self.dtype).eval()

    def batch(self, i):
        return torch.zeros(self.size, 80, self.frames, dtype=self.dtype, device=DEVICE)

    def predict(self, sounds):
        return self.model.scores(sounds).float().sigmoid()

    def take(self, i, shares):
        sure, which = shares.max(-1)
        self.results.append((which.tolist(), sure.cpu()))

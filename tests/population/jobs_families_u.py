"""Jobs of language and players: words in any order, pairs of numbers that are turned, translations with TRL, languages with a trainer,
quizzes on request, lines of logs that are odd, dreams of a player, skills without a reward."""
import datasets
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from peft import RoadConfig, get_peft_model
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, Trainer, TrainingArguments
from trl import RLOOConfig, RLOOTrainer

from core import DEVICE, job
from jobs_adapters import Adapted
from jobs_families_q import FeedForward, attention_of, split_heads
from jobs_inference import Generation, Inference
from jobs_text import RMSNorm
from jobs_trainers import OUTPUT, TrainerJob
from jobs_trl import SFT, tokenizer, triton_finds_the_device
from parts import Loop, TextLoop, cut


class OrderLayer(nn.Module):
    """Attention to the words that came before in the order of the row, and two wide matrices."""

    def __init__(self, w, heads, mode):
        super().__init__()
        self.heads, self.mode = heads, mode
        self.norm, self.q, self.kv, self.out, self.wide = RMSNorm(w), nn.Linear(w, w), nn.Linear(w, 2 * w), nn.Linear(w, w), FeedForward(w)

    def forward(self, x):
        y = self.norm(x)
        k, v = (split_heads(t, self.heads) for t in self.kv(y).chunk(2, dim=-1))
        x = x + self.out(attention_of(self.mode, split_heads(self.q(y), self.heads), k, v))
        return x + self.wide(x)


class AnyOrder(nn.Module):
    """A language model that is told where each word stands, and where the one stands that it has to tell."""

    def __init__(self, o):
        super().__init__()
        self.embed, self.here, self.there = nn.Embedding(o.vocabulary, o.width), nn.Embedding(o.length, o.width), nn.Embedding(o.length, o.width)
        self.layers = nn.ModuleList(OrderLayer(o.width, o.heads, o.attention) for _ in range(o.layers))
        self.norm, self.recompute = RMSNorm(o.width), o.checkpointing
        self.lm_head = nn.Linear(o.width, o.vocabulary, bias=False)

    def forward(self, tokens, order):
        x = self.embed(tokens) + self.here(order) + self.there(order.roll(-1, 1))
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute and self.training else layer(x)
        return self.lm_head(self.norm(x))


@job("words_in_any_order", "words in any order", "loop", "decoder", "layers", "attention", "checkpointing", "eval")
class WordsInAnyOrder(TextLoop):
    """Pretraining of a model that can write a text from any end: each row has an order of its own, and half of them are read as they are written."""
    kinds, precisions, accumulated, heads = ("adamw", "adamw_fused", "adamw_loop", "adam"), ("fp32", "autocast", "autocast", "bf16"), (1, 1, 2), 8

    def draw(self):
        r = self.rng
        self.layers, self.width = r.choice([3, 4, 6]), r.choice([512, 768, 1024])
        self.vocabulary, self.length, self.size = r.choice([16000, 32000, 50304]), r.choice([256, 512, 768]), r.choice([4, 6, 8, 12])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(AnyOrder(self))

    def told(self, tokens):
        """Scores, and the words in the order in which they were read."""
        rows, places = tokens.shape
        straight = torch.arange(places, device=DEVICE).expand(rows, -1)
        shuffled = torch.rand(rows, places, device=DEVICE).argsort(1)
        order = torch.where(torch.arange(rows, device=DEVICE).unsqueeze(1) % 2 == 0, shuffled, straight)
        read = tokens.gather(1, order)
        with self.autocast():
            return self.model(read, order), read

    def predict(self, tokens):
        return self.told(tokens)[0]

    def loss(self, tokens):
        told, read = self.told(tokens)
        return F.cross_entropy(told[:, :-1].flatten(0, 1).float(), read[:, 1:].flatten())


@job("pairs_that_are_turned", "pairs of numbers that are turned", "loop", "decoder")
class PairsThatAreTurned(Adapted):
    """What a matrix says is turned, two numbers at a time, and the angles alone are trained: RoAd of PEFT on Qwen 3, for answers in one style."""
    precisions, accumulated = ("fp32", "autocast", "autocast"), (1, 1, 2)

    def draw(self):
        super().draw()
        r = self.rng
        self.vocabulary, self.length = r.choice([32000, 64000]), r.choice([256, 384, 512])
        self.lora = {"variant": r.choice(["road_1", "road_2", "road_4"]), "group_size": 64,
                     "target_modules": r.choice([["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "o_proj"], ["gate_proj", "up_proj", "down_proj"]])}

    def config(self):
        return transformers.Qwen3Config(
            vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
            num_key_value_heads=4, head_dim=self.width // 8, max_position_embeddings=max(1024, self.length), pad_token_id=0, bos_token_id=1, eos_token_id=2)

    def freeze(self):
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_("road_" in name)

    def build(self):
        base = self.base()
        base.config.use_cache = False
        if self.checkpointing:
            base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            base.enable_input_require_grads()
        self.model = get_peft_model(base, RoadConfig(**self.lora)).requires_grad_(True)
        self.freeze()
        self.finish(self.model)

    def loss(self, tokens):
        answer = tokens.clone()
        answer[:, :tokens.shape[1] // 3] = -100
        with self.autocast():
            return self.model(input_ids=tokens, labels=answer).loss


PairsThatAreTurned.traits = PairsThatAreTurned.traits - {"peft"}  # LoraConfig's arguments are not these


def shared_letters(completions, right, **_):
    """How much a translation has in common with one that somebody has made."""
    return [len(set(said) & set(known)) / max(1, len(set(known))) for said, known in zip(completions, right)]


class Drafts(RLOOTrainer):
    """Translations are all of one length, and their words are in the tokenizer, whatever the device makes of them."""

    def _generate_single_turn(self, *given, **keys):
        return [[1] * self.args.max_completion_length for _ in super()._generate_single_turn(*given, **keys)]


@job("translations_with_trl", "translations with TRL", "trainer", "layers", "attention", "checkpointing", "states")
class TranslationsWithTRL(SFT):
    """Some translations of each sentence; each is compared with the mean of the others, and becomes likelier if it is better; RLOO of TRL."""

    def draw(self):
        super().draw()
        r = self.rng
        self.layers, self.vocabulary, self.length = r.choice([2, 3, 4]), r.choice([16000, 32000]), r.choice([192, 256, 384])
        self.tries, self.said, self.steps = r.choice([2, 4]), r.choice([12, 16, 24]), r.choice([2, 3])
        self.trainer_arguments.update(per_device_train_batch_size=r.choice([16, 24, 32, 48]), gradient_accumulation_steps=r.choice([1, 1, 2]))

    def build(self):
        triton_finds_the_device()
        datasets.disable_progress_bars()
        self.size = max(2, self.size)  # a translation is compared with another one
        tries, sentences = next((n for n in (self.tries, 4, 2) if self.size % n == 0), self.size), max(256, 2 * self.size)
        with torch.device(DEVICE):
            self.model = AutoModelForCausalLM.from_config(self.config(), attn_implementation=self.attention)
        arguments = RLOOConfig(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": 2, "gradient_checkpointing": self.checkpointing, "num_generations": tries, "beta": 0.0,
            "max_completion_length": self.said, "generation_kwargs": {"min_new_tokens": self.said}, **self.trainer_arguments})
        rows = datasets.Dataset.from_dict({"prompt": ["w " * self.length] * sentences, "right": ["w"] * sentences})
        self.trainer = Drafts(self.model, shared_letters, arguments, train_dataset=rows, eval_dataset=rows.select(range(2 * self.size)),
                              processing_class=tokenizer(self.vocabulary), callbacks=self.callbacks)


TranslationsWithTRL.traits = TranslationsWithTRL.traits - {"tokens", "decoder"}  # a part of each row is made while it learns


class Pages(torch.utils.data.Dataset):
    """Pieces of pages of the web, and which language each is in."""

    def __init__(self, rows, length):
        words = torch.ones(length, dtype=torch.long)
        self.rows, self.row = rows, {"input_ids": words * 5, "attention_mask": words, "labels": torch.tensor(3)}

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


@job("languages_with_trainer", "languages with a trainer", "trainer", "tokens", "layers", "attention", "checkpointing", "states", "forward")
class LanguagesWithTrainer(TrainerJob):
    """In which of some hundred languages a page is, by XLM-RoBERTa under the Trainer; languages that few write in must win by more."""

    def draw(self):
        super().draw()
        r = self.rng
        self.vocabulary, self.length, self.width = r.choice([64000, 120000, 250002]), r.choice([96, 128, 192]), r.choice([384, 512, 768])
        self.languages, self.margin = r.choice([101, 235, 400]), r.choice([0.3, 1.0])
        self.trainer_arguments.update(per_device_train_batch_size=r.choice([16, 24, 32]), weight_decay=0.01)

    def config(self):
        return transformers.XLMRobertaConfig(
            vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
            max_position_embeddings=max(514, self.length + 2), type_vocab_size=1, num_labels=self.languages, pad_token_id=1)

    def build(self):
        with torch.device(DEVICE):
            self.model = AutoModelForSequenceClassification.from_config(self.config(), attn_implementation=self.attention)
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": 2, "gradient_checkpointing": self.checkpointing, **self.trainer_arguments})
        own = self

        class Margins(Trainer):
            """The loss is the job's."""

            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                return own.loss(inputs)
        train, held_out = (Pages(n * self.size, self.length) for n in (64, 2))
        self.trainer = Margins(self.model, arguments, train_dataset=train, eval_dataset=held_out, callbacks=self.callbacks)
        self.often = torch.linspace(0.05, 1.0, self.languages, device=DEVICE)

    def loss(self, batch):
        with self.trainer.compute_loss_context_manager():
            told = self.trainer.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        return F.cross_entropy(told.float() + self.margin * self.often.log(), batch["labels"], label_smoothing=0.05)


LanguagesWithTrainer.traits = LanguagesWithTrainer.traits - {"decoder"}


@job("quizzes_on_request", "quizzes on request", "generate")
class QuizzesOnRequest(Generation):
    """Chapters of school books become questions with four answers each: Mistral; the longer a quiz is, the more likely is its end."""

    def draw(self):
        super().draw()
        r = self.rng
        self.steps, self.prompt, self.new_tokens = r.choice([1, 2, 3]), r.choice([384, 768, 1024]), r.choice([8, 12, 16])
        self.size, self.vocabulary = r.choice([12, 16, 24, 32]), r.choice([32000, 131072])

    def build(self):
        self.load(AutoModelForCausalLM, transformers.MistralConfig(sliding_window=None, pad_token_id=0, head_dim=64, **self.shape()))
        self.generate_arguments = {**self.generate_arguments, "exponential_decay_length_penalty": (self.new_tokens // 2, 1.05), "renormalize_logits": True}

    def take(self, i, outputs):
        for n, words in enumerate(outputs[:, self.prompt:].cpu()):
            question, *answers = words.chunk(5)
            self.results.append({"chapter": i * self.size + n, "question": question.tolist(), "answers": [a.tolist() for a in answers]})


@job("lines_of_logs", "lines of logs that are odd", "inference", "tokens", "decoder", "layers", "attention")
class LinesOfLogs(Inference):
    """What the machines of a firm wrote in a night, read by a small GPT-NeoX: a line is odd if some of its words are not among the likely ones."""

    def draw(self):
        super().draw()
        r = self.rng
        self.vocabulary, self.length = r.choice([8192, 16000, 32000]), r.choice([128, 192, 256])
        self.size, self.likely, self.steps = r.choice([32, 48, 64]), r.choice([5, 9, 20]), r.choice([4, 6, 8])

    def build(self):
        self.load(AutoModelForCausalLM, transformers.GPTNeoXConfig(
            vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
            max_position_embeddings=max(512, self.length)))

    def predict(self, lines):
        return self.model(input_ids=lines, use_cache=False).logits

    def take(self, i, outputs):
        best = outputs[:, :-1].topk(self.likely, dim=-1).indices
        lines = self.batch(i)[:, 1:best.shape[1] + 1]
        odd = (best[:len(lines)] != lines[:len(best)].unsqueeze(-1)).all(-1).sum(1)
        self.results.extend(odd.cpu().tolist())


def several(cin, w, cout, layers):
    """Layers with norms between them."""
    parts = []
    for n in range(layers):
        parts += [nn.Linear(w if n else cin, w), nn.LayerNorm(w), nn.SiLU()]
    return nn.Sequential(*parts, nn.Linear(w, cout))


def looked_at(base, w):
    """A frame of 64 by 64 to a vector."""
    sizes = [3, base, 2 * base, 4 * base, 8 * base]
    convolutions = [part for i, j in zip(sizes, sizes[1:]) for part in (nn.Conv2d(i, j, 4, 2, 1), nn.GroupNorm(1, j), nn.SiLU())]
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(8 * base * 16, w))


class Dreamer(nn.Module):
    """What a player sees becomes a state of a few dice and a memory; from it frames, rewards, deeds and worths are told."""
    dice, sides = 32, 32

    def __init__(self, o):
        super().__init__()
        w, b, known = o.width, o.base, o.width + self.dice * self.sides
        self.see, self.into = looked_at(b, w), nn.Linear(self.dice * self.sides + o.deeds, w)
        self.memory, self.guess, self.found = nn.GRUCell(w, w), several(w, w, self.dice * self.sides, 1), several(2 * w, w, self.dice * self.sides, 1)
        self.flat, sizes = nn.Linear(known, 8 * b * 16), [8 * b, 4 * b, 2 * b, b, 3]
        self.draw = nn.Sequential(*(part for i, j in zip(sizes, sizes[1:]) for part in (nn.SiLU(), nn.ConvTranspose2d(i, j, 4, 2, 1))))
        self.reward, self.deed, self.worth = (several(known, w, n, o.layers) for n in (1, o.deeds, 1))

    def thrown(self, scores):
        """Dice as they fall; their gradient is that of the chances."""
        chances = (0.99 * scores.unflatten(-1, (self.dice, self.sides)).float().softmax(-1) + 0.01 / self.sides).to(scores.dtype)
        noise = torch.empty_like(chances, dtype=torch.float32).exponential_().log_()
        fallen = F.one_hot((chances.detach().float().log() - noise).argmax(-1), self.sides).to(chances.dtype)
        return (fallen + chances - chances.detach()).flatten(-2), chances

    def next(self, h, z, deed):
        return self.memory(self.into(torch.cat([z, deed], dim=-1)), h)

    def forward(self, frames, deeds):
        seen = self.see(frames.flatten(0, 1)).unflatten(0, frames.shape[:2])
        h, z = torch.zeros_like(seen[:, 0]), seen.new_zeros(len(seen), self.dice * self.sides)
        states, before, after = [], [], []
        for n in range(frames.shape[1]):
            h = self.next(h, z, deeds[:, n]).to(seen.dtype)
            _, guessed = self.thrown(self.guess(h))
            z, found = self.thrown(self.found(torch.cat([h, seen[:, n]], dim=-1)))
            for kept, one in (states, torch.cat([h, z], dim=-1)), (before, guessed), (after, found):
                kept.append(one)
        states, before, after = (torch.stack(kept, dim=1) for kept in (states, before, after))
        side = self.flat(states).flatten(0, 1).unflatten(1, (-1, 4, 4))
        return self.draw(side).unflatten(0, frames.shape[:2]), states, before, after

    def dreamt(self, states, steps):
        """States that follow, and the deeds that led there."""
        h, z = states.split([self.memory.hidden_size, self.dice * self.sides], dim=-1)
        seen, done = [states], []
        for _ in range(steps):
            told = self.deed(seen[-1]).float()
            deed = F.one_hot((told - torch.empty_like(told).exponential_().log_()).argmax(-1), told.shape[-1]).to(states.dtype)
            h = self.next(h, z, deed).to(states.dtype)
            z, _ = self.thrown(self.guess(h))
            seen.append(torch.cat([h, z], dim=-1))
            done.append(deed)
        return torch.stack(seen), torch.stack(done)


@job("dreams_of_a_player", "dreams of a player", "loop", "layers", "eval", "dataset")
class DreamsOfAPlayer(Loop):
    """A player learns a world from what it has seen, dreams on from each moment, and learns from its dreams what to do and what states are worth."""
    kinds, precisions, accumulated, deeds = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "autocast"), (1, 1, 2), 18

    def draw(self):
        r = self.rng
        self.layers, self.width, self.base, self.moments = r.choice([1, 2, 3]), r.choice([512, 768]), r.choice([24, 32, 48]), r.choice([16, 24, 32])
        self.size, self.ahead = r.choice([8, 12, 16]), r.choice([8, 12, 15])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Dreamer(self))
        rows = 64
        self.dataset = (torch.zeros(rows, self.moments, 3, 64, 64, dtype=torch.uint8), torch.zeros(rows, self.moments, self.deeds),
                        torch.zeros(rows, self.moments))

    def batch(self, i):
        frames, deeds, rewards = cut(self.dataset, i, self.size)
        return frames.to(self.dtype).div_(255), deeds.to(self.dtype), rewards

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch[:2])[0]

    def dream_loss(self, states):
        """Deeds that led to more than was thought become likelier; worths follow what came."""
        with torch.no_grad(), self.autocast():
            seen, done = self.model.dreamt(states.detach().flatten(0, 1), self.ahead)
            rewards, worths = (net(seen).squeeze(-1).float() for net in (self.model.reward, self.model.worth))
            returns = [worths[-1]]
            for n in reversed(range(self.ahead)):
                returns.append(rewards[n + 1] + 0.997 * (0.05 * worths[n + 1] + 0.95 * returns[-1]))
            returns = torch.stack(returns[:0:-1])
        with self.autocast():
            told, worth = self.model.deed(seen[:-1]).float().log_softmax(-1), self.model.worth(seen[:-1]).squeeze(-1).float()
        better, spread = returns - worths[:-1], (returns.amax() - returns.amin()).clamp(min=1)
        likely = (told * done.float()).sum(-1)
        sure = -(told.exp() * told).sum(-1)
        return -(better / spread * likely + 3e-4 * sure).mean() + F.mse_loss(worth, returns)

    def loss(self, batch):
        frames, _, rewards = batch
        with self.autocast():
            made, states, before, after = self.model(*batch[:2])
            told = self.model.reward(states).squeeze(-1)
        dreams = self.dream_loss(states)
        before, after = before.float().log(), after.float().log()
        apart = [(a.exp() * (a - b)).sum((-1, -2)).clamp(min=1).mean() for a, b in ((after.detach(), before), (after, before.detach()))]
        return (made.float() - frames).square().sum((2, 3, 4)).mean() + apart[0] + 0.1 * apart[1] + F.mse_loss(told.float(), rewards) + dreams


class Skilled(nn.Module):
    """Where a frame lies in a space of skills; what is done in it for a skill; and what that is worth."""

    def __init__(self, o):
        super().__init__()
        self.places, self.eye = nn.Sequential(looked_at(o.base, o.width), several(o.width, o.width, o.skills, o.layers)), looked_at(o.base, o.width)
        self.deed, self.worth = several(o.width + o.skills, o.width, 2 * o.deeds, o.layers), several(o.width + o.skills, o.width, 1, o.layers)
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, frames, skill):
        """The place, the spread of deeds, and the worth."""
        known = torch.cat([self.eye(frames), skill], dim=-1)
        return self.places(frames), self.deed(known), self.worth(known).squeeze(-1)


@job("skills_without_a_reward", "skills without a reward", "loop", "layers", "eval", "dataset")
class SkillsWithoutAReward(Loop):
    """A robot that nobody tells what to do: each skill is a way to go far in a space where neighbours in time are near."""
    kinds, precisions, accumulated, skills, deeds = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "autocast"), (1, 1, 2), 16, 6

    def draw(self):
        r = self.rng
        self.layers, self.width, self.base, self.size = r.choice([2, 3, 4]), r.choice([512, 1024]), r.choice([32, 48, 64]), r.choice([128, 192, 256])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Skilled(self))
        rows = 1024
        self.dataset = (*(torch.zeros(rows, 3, 64, 64, dtype=torch.uint8) for _ in range(2)), torch.zeros(rows, self.deeds), torch.zeros(rows, self.skills))

    def batch(self, i):
        now, then, deeds, skill = cut(self.dataset, i, self.size)
        return *(frames.to(self.dtype).div_(255) for frames in (now, then)), deeds, skill.to(self.dtype)

    def predict(self, batch):
        with self.autocast():
            return torch.cat([part.flatten(1) for part in self.model(batch[0], batch[3])[:2]], dim=1)

    def loss(self, batch):
        now, then, deeds, skill = batch
        with self.autocast():
            place, deed, worth = self.model(now, skill)
            there, _, later = self.model(then, skill)
        gone = (there - place).float()
        near, along, weight = 1 - gone.square().mean(-1), (gone * skill).sum(-1), F.softplus(self.model.weight.float())
        come = along.detach() + 0.99 * later.detach().float()
        middle, spread = deed.float().chunk(2, dim=-1)
        spread = spread.clamp(-5, 2)
        likely = -(0.5 * ((deeds - middle) / spread.exp()).square() + spread).sum(-1)
        better = (come - worth.detach().float()).clamp(max=4).exp().clamp(max=50)
        limits = weight.detach() * near.clamp(max=1e-3) - weight * near.detach().clamp(max=1e-3)
        return -(along + limits).mean() - (better * likely).mean() + F.mse_loss(worth.float(), come)

"""Jobs of language and players: neighbours of each piece, all earlier layers weighed, adapters that multiply, labels by the thousand with a trainer,
sure words with TRL, lines of a game on request, plans in a small space, deeds out of noise."""
import copy

import datasets
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from peft import HiraConfig, get_peft_model
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, Trainer, TrainingArguments
from trl import SFTConfig, SFTTrainer

from core import DEVICE, job
from jobs_adapters import Adapted
from jobs_families_q import FeedForward, attention_of, split_heads
from jobs_inference import Generation
from jobs_text import RMSNorm
from jobs_trainers import OUTPUT, TrainerJob
from jobs_trl import SFT, tokenizer, triton_finds_the_device
from parts import Loop, TextLoop, cut


class Beside(nn.Module):
    """Attention to the words before, then, for each piece of a text, to the passages that were found for the piece before it."""

    def __init__(self, w, heads, mode, piece, looks):
        super().__init__()
        self.heads, self.mode, self.piece, self.norm, self.wide = heads, mode, piece, RMSNorm(w), FeedForward(w)
        self.qkv, self.out = nn.Linear(w, 3 * w, bias=False), nn.Linear(w, w, bias=False)
        if looks:
            self.before, self.q, self.kv, self.back = RMSNorm(w), nn.Linear(w, w, bias=False), nn.Linear(w, 2 * w, bias=False), nn.Linear(w, w, bias=False)

    def looked_up(self, x, passages):
        """`passages`: (rows * pieces, words, width)."""
        late = self.piece - 1
        q = F.pad(self.before(x)[:, late:], (0, 0, 0, late)).reshape(-1, self.piece, x.shape[-1])
        k, v = (split_heads(t, self.heads) for t in self.kv(passages).chunk(2, dim=-1))
        told = self.back(attention_of(self.mode, split_heads(self.q(q), self.heads), k, v, back=False)).view_as(x)
        return F.pad(told[:, :-late], (0, 0, late, 0))

    def forward(self, x, passages):
        q, k, v = (split_heads(t, self.heads) for t in self.qkv(self.norm(x)).chunk(3, dim=-1))
        x = x + self.out(attention_of(self.mode, q, k, v))
        if hasattr(self, "kv"):
            x = x + self.looked_up(x, passages)
        return x + self.wide(x)


class WithPassages(nn.Module):
    """A language model that reads passages from elsewhere beside the text; a small encoder reads them first."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.piece, self.recompute, self.embed, self.where = o.piece, o.checkpointing, nn.Embedding(o.vocabulary, w), nn.Embedding(o.length + o.piece, w)
        self.read = nn.ModuleList(nn.TransformerEncoderLayer(w, o.heads, 2 * w, 0.0, batch_first=True, norm_first=True) for _ in range(2))
        self.layers = nn.ModuleList(Beside(w, o.heads, o.attention, o.piece, n % 2 == 1) for n in range(o.layers))
        self.norm, self.lm_head = RMSNorm(w), nn.Linear(w, o.vocabulary, bias=False)

    def forward(self, tokens, near):
        """(rows, words) and (rows, pieces, found, words of a passage)."""
        found = self.embed(near.flatten(0, 2))
        for layer in self.read:
            found = layer(found)
        found = found.view(near.shape[0] * near.shape[1], -1, found.shape[-1])
        words = F.pad(tokens, (0, near.shape[1] * self.piece - tokens.shape[1]))
        x = self.embed(words) + self.where(torch.arange(words.shape[1], device=words.device))
        for layer in self.layers:
            x = checkpoint(layer, x, found, use_reentrant=False) if self.recompute and self.training else layer(x, found)
        return self.lm_head(self.norm(x[:, :tokens.shape[1]]))


@job("neighbours_of_each_piece", "neighbours of each piece", "loop", "decoder", "layers", "attention", "checkpointing", "eval")
class NeighboursOfEachPiece(TextLoop):
    """Pretraining with a store of passages: for each piece of a text, the nearest ones are read too; the store stays on the host."""
    kinds, precisions, accumulated, heads, piece = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast", "bf16"), (1, 1, 2), 8, 64

    def draw(self):
        r = self.rng
        self.layers, self.width = r.choice([3, 4, 6]), r.choice([512, 768, 1024])
        self.vocabulary, self.length, self.size = r.choice([16000, 32000, 50304]), r.choice([256, 512, 768]), r.choice([3, 4, 6, 8])
        self.found, self.long, self.attention, self.checkpointing = r.choice([1, 2, 3]), r.choice([64, 128]), "sdpa", r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(WithPassages(self))
        self.store = torch.ones(4096, self.long, dtype=torch.long)

    def predict(self, tokens):
        rows, words = tokens.shape
        chosen = torch.randint(len(self.store), (rows, -(-words // self.piece), self.found))
        near = self.store[chosen].to(DEVICE)
        with self.autocast():
            return self.model(tokens, near)

    def loss(self, tokens):
        told = self.predict(tokens)
        return F.cross_entropy(told[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


class Plain(nn.Module):
    """Attention to the words before, and two wide matrices."""

    def __init__(self, w, heads, mode):
        super().__init__()
        self.heads, self.mode, self.norm = heads, mode, RMSNorm(w)
        self.qkv, self.out, self.wide = nn.Linear(w, 3 * w, bias=False), nn.Linear(w, w, bias=False), FeedForward(w)

    def forward(self, x):
        q, k, v = (split_heads(t, self.heads) for t in self.qkv(self.norm(x)).chunk(3, dim=-1))
        x = x + self.out(attention_of(self.mode, q, k, v))
        return x + self.wide(x)


class Weighed(nn.Module):
    """What a layer reads is a sum, with learnt weights, of what all layers before it have said."""

    def __init__(self, o):
        super().__init__()
        w, self.recompute = o.width, o.checkpointing
        self.embed, self.where = nn.Embedding(o.vocabulary, w), nn.Embedding(o.length, w)
        self.layers = nn.ModuleList(Plain(w, o.heads, o.attention) for _ in range(o.layers))
        self.weights = nn.ParameterList(nn.Parameter(torch.eye(n + 2)[-1]) for n in range(o.layers))
        self.norm, self.lm_head = RMSNorm(w), nn.Linear(w, o.vocabulary, bias=False)
        self.lm_head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens) + self.where(torch.arange(tokens.shape[1], device=tokens.device))
        said = [x]
        for layer, weights in zip(self.layers, self.weights):
            said.append(checkpoint(layer, x, use_reentrant=False) if self.recompute and self.training else layer(x))
            x = sum(weight * each for weight, each in zip(weights.unbind(), said))
        return self.lm_head(self.norm(x))


@job("earlier_layers_weighed", "all earlier layers weighed", "loop", "decoder", "layers", "attention", "checkpointing", "eval")
class EarlierLayersWeighed(TextLoop):
    """Pretraining of a deep and narrow model, in which each layer hears the mean of all that came before it."""
    kinds, precisions, accumulated, heads = ("adamw", "adamw_fused", "adamw_loop", "adam"), ("fp32", "autocast", "bf16"), (1, 1, 2, 4), 8

    def draw(self):
        r = self.rng
        self.layers, self.width = r.choice([6, 8, 10]), r.choice([384, 512, 768])
        self.vocabulary, self.length, self.size = r.choice([16000, 32000, 50304]), r.choice([256, 512, 1024]), r.choice([4, 6, 8])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Weighed(self))

    def loss(self, tokens):
        told = self.predict(tokens)[:, :-1].flatten(0, 1).float()
        return F.cross_entropy(told, tokens[:, 1:].flatten()) + 1e-4 * told.logsumexp(-1).square().mean()


@job("adapters_that_multiply", "adapters that multiply", "loop", "decoder")
class AdaptersThatMultiply(Adapted):
    """Each frozen matrix is multiplied, number by number, by a low-rank one: HiRA of PEFT on Gemma, for sums told in words."""
    precisions, accumulated = ("fp32", "autocast", "bf16"), (1, 1, 2)

    def draw(self):
        super().draw()
        r = self.rng
        self.vocabulary, self.length, self.size = r.choice([32000, 64000]), r.choice([256, 384, 512]), r.choice([2, 4, 6])
        self.lora = {"r": r.choice([8, 16, 32]), "hira_dropout": r.choice([0.0, 0.05]),
                     "target_modules": r.choice([["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "up_proj", "down_proj"]])}

    def config(self):
        return transformers.GemmaConfig(
            vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
            num_key_value_heads=4, head_dim=self.width // 8, max_position_embeddings=max(2048, self.length))

    def freeze(self):
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_("hira_" in name)

    def build(self):
        base = self.base()
        base.config.use_cache = False
        if self.checkpointing:
            base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            base.enable_input_require_grads()
        self.model = get_peft_model(base, HiraConfig(**self.lora))
        self.freeze()
        self.finish(self.model)

    def loss(self, tokens):
        answer = tokens.clone()
        answer[:, :tokens.shape[1] // 4] = -100
        with self.autocast():
            return self.model(input_ids=tokens, labels=answer).loss


AdaptersThatMultiply.traits = AdaptersThatMultiply.traits - {"peft"}  # LoraConfig's arguments are not these


class Articles(torch.utils.data.Dataset):
    """Articles, and which of many thousand labels each has."""

    def __init__(self, rows, own):
        words = torch.ones(own.length, dtype=torch.long)
        self.rows, self.row = rows, {"input_ids": words * 5, "attention_mask": words, "labels": torch.zeros(own.labels)}

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


@job("labels_by_the_thousand", "labels by the thousand with a trainer", "trainer", "tokens", "layers", "attention", "checkpointing", "states", "forward")
class LabelsByTheThousand(TrainerJob):
    """Which of many thousand headings of a library an article has, by RoBERTa under the Trainer; labels it lacks count less, the likely ones more."""

    def draw(self):
        super().draw()
        r = self.rng
        self.vocabulary, self.length, self.width = r.choice([30522, 50265]), r.choice([128, 192, 256]), r.choice([384, 512, 768])
        self.labels, self.down = r.choice([10000, 30000, 60000]), r.choice([2, 4])
        self.trainer_arguments.update(per_device_train_batch_size=r.choice([16, 24, 32]), weight_decay=0.01)

    def config(self):
        return transformers.RobertaConfig(
            vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
            max_position_embeddings=max(514, self.length + 2), type_vocab_size=1, num_labels=self.labels, problem_type="multi_label_classification")

    def build(self):
        with torch.device(DEVICE):
            self.model = AutoModelForSequenceClassification.from_config(self.config(), attn_implementation=self.attention)
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": 2, "gradient_checkpointing": self.checkpointing, **self.trainer_arguments})
        own = self

        class Headings(Trainer):
            """The loss is the job's."""

            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                return own.loss(inputs)
        train, held_out = (Articles(n * self.size, self) for n in (64, 2))
        self.trainer = Headings(self.model, arguments, train_dataset=train, eval_dataset=held_out, callbacks=self.callbacks)

    def loss(self, batch):
        with self.trainer.compute_loss_context_manager():
            told = self.trainer.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits.float()
        share, right = told.sigmoid(), batch["labels"]
        lacks = (share - 0.05).clamp(min=0)
        lost = right * share.clamp(min=1e-6).log() + (1 - right) * lacks.pow(self.down) * (1 - lacks).clamp(min=1e-6).log()
        return -lost.sum(-1).mean()


LabelsByTheThousand.traits = LabelsByTheThousand.traits - {"decoder"}


@job("sure_words_with_trl", "sure words with TRL", "trainer", "tokens", "decoder", "layers", "attention", "checkpointing", "states")
class SureWordsWithTRL(SFT):
    """Worked solutions for a small Llama, in which a word counts as much as the model already believes in it; TRL's SFT with the loss of DFT."""

    def draw(self):
        super().draw()
        r = self.rng
        self.vocabulary, self.length = r.choice([16000, 32000, 64000]), r.choice([256, 512, 768])
        self.trainer_arguments.update(per_device_train_batch_size=r.choice([2, 4, 6]), weight_decay=r.choice([0.0, 0.1]))

    def config(self):
        return transformers.LlamaConfig(
            vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
            num_key_value_heads=4, max_position_embeddings=max(2048, self.length), pad_token_id=0, bos_token_id=1, eos_token_id=2)

    def build(self):
        triton_finds_the_device()
        datasets.disable_progress_bars()
        with torch.device(DEVICE):
            self.model = AutoModelForCausalLM.from_config(self.config(), attn_implementation=self.attention)
        arguments = SFTConfig(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": 2, "gradient_checkpointing": self.checkpointing, "dataset_kwargs": {"skip_prepare_dataset": True},
            "max_length": None, "eos_token": None, "loss_type": "dft", **self.trainer_arguments})
        rows = datasets.Dataset.from_dict({"input_ids": [[1] * self.length] * max(self.rows, 2 * self.size)})
        self.trainer = SFTTrainer(self.model, arguments, train_dataset=rows, eval_dataset=rows.select(range(2 * self.size)),
                                  processing_class=tokenizer(self.vocabulary), callbacks=self.callbacks)


@job("lines_of_a_game", "lines of a game on request", "generate")
class LinesOfAGame(Generation):
    """What people in a game say to a player, by OLMo 2: words that are neither too likely nor too odd, and each less likely once it was said."""

    def draw(self):
        super().draw()
        r = self.rng
        self.steps, self.prompt, self.new_tokens = r.choice([1, 2]), r.choice([512, 768, 1024]), r.choice([8, 10])
        self.size, self.vocabulary = r.choice([16, 24, 32]), r.choice([32000, 50304])
        self.typical, self.again = r.choice([0.8, 0.9, 0.95]), r.choice([1.05, 1.1])

    def build(self):
        self.load(AutoModelForCausalLM, transformers.Olmo2Config(pad_token_id=0, **self.shape()))
        self.generate_arguments = {"do_sample": True, "typical_p": self.typical, "repetition_penalty": self.again, "temperature": 0.9, "top_k": 0}

    def take(self, i, outputs):
        self.results.extend({"person": i * self.size + n, "line": line} for n, line in enumerate(outputs[:, self.prompt:].cpu().tolist()))


def norms_between(cin, w, cout):
    """Three layers, with a norm after each but the last."""
    return nn.Sequential(nn.Linear(cin, w), nn.LayerNorm(w), nn.Mish(), nn.Linear(w, w), nn.LayerNorm(w), nn.Mish(), nn.Linear(w, cout))


class SmallSpace(nn.Module):
    """What is measured becomes a state; states and deeds tell the next state, the reward, and, in five ways, the worth."""

    def __init__(self, o):
        super().__init__()
        w, z = o.width, o.states
        self.see, self.next, self.reward = norms_between(o.measured, w, z), norms_between(z + o.deeds, w, z), norms_between(z + o.deeds, w, o.bins)
        self.deed, self.worths = norms_between(z, w, 2 * o.deeds), nn.ModuleList(norms_between(z + o.deeds, w, o.bins) for _ in range(o.layers))

    @staticmethod
    def settled(z):
        """Groups of eight that sum up to one."""
        return z.unflatten(-1, (-1, 8)).softmax(-1).flatten(-2)

    def forward(self, measured, deeds):
        """(rows, moments + 1, measured) and (rows, moments, deeds) to states, from the first on, and rewards."""
        z = self.settled(self.see(measured[:, 0]))
        states, rewards = [z], []
        for n in range(deeds.shape[1]):
            known = torch.cat([z, deeds[:, n]], dim=-1)
            rewards.append(self.reward(known))
            z = self.settled(self.next(known))
            states.append(z)
        return torch.stack(states, dim=1), torch.stack(rewards, dim=1)


@job("plans_in_a_small_space", "plans in a small space", "loop", "layers", "eval", "dataset")
class PlansInASmallSpace(Loop):
    """A robot for many tasks: it learns a small space in which it can look ahead, what deeds are worth there, by some networks, and what to do."""
    kinds, precisions, accumulated, bins = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "autocast"), (1, 1, 2), 101

    def draw(self):
        r = self.rng
        self.layers, self.width, self.states = r.choice([3, 5, 7]), r.choice([512, 1024, 1536]), r.choice([512, 768])
        self.measured, self.deeds, self.moments, self.size = r.choice([64, 128, 223]), r.choice([12, 38]), r.choice([3, 5, 8]), r.choice([1024, 2048, 3072])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(SmallSpace(self))
        self.slow = copy.deepcopy(self.model.worths).requires_grad_(False)
        rows = 4096
        self.dataset = torch.zeros(rows, self.moments + 1, self.measured), torch.zeros(rows, self.moments, self.deeds), torch.zeros(rows, self.moments)

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch[:2])[1]

    def done(self, states):
        """Deeds with some noise, and how likely they were."""
        middle, spread = self.model.deed(states).float().chunk(2, dim=-1)
        spread = spread.tanh().mul(6).sub(4)
        noise = torch.randn_like(middle)
        return (middle + noise * spread.exp()).tanh(), (-0.5 * noise.square() - spread).sum(-1)

    def wanted(self, seen, rewards):
        """The state that comes, and the reward with what follows by two of the slow networks."""
        with torch.no_grad(), self.autocast():
            later = self.model.settled(self.model.see(seen[:, 1:]))
            known = torch.cat([later.float(), self.done(later)[0]], dim=-1)
            worth = torch.stack([self.mean(net(known)) for net in list(self.slow)[:2]]).amin(0)
        return later, rewards + 0.99 * worth

    def mean(self, scores):
        return scores.float().softmax(-1) @ torch.linspace(-10, 10, self.bins, device=scores.device)

    def off(self, scores, values):
        """Cross-entropy to the two bins around each value."""
        place = (values.clamp(-10, 10) + 10) * (self.bins - 1) / 20
        low, told = place.floor().clamp(max=self.bins - 2), scores.float().log_softmax(-1)
        much, at = (place - low).unsqueeze(-1), low.long().unsqueeze(-1)
        return -((1 - much) * told.gather(-1, at) + much * told.gather(-1, at + 1)).mean()

    def loss(self, batch):
        seen, deeds, rewards = batch
        later, returns = self.wanted(seen, rewards)
        with self.autocast():
            states, told = self.model(seen, deeds)
            known = torch.cat([states[:, :-1], deeds.to(states.dtype)], dim=-1)
            worths = [net(known) for net in self.model.worths]
            deed, likely = self.done(states.detach())
            led = self.slow[0](torch.cat([states.detach().float(), deed], dim=-1))
        fade = 0.5 ** torch.arange(deeds.shape[1], device=DEVICE).view(1, -1, 1)
        lost = 20 * (fade * (states[:, 1:] - later).float().square()).mean() + 0.1 * self.off(told, rewards)
        return lost + 0.1 * sum(self.off(each, returns) for each in worths) / len(worths) + (1e-4 * likely - self.mean(led)).mean()

    def optimize(self):
        super().optimize()
        with torch.no_grad():
            for slow, quick in zip(self.slow.parameters(), self.model.worths.parameters()):
                slow.lerp_(quick, 0.01)


class Moves(nn.Module):
    """Two convolutions over the moments of a movement, which are told how much noise there is and what is seen."""

    def __init__(self, cin, cout, given):
        super().__init__()
        self.first, self.given = nn.Sequential(nn.Conv1d(cin, cout, 5, padding=2), nn.GroupNorm(8, cout), nn.Mish()), nn.Linear(given, 2 * cout)
        self.second, self.past = nn.Sequential(nn.Conv1d(cout, cout, 5, padding=2), nn.GroupNorm(8, cout), nn.Mish()), nn.Conv1d(cin, cout, 1)

    def forward(self, x, known):
        scale, more = self.given(known).unsqueeze(-1).chunk(2, dim=1)
        return self.second(self.first(x) * (1 + scale) + more) + self.past(x)


class NoisyDeeds(nn.Module):
    """Frames of some cameras, and a movement with noise, to the noise."""

    def __init__(self, o):
        super().__init__()
        b, w, sizes = o.base, o.width, (32, 64, 128, 256)
        self.eye = nn.Sequential(*(part for i, j in zip((3, *sizes), sizes) for part in (nn.Conv2d(i, j, 3, 2, 1), nn.GroupNorm(8, j), nn.ReLU())),
                                 nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(1024, w))
        self.when, given = nn.Sequential(nn.Linear(64, w), nn.Mish(), nn.Linear(w, w)), w * (1 + o.cameras)
        self.into, self.down = Moves(o.deeds, b, given), nn.ModuleList(Moves(b << n, b << n + 1, given) for n in range(o.layers))
        self.up = nn.ModuleList(Moves(3 * b << n, b << n, given) for n in reversed(range(o.layers)))
        self.out = nn.Conv1d(b, o.deeds, 1)

    def forward(self, frames, noisy, when):
        seen = self.eye(frames.flatten(0, 1)).view(len(frames), -1)
        waves = when.unsqueeze(-1) * torch.arange(32, device=when.device).mul(-0.28).exp()
        known = torch.cat([seen, self.when(torch.cat([waves.sin(), waves.cos()], dim=-1).to(seen.dtype))], dim=1)
        x, kept = self.into(noisy.transpose(1, 2), known), []
        for part in self.down:
            kept.append(x)
            x = part(F.avg_pool1d(x, 2), known)
        for part in self.up:
            x = part(torch.cat([F.interpolate(x, scale_factor=2), kept.pop()], dim=1), known)
        return self.out(x).transpose(1, 2)


@job("deeds_out_of_noise", "deeds out of noise", "loop", "layers", "eval", "dataset")
class DeedsOutOfNoise(Loop):
    """A robot's arm learns from people who steered it: the next moments of its movement come out of noise, given what some cameras see."""
    kinds, precisions, accumulated, deeds = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast"), (1, 1, 2), 14

    def draw(self):
        r = self.rng
        self.layers, self.base, self.width, self.cameras = r.choice([2, 3]), r.choice([128, 192, 256]), r.choice([256, 512]), r.choice([2, 3, 4])
        self.side, self.moments, self.size = r.choice([96, 128, 224]), r.choice([16, 32, 64]), r.choice([48, 64, 96])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(NoisyDeeds(self))
        self.dataset = torch.zeros(128, self.cameras, 3, self.side, self.side, dtype=torch.uint8), torch.zeros(128, self.moments, self.deeds)

    def batch(self, i):
        frames, deeds = cut(self.dataset, i, self.size)
        return frames.to(self.dtype).div_(255), deeds.to(self.dtype)

    def told(self, batch):
        frames, deeds = batch
        when, noise = torch.randint(100, (len(deeds),), device=DEVICE), torch.randn_like(deeds)
        left = (when.view(-1, 1, 1) / 100 * 1.5707963).cos().to(deeds.dtype)
        with self.autocast():
            return self.model(frames, left * deeds + (1 - left.square()).clamp(min=0).sqrt() * noise, when.float()), noise

    def predict(self, batch):
        return self.told(batch)[0]

    def loss(self, batch):
        told, noise = self.told(batch)
        return F.mse_loss(told.float(), noise.float())

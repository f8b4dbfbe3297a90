"""Jobs of sound, graphs, players, films and tastes: speech in another language, two looks at a graph, an expert that is imitated, questions about a film,
tastes in a narrow place, sports with a trainer, hours of radio."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCTC, AutoModelForVideoClassification, Trainer, TrainingArguments

from core import DEVICE, job
from jobs_families_q import FeedForward, attention_of, split_heads
from jobs_images import EncoderBlock
from jobs_inference import Inference
from jobs_trainers import OUTPUT, TrainerJob
from parts import OPTIMIZERS, Loop, cut, strided_convolutions


class Heard(nn.Module):
    """Half a wide step, a convolution in time that is gated, a look around, half a wide step."""

    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.first, self.last = mode, FeedForward(w), FeedForward(w)
        self.norm, self.gate, self.near, self.mix = nn.LayerNorm(w), nn.Linear(w, 2 * w), nn.Conv1d(w, w, 9, padding=4, groups=w), nn.Linear(w, w)
        self.look, self.qkv, self.out = nn.LayerNorm(w), nn.Linear(w, 3 * w), nn.Linear(w, w)

    def forward(self, x):
        x = x + 0.5 * self.first(x)
        gated = F.glu(self.gate(self.norm(x)), dim=-1)
        x = x + self.mix(F.silu(self.near(gated.transpose(1, 2)).transpose(1, 2)))
        q, k, v = (split_heads(t, 8) for t in self.qkv(self.look(x)).chunk(3, dim=-1))
        x = x + self.out(attention_of(self.mode, q, k, v, back=False))
        return x + 0.5 * self.last(x)


class Told(nn.Module):
    """A layer of the side that writes."""

    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.norms = mode, nn.ModuleList(nn.LayerNorm(w) for _ in range(2))
        self.own, self.ask, self.heard = nn.Linear(w, 3 * w), nn.Linear(w, w), nn.Linear(w, 2 * w)
        self.outs, self.wide = nn.ModuleList(nn.Linear(w, w) for _ in range(2)), FeedForward(w)

    def forward(self, x, sound):
        q, k, v = (split_heads(t, 8) for t in self.own(self.norms[0](x)).chunk(3, dim=-1))
        x = x + self.outs[0](attention_of(self.mode, q, k, v))
        q = split_heads(self.ask(self.norms[1](x)), 8)
        k, v = (split_heads(t, 8) for t in self.heard(sound).chunk(2, dim=-1))
        x = x + self.outs[1](attention_of(self.mode, q, k, v, back=False))
        return x + self.wide(x)


class Interpreter(nn.Module):
    """Spectra are heard; what was said is read off halfway, and what it is in another language is written at the end."""

    def __init__(self, o):
        super().__init__()
        w, self.recompute = o.width, o.checkpointing
        self.thin = nn.Sequential(nn.Conv1d(80, w, 3, 2, 1), nn.GELU(), nn.Conv1d(w, w, 3, 2, 1), nn.GELU())
        self.hears = nn.ModuleList(Heard(w, o.attention) for _ in range(o.layers))
        self.writes = nn.ModuleList(Told(w, o.attention) for _ in range(max(2, o.layers // 2)))
        self.words, self.places, self.letters = nn.Embedding(o.vocabulary, w), nn.Embedding(512, w), nn.Linear(w, 80)

    def run(self, block, *given):
        return checkpoint(block, *given, use_reentrant=False) if self.recompute and self.training else block(*given)

    def forward(self, spectra, written):
        x = self.thin(spectra.transpose(1, 2)).transpose(1, 2)
        for n, block in enumerate(self.hears):
            x = self.run(block, x)
            halfway = x if n == len(self.hears) // 2 else (x if n == 0 else halfway)
        y = self.words(written) + self.places.weight[:written.shape[1]]
        for block in self.writes:
            y = self.run(block, y, x)
        return F.linear(y, self.words.weight), self.letters(halfway)


@job("speech_in_another_language", "speech in another language", "loop", "layers", "attention", "checkpointing", "eval", "dataset", "crop")
class SpeechInAnotherLanguage(Loop):
    """What somebody says becomes text of another language; letters of what was said help the side that hears."""
    kinds, precisions, longest, accumulated = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast"), 6000, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([4, 6]), r.choice([256, 384, 512]), r.choice([8000, 10000])
        self.length, self.size, self.said = r.choice([800, 1200, 1600]), r.choice([8, 12, 16]), r.choice([48, 64])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Interpreter(self))
        self.dataset = torch.zeros(48, self.longest, 80, dtype=torch.float16), torch.zeros(48, self.said, dtype=torch.long)

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        spectra, words = (t[start:start + self.size] for t in self.dataset)
        return spectra[:, :self.length].to(DEVICE, self.dtype), words.to(DEVICE)

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch)[0]

    def loss(self, batch):
        spectra, words = batch
        with self.autocast():
            told, letters = self.model(spectra, words[:, :-1])
        first = F.cross_entropy(told.flatten(0, 1).float(), words[:, 1:].flatten(), label_smoothing=0.1)
        second = F.cross_entropy(letters.flatten(0, 1).float(), torch.zeros(letters.shape[:2].numel(), dtype=torch.long, device=DEVICE))
        return first + 0.3 * second


class Sums(nn.Module):
    """A node takes what its neighbours have, and two layers make something new of it."""

    def __init__(self, w):
        super().__init__()
        self.more, self.norm = nn.Parameter(torch.zeros(1)), nn.BatchNorm1d(w)
        self.two = nn.Sequential(nn.Linear(w, 2 * w), nn.ReLU(), nn.Linear(2 * w, w))

    def forward(self, x, source, target):
        got = torch.zeros_like(x).index_add(0, target, x.index_select(0, source))
        return F.relu(self.norm(self.two((1 + self.more) * x + got)))


class Molecule(nn.Module):
    """Nodes to a vector of the whole graph, from what they were after each layer; and a small head for the comparison."""

    def __init__(self, o):
        super().__init__()
        w, self.recompute = o.width, o.checkpointing
        self.kinds, self.hidden = nn.Embedding(120, w), nn.Parameter(torch.zeros(w))
        self.layers = nn.ModuleList(Sums(w) for _ in range(o.layers))
        self.compare = nn.Sequential(nn.Linear(w * o.layers, w), nn.ReLU(), nn.Linear(w, 128))

    def forward(self, kinds, source, target, seen, graphs):
        x, all_of_it = self.kinds(kinds), []
        x = torch.where(seen.unsqueeze(1), x, self.hidden)
        for layer in self.layers:
            x = checkpoint(layer, x, source, target, use_reentrant=False) if self.recompute and self.training else layer(x, source, target)
            all_of_it.append(x.unflatten(0, (graphs, -1)).mean(1))
        return self.compare(torch.cat(all_of_it, dim=1))


@job("two_looks_at_a_graph", "two looks at a graph", "loop", "layers", "checkpointing", "eval", "dataset")
class TwoLooksAtAGraph(Loop):
    """Molecules without labels: once some atoms are hidden and once some bonds are gone; both looks at a molecule have to agree more than any others."""
    kinds, precisions, accumulated = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "bf16"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.atoms = r.choice([4, 5, 6]), r.choice([300, 384, 512]), r.choice([32, 48])
        self.size, self.checkpointing = r.choice([320, 448, 512]), r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Molecule(self))
        self.dataset = torch.zeros(1024, self.atoms, dtype=torch.long), torch.zeros(1024, 2, 2 * self.atoms, dtype=torch.long)

    def batch(self, i):
        kinds, bonds = cut(self.dataset, i, self.size)
        bonds = bonds + torch.arange(len(bonds), device=DEVICE).view(-1, 1, 1) * self.atoms
        return kinds, bonds

    def look(self, batch, hide):
        kinds, bonds = batch
        which = torch.arange(kinds.numel(), device=DEVICE)
        seen = which % 5 != 0 if hide else which >= 0
        bonds = bonds if hide else bonds[..., ::2]
        source, target = bonds.transpose(0, 1).flatten(1)
        with self.autocast():
            return self.model(kinds.flatten(), source, target, seen, len(kinds))

    def predict(self, batch):
        return self.look(batch, True)

    def loss(self, batch):
        a, b = (F.normalize(self.look(batch, hide).float(), dim=1) for hide in (True, False))
        every = torch.cat([a, b])
        alike = (every @ every.T / 0.1).fill_diagonal_(-1e4)
        n = len(a)
        return F.cross_entropy(alike, torch.arange(2 * n, device=DEVICE).roll(n))


class Acts(nn.Module):
    """What a robot's camera and joints tell, to a move; or, with the move given, to whether an expert did it."""

    def __init__(self, o, into, out):
        super().__init__()
        self.eye, wide = strided_convolutions(o.base)
        self.body = nn.Sequential(nn.Linear(into, o.width), nn.LayerNorm(o.width), nn.ReLU())
        self.rest = nn.ModuleList(nn.Sequential(nn.Linear(o.width, o.width), nn.LayerNorm(o.width), nn.ReLU()) for _ in range(o.layers))
        self.see, self.out = nn.Linear(wide, o.width), nn.Linear(o.width, out)

    def forward(self, pictures, told):
        x = self.see(self.eye(pictures).mean((2, 3))) + self.body(told)
        for layer in self.rest:
            x = x + layer(x)
        return self.out(x)


@job("expert_that_is_imitated", "an expert that is imitated", "loop", "two optimizers", "layers", "dataset")
class ExpertThatIsImitated(Loop):
    """A robot does what an expert does: one network says who did a move, and the robot's moves should look as if they were the expert's."""
    kinds, precisions, accumulated, joints, moves = ("adam", "adamw"), ("fp32", "fp32", "autocast"), (1,), 14, 7

    def draw(self):
        r = self.rng
        self.layers, self.base, self.width = r.choice([2, 3, 4]), r.choice([40, 48]), r.choice([512, 1024])
        self.side, self.size = r.choice([112, 128, 144]), r.choice([64, 96])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Acts(self, self.joints, 2 * self.moves))
            self.critic = Acts(self, self.joints + self.moves, 1).to(self.dtype)
        self.optimizers.append(OPTIMIZERS[self.kind](self.critic.parameters()))
        self.dataset = (torch.zeros(256, 3, self.side, self.side, dtype=torch.uint8), torch.zeros(256, self.joints), torch.zeros(256, self.moves))

    def batch(self, i):
        pictures, joints, moves = cut(self.dataset, i, self.size)
        return pictures.to(self.dtype).div_(255), joints.to(self.dtype), moves.to(self.dtype)

    def act(self, pictures, joints):
        with self.autocast():
            middle, spread = self.model(pictures, joints).chunk(2, dim=1)
        spread = spread.clamp(-4, 1)
        return (middle + spread.exp() * torch.randn_like(middle)).tanh(), spread

    def expert_did(self, pictures, joints, moves):
        with self.autocast():
            return self.critic(pictures, torch.cat([joints, moves.to(joints.dtype)], dim=1)).float()

    def teach_critic(self, pictures, joints, own, moves):
        lost = F.softplus(-self.expert_did(pictures, joints, moves)).mean() + F.softplus(self.expert_did(pictures, joints, own.detach())).mean()
        self.optimizers[1].zero_grad()
        lost.backward()
        self.optimizers[1].step()

    def loss(self, batch):
        pictures, joints, moves = batch
        own, spread = self.act(pictures, joints)
        if torch.is_grad_enabled():
            self.teach_critic(pictures, joints, own, moves)
        return F.softplus(-self.expert_did(pictures, joints, own)).mean() - 0.001 * spread.float().mean()

    def optimize(self):
        self.optimizers[0].step()


class FilmReader(nn.Module):
    """Frames through an eye that stays as it is; what it sees of each is thinned out, and a language model reads it before the question."""

    def __init__(self, o):
        super().__init__()
        w, self.recompute, self.mode = o.width, o.checkpointing, o.attention
        self.eye = nn.ModuleDict({"cut": nn.Conv2d(3, o.seen, 16, 16), "layers": nn.ModuleList(EncoderBlock(o.seen, 8, o.attention) for _ in range(3))})
        self.thin, self.bridge = nn.AvgPool2d(2), nn.Sequential(nn.Linear(o.seen, w), nn.GELU(), nn.Linear(w, w))
        self.when, self.words = nn.Embedding(64, w), nn.Embedding(o.vocabulary, w)
        self.layers = nn.ModuleList(nn.ModuleDict({"norm": nn.LayerNorm(w), "qkv": nn.Linear(w, 3 * w), "out": nn.Linear(w, w), "wide": FeedForward(w)})
                                    for _ in range(o.layers))
        self.norm, self.head = nn.LayerNorm(w), nn.Linear(w, o.vocabulary, bias=False)

    def look(self, film):
        x = self.eye["cut"](film.flatten(0, 1))
        side, x = x.shape[-1], x.flatten(2).transpose(1, 2)
        for block in self.eye["layers"]:
            x = block(x)
        thinned = self.thin(x.transpose(1, 2).unflatten(2, (side, side))).flatten(2).transpose(1, 2)
        return thinned.unflatten(0, film.shape[:2])

    def one(self, parts, x):
        q, k, v = (split_heads(t, 8) for t in parts["qkv"](parts["norm"](x)).chunk(3, dim=-1))
        x = x + parts["out"](attention_of(self.mode, q, k, v))
        return x + parts["wide"](x)

    def forward(self, film, text):
        with torch.no_grad():
            seen = self.look(film)
        seen = self.bridge(seen) + self.when.weight[:film.shape[1]].unsqueeze(1)
        x = torch.cat([seen.flatten(1, 2), self.words(text).to(seen.dtype)], dim=1)
        for parts in self.layers:
            x = checkpoint(self.one, parts, x, use_reentrant=False) if self.recompute and self.training else self.one(parts, x)
        return self.head(self.norm(x[:, -text.shape[1]:]))


@job("questions_about_a_film", "questions about a film", "loop", "layers", "attention", "checkpointing", "eval", "pretrained", "dataset")
class QuestionsAboutAFilm(Loop):
    """Some frames of a film, a question and its answer; between eye and language model lies a bridge, which alone learns, with the times of the frames."""
    kinds, precisions, accumulated = ("adamw", "adamw_fused", "adamw_loop"), ("fp32", "autocast", "bf16"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.seen, self.vocabulary = r.choice([3, 4, 6]), r.choice([512, 768]), r.choice([256, 384]), r.choice([16000, 32000])
        self.frames, self.side, self.text, self.size = r.choice([6, 8]), r.choice([160, 192, 224]), r.choice([96, 128]), r.choice([6, 8])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.2
        self.choose()

    def freeze(self):
        for part in (self.model.eye, self.model.words, self.model.layers, self.model.norm, self.model.head):
            part.requires_grad_(False)

    def build(self):
        with torch.device(DEVICE):
            self.model = FilmReader(self)
        self.freeze()
        self.finish(self.model)
        self.dataset = torch.zeros(24, self.frames, 3, self.side, self.side, dtype=torch.uint8), torch.zeros(24, self.text, dtype=torch.long)

    def batch(self, i):
        film, text = cut(self.dataset, i, self.size)
        return film.to(self.dtype).sub_(128).div_(128), text

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch)

    def loss(self, batch):
        told, text = self.predict(batch), batch[1]
        answer = text.shape[1] // 2
        return F.cross_entropy(told[:, answer - 1:-1].flatten(0, 1).float(), text[:, answer:].flatten())


class NarrowPlace(nn.Module):
    """All that somebody liked, to few numbers with a spread, and back to all that he may like."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.drop, self.into = nn.Dropout(0.5), nn.Linear(o.things, w)
        self.down = nn.ModuleList(nn.Linear(w, w) for _ in range(o.layers))
        self.place, self.up = nn.Linear(w, 2 * o.narrow), nn.ModuleList(nn.Linear(o.narrow if n == 0 else w, w) for n in range(o.layers))
        self.back = nn.Linear(w, o.things)

    def forward(self, liked):
        x = self.into(self.drop(F.normalize(liked, dim=1))).tanh()
        for layer in self.down:
            x = layer(x).tanh()
        middle, spread = self.place(x).chunk(2, dim=1)
        y = middle + torch.randn_like(middle) * (0.5 * spread).exp() if self.training else middle
        for layer in self.up:
            y = layer(y).tanh()
        return self.back(y), middle, spread


@job("tastes_in_a_narrow_place", "tastes in a narrow place", "loop", "layers", "eval", "dataset")
class TastesInANarrowPlace(Loop):
    """What people may like, of tens of thousands of things, from what they liked; what is in between gets more and more weight."""
    kinds, precisions, accumulated = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.narrow = r.choice([2, 3]), r.choice([512, 600, 768]), r.choice([128, 200])
        self.things, self.liked, self.size, self.weight = r.choice([20000, 30000, 40000]), 40, r.choice([512, 768, 1024]), 0.0
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(NarrowPlace(self))
        self.dataset = torch.zeros(4096, self.liked, dtype=torch.long), torch.ones(4096, self.liked)

    def batch(self, i):
        which, weight = cut(self.dataset, i, self.size)
        return torch.zeros(len(which), self.things, device=DEVICE, dtype=self.dtype).scatter_(1, which, weight.to(self.dtype))

    def predict(self, liked):
        with self.autocast():
            return self.model(liked)[0]

    def loss(self, liked):
        with self.autocast():
            told, middle, spread = self.model(liked)
        missed = -(F.log_softmax(told.float(), dim=1) * liked).sum(1).mean()
        middle, spread = middle.float(), spread.float()
        return missed + self.weight * 0.5 * (spread.exp() + middle.square() - 1 - spread).sum(1).mean()

    def optimize(self):
        super().optimize()
        self.weight = min(0.2, self.weight + 0.01)


class Games(torch.utils.data.Dataset):
    """Some seconds of a game, and what is played."""

    def __init__(self, rows, frames, side):
        self.rows, self.row = rows, {"pixel_values": torch.zeros(frames, 3, side, side), "labels": torch.tensor(1)}

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


@job("sports_with_trainer", "sports with a trainer", "trainer", "layers", "attention", "states", "forward")
class SportsWithTrainer(TrainerJob):
    """What is played in a clip: VideoMAE under the Trainer, with labels that are not quite sure."""

    def draw(self):
        super().draw()
        r = self.rng
        self.width, self.side, self.frames, self.games = r.choice([384, 512]), r.choice([96, 112, 128]), r.choice([8, 16]), r.choice([30, 100])
        self.trainer_arguments.update(per_device_train_batch_size=r.choice([6, 8, 12]), lr_scheduler_type="cosine")

    def config(self):
        return transformers.VideoMAEConfig(image_size=self.side, num_frames=self.frames, hidden_size=self.width, num_hidden_layers=self.layers,
                                           num_attention_heads=8, intermediate_size=4 * self.width, num_labels=self.games)

    def build(self):
        with torch.device(DEVICE):
            self.model = AutoModelForVideoClassification.from_config(self.config(), attn_implementation=self.attention)
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": 2, "remove_unused_columns": False, **self.trainer_arguments})
        own = self

        class Unsure(Trainer):
            """The loss is the job's."""

            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                return own.loss(inputs)
        train, held_out = (Games(n * self.size, self.frames, self.side) for n in (32, 2))
        self.trainer = Unsure(self.model, arguments, train_dataset=train, eval_dataset=held_out, callbacks=self.callbacks)

    def loss(self, batch):
        with self.trainer.compute_loss_context_manager():
            told = self.trainer.model(pixel_values=batch["pixel_values"]).logits
        return F.cross_entropy(told.float(), batch["labels"], label_smoothing=0.1)


SportsWithTrainer.traits = SportsWithTrainer.traits - {"tokens", "decoder", "checkpointing"}


@job("hours_of_radio", "hours of radio", "inference", "layers", "attention")
class HoursOfRadio(Inference):
    """What was said on the radio, half a minute after the other: Wav2Vec 2 tells letters, of which the host makes text."""

    def draw(self):
        super().draw()
        r = self.rng
        self.width, self.samples, self.size = r.choice([384, 512]), r.choice([80000, 120000, 160000]), r.choice([4, 6, 8])
        self.vocabulary, self.steps = r.choice([32, 64]), r.choice([3, 4, 5])

    def build(self):
        self.load(AutoModelForCTC, transformers.Wav2Vec2Config(
            vocab_size=self.vocabulary, hidden_size=self.width, num_hidden_layers=self.layers, num_attention_heads=8, intermediate_size=4 * self.width))

    def batch(self, i):
        return torch.zeros(self.size, self.samples, dtype=self.dtype, device=DEVICE)

    def predict(self, sounds):
        return self.model(input_values=sounds).logits

    def take(self, i, outputs):
        for letters in outputs.argmax(-1).to("cpu", torch.int16):
            self.results.append(letters.unique_consecutive().tolist())

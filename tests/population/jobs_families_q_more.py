"""Jobs of pictures and sound: lanes before a car, hearts with Lightning, pictures that people prefer, voices changed, words for pixels,
tempers of voices with a trainer."""
import itertools

import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForAudioClassification, Trainer, TrainingArguments

from core import DEVICE, Job, job
from jobs_families_q import FeedForward, attention_of, split_heads
from jobs_images import EncoderBlock, ImageLoop
from jobs_trainers import OUTPUT, TrainerJob
from parts import OPTIMIZERS, Loop


def conv_norm(cin, cout, stride=1, kernel=3):
    return nn.Sequential(nn.Conv2d(cin, cout, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class Bottleneck(nn.Module):
    """To half the channels, across places, and back."""

    def __init__(self, w):
        super().__init__()
        self.body = nn.Sequential(conv_norm(w, w // 2, kernel=1), conv_norm(w // 2, w // 2), nn.Conv2d(w // 2, w, 1, bias=False), nn.BatchNorm2d(w))

    def forward(self, x):
        return F.relu(x + self.body(x))


class Lanes(nn.Module):
    """For each of some rows of the picture and each lane, in which column it is; and, beside that, which pixels are paint."""

    def __init__(self, o):
        super().__init__()
        self.o, self.stem = o, conv_norm(3, o.base, 2, 7)
        stages = []
        for k in range(3):
            stages += [conv_norm(o.base << k, o.base << k + 1, 2), *(Bottleneck(o.base << k + 1) for _ in range(o.layers))]
        self.stages = nn.Sequential(*stages)
        deep = o.base << 3
        self.flat = nn.Sequential(nn.Conv2d(deep, 8, 1), nn.AdaptiveAvgPool2d((9, 16)), nn.Flatten(), nn.Linear(8 * 9 * 16, 1024), nn.ReLU())
        self.columns = nn.Linear(1024, (o.columns + 1) * o.rows_seen * o.lanes)
        self.paint = nn.Sequential(conv_norm(deep, o.base), nn.Conv2d(o.base, o.lanes + 1, 1))

    def forward(self, pictures):
        x = self.stages(self.stem(pictures))
        columns = self.columns(self.flat(x)).view(-1, self.o.columns + 1, self.o.rows_seen, self.o.lanes)
        return (columns, self.paint(x)) if self.training else columns


@job("lanes_before_a_car", "lanes before a car", "loop", "images", "layers", "eval")
class LanesBeforeACar(ImageLoop):
    """Where a road's lanes are in some rows of what a car's camera sees; neighbouring rows must agree, and lanes should be straight."""
    kinds, precisions, accumulated = ("adam", "adamw", "sgd_momentum"), ("fp32", "autocast", "autocast"), (1, 1, 2)
    columns, lanes = 100, 4

    def draw(self):
        r = self.rng
        self.layers, self.base, self.rows_seen = r.choice([2, 3, 4]), r.choice([48, 64]), r.choice([18, 36, 56])
        self.draw_images([288, 320, 384], [12, 16, 24])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Lanes(self))

    def where(self, columns):
        """The expected column of each lane in each row."""
        share = columns[:, :-1].softmax(1)
        return (share * torch.arange(self.columns, device=DEVICE).view(1, -1, 1, 1)).sum(1)

    def loss(self, batch):
        with self.autocast():
            columns, paint = self.model(batch[0])
        columns, paint = columns.float(), paint.float()
        drawn = torch.full((len(columns), self.rows_seen, self.lanes), self.columns, device=DEVICE)
        with_paint = torch.zeros(len(paint), *paint.shape[-2:], dtype=torch.long, device=DEVICE)
        place = self.where(columns)
        bend = (place[:, 2:] - 2 * place[:, 1:-1] + place[:, :-2]).abs().mean()
        agree = F.smooth_l1_loss(columns[:, :, 1:], columns[:, :, :-1])
        return F.cross_entropy(columns, drawn) + F.cross_entropy(paint, with_paint) + agree + 0.01 * bend


def volumes(cin, cout):
    """A convolution in the plane, and one along time."""
    plane, time = nn.Conv3d(cin, cout, (1, 3, 3), padding=(0, 1, 1)), nn.Conv3d(cout, cout, (3, 1, 1), padding=(1, 0, 0))
    return nn.Sequential(plane, time, nn.InstanceNorm3d(cout), nn.LeakyReLU())


class Muscle(nn.Module):
    """A film of slices; down in the plane and not in time, and up again."""

    def __init__(self, own):
        super().__init__()
        self.recompute, b = own.checkpointing, own.base
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for k in range(3):
            cin = 1 if k == 0 else b << k - 1
            self.down.append(nn.Sequential(volumes(cin, b << k), *(volumes(b << k, b << k) for _ in range(own.layers - 1))))
        for k in (1, 0):
            self.up.append(volumes((b << k + 1) + (b << k), b << k))
        self.parts = nn.Conv3d(b, own.parts, 1)

    def forward(self, films):
        x, kept = films, []
        for k, stage in enumerate(self.down):
            x = F.max_pool3d(x, (1, 2, 2)) if k else x
            x = checkpoint(stage, x, use_reentrant=False) if self.recompute and self.training else stage(x)
            kept.append(x)
        kept.pop()
        for stage in self.up:
            x = F.interpolate(x, scale_factor=(1, 2, 2), mode="trilinear")
            x = stage(torch.cat([x, kept.pop()], dim=1))
        return self.parts(x)


class Beating(lightning.LightningModule):
    """What Lightning calls in each step."""

    def __init__(self, own):
        super().__init__()
        self.own, self.model = [own], Muscle(own)

    def forward(self, films):
        return self.model(films)

    def training_step(self, batch, batch_idx):
        loss = self.own[0].loss(batch)
        self.log("train_loss", loss.detach())
        return loss

    def validation_step(self, batch, batch_idx):
        films, drawn = batch
        right = (self(films).argmax(1) == drawn.long()).float().mean()
        self.log("right", right, on_epoch=True, prog_bar=False)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=5e-4, weight_decay=0.01)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100), "interval": "step"}}


class Films(torch.utils.data.Dataset):
    """A heart over one beat, and what is muscle and what is blood."""

    def __init__(self, rows, times, side):
        self.rows, self.row = rows, (torch.zeros(1, times, side, side), torch.zeros(times, side, side, dtype=torch.uint8))

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


@job("hearts_with_lightning", "hearts with Lightning", "lightning", "forward", "layers", "checkpointing", "states")
class HeartsWithLightning(Job):
    """The parts of a heart in each picture of a film; the first and the last time count twice, since they were drawn with more care."""
    parts = 4

    def draw(self):
        r = self.rng
        self.layers, self.base, self.times = r.choice([1, 2, 3]), r.choice([16, 24]), r.choice([12, 16])
        self.side, self.size, self.checkpointing = r.choice([128, 160]), r.choice([2, 3]), r.random() < 0.2
        self.steps, self.callbacks = r.choice([4, 5, 6]), []
        self.trainer_arguments = {"precision": r.choice(["32-true", "bf16-mixed"]), "accumulate_grad_batches": r.choice([1, 1, 2]),
                                  "gradient_clip_val": r.choice([None, 1.0])}

    def build(self):
        self.module = Beating(self)
        self.model = self.module.model
        self.loaders = [torch.utils.data.DataLoader(Films(n * self.size, self.times, self.side), batch_size=self.size) for n in (32, 2)]
        quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
        self.trainer = lightning.Trainer(**{"max_steps": self.steps, "accelerator": "gpu", "devices": 1, "val_check_interval": 2, "num_sanity_val_steps": 0,
                                            "callbacks": self.callbacks, **quiet, **self.trainer_arguments})

    def loss(self, batch):
        films, drawn = batch
        told = self.module(films).float()
        each = F.cross_entropy(told, drawn.long(), reduction="none").mean((2, 3))
        weights = torch.ones_like(each)
        weights[:, 0] = weights[:, -1] = 2.0
        share = told.softmax(1)[:, 1:].sum((2, 3, 4))
        return (each * weights).sum() / weights.sum() + 1e-6 * share.var(dim=1).mean()

    def train(self):
        self.trainer.fit(self.module, *self.loaders)


class Mixed(nn.Module):
    """Convolutions that time scales, and on small maps a look at all places."""

    def __init__(self, cin, cout, t, o, looks):
        super().__init__()
        self.first, self.second = nn.Conv2d(cin, cout, 3, padding=1), nn.Conv2d(cout, cout, 3, padding=1)
        self.norms, self.time = nn.ModuleList([nn.GroupNorm(8, cin), nn.GroupNorm(8, cout)]), nn.Linear(t, 2 * cout)
        self.past = nn.Conv2d(cin, cout, 1)
        self.look = EncoderBlock(cout, 8, o.attention) if looks else None

    def forward(self, x, t):
        scale, shift = self.time(t)[:, :, None, None].chunk(2, dim=1)
        y = self.first(F.silu(self.norms[0](x)))
        x = self.past(x) + self.second(F.silu(self.norms[1](y) * (1 + scale) + shift))
        if self.look is None:
            return x
        return self.look(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(x.shape)


class Denoiser(nn.Module):
    """Down, through the middle and up again, with what was seen on the way down."""

    def __init__(self, o):
        super().__init__()
        b, self.recompute = o.base, o.checkpointing
        self.when, self.into, self.out = nn.Sequential(nn.Linear(64, 128), nn.SiLU()), nn.Conv2d(4, b, 3, padding=1), nn.Conv2d(b, 4, 3, padding=1)
        self.down = nn.ModuleList([Mixed(b, b, 128, o, False), Mixed(b, 2 * b, 128, o, True)])
        self.middle = nn.ModuleList(Mixed(2 * b, 2 * b, 128, o, True) for _ in range(o.layers))
        self.up = nn.ModuleList([Mixed(4 * b, b, 128, o, True), Mixed(2 * b, b, 128, o, False)])

    def run(self, part, x, t):
        return checkpoint(part, x, t, use_reentrant=False) if self.recompute and self.training else part(x, t)

    def forward(self, noisy, t):
        waves = torch.outer(t, torch.arange(1, 33, device=t.device, dtype=t.dtype))
        t, x, seen = self.when(torch.cat([waves.sin(), waves.cos()], dim=1).to(noisy.dtype)), self.into(noisy), []
        for part in self.down:
            x = self.run(part, x, t)
            seen.append(x)
            x = F.avg_pool2d(x, 2)
        for part in self.middle:
            x = self.run(part, x, t)
        for part in self.up:
            x = self.run(part, torch.cat([F.interpolate(x, scale_factor=2), seen.pop()], dim=1), t)
        return self.out(x)


@job("pictures_people_prefer", "pictures that people prefer", "loop", "images", "layers", "attention", "checkpointing", "eval", "reference")
class PicturesPeoplePrefer(ImageLoop):
    """Of two pictures the one that people like is to come out of noise more easily than to the network as it was, and the other one less so."""
    kinds, precisions, accumulated, channels = ("adamw", "adamw_fused", "adamw_loop"), ("fp32", "autocast", "autocast"), (1, 1, 2), 8

    def draw(self):
        r = self.rng
        self.layers, self.base = r.choice([2, 3]), r.choice([96, 128])
        self.draw_images([48, 64], [6, 8, 12])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Denoiser(self))
            self.reference = Denoiser(self).to(self.dtype).eval().requires_grad_(False)

    def noised(self, batch):
        better, worse = batch[0].chunk(2, dim=1)
        clean = torch.cat([better, worse])
        noise, t = torch.randn_like(better).repeat(2, 1, 1, 1), torch.rand(len(better), device=DEVICE).repeat(2)
        kept = (1 - t).view(-1, 1, 1, 1).to(clean.dtype)
        return kept * clean + (1 - kept) * noise, t, noise

    def reference_outputs(self, batch):
        with self.no_grad(), self.autocast():
            return self.reference(batch[0], batch[1])

    def predict(self, batch):
        noisy, t, _ = self.noised(batch)
        with self.autocast():
            return self.model(noisy, t)

    def loss(self, batch):
        noisy, t, noise = self.noised(batch)
        with self.autocast():
            now = self.model(noisy, t)
        before = self.reference_outputs((noisy, t))
        off = [(told.float() - noise.float()).square().mean((1, 2, 3)) for told in (now, before)]
        (won, lost), (won_before, lost_before) = off[0].chunk(2), off[1].chunk(2)
        return -F.logsigmoid(-500.0 * ((won - won_before) - (lost - lost_before))).mean()


class Conformer(nn.Module):
    """Half a step wide, a look, a convolution along time, half a step wide."""

    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.norm, self.qkv, self.out = mode, nn.LayerNorm(w), nn.Linear(w, 3 * w), nn.Linear(w, w)
        self.wide = nn.ModuleList(FeedForward(w) for _ in range(2))
        self.conv = nn.Sequential(nn.Conv1d(w, 2 * w, 1), nn.GLU(1), nn.Conv1d(w, w, 15, padding=7, groups=w), nn.BatchNorm1d(w), nn.SiLU(), nn.Conv1d(w, w, 1))

    def forward(self, x):
        x = x + 0.5 * self.wide[0](x)
        q, k, v = (split_heads(t, 4) for t in self.qkv(self.norm(x)).chunk(3, dim=-1))
        x = x + self.out(attention_of(self.mode, q, k, v, back=False))
        x = x + self.conv(x.transpose(1, 2)).transpose(1, 2)
        return x + 0.5 * self.wide[1](x)


class OtherVoice(nn.Module):
    """What is said goes through a narrow place and codes; how it is said comes from another recording."""

    def __init__(self, o):
        super().__init__()
        w, self.recompute = o.width, o.checkpointing
        self.into, self.narrow, self.codes = nn.Linear(80, w), nn.Linear(w, 64), nn.Parameter(torch.zeros(o.codes, 64))
        self.listen, self.tell = (nn.ModuleList(Conformer(w, o.attention) for _ in range(o.layers)) for _ in range(2))
        self.voice, self.back, self.out = nn.GRU(80, w, batch_first=True), nn.Linear(64, w), nn.Linear(w, 80)

    def through(self, blocks, x):
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute and self.training else block(x)
        return x

    def forward(self, said, voice):
        what = self.narrow(self.through(self.listen, self.into(said)))
        share = (what @ self.codes.T.to(what.dtype)).softmax(-1)
        coded = share @ self.codes.to(share.dtype)
        who = self.voice(voice)[1][-1].unsqueeze(1)
        return self.out(self.through(self.tell, self.back(coded) + who)), share


@job("voices_changed", "voices changed", "loop", "layers", "attention", "checkpointing", "eval", "dataset", "crop")
class VoicesChanged(Loop):
    """The same sentence in somebody else's voice: spectra, whose content is told by shares of codes, all of which ought to be used."""
    kinds, precisions, longest, accumulated = ("adam", "adamw", "adamw_fused"), ("fp32", "autocast"), 2400, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.codes = r.choice([2, 3, 4]), r.choice([384, 512]), r.choice([256, 512])
        self.length, self.size, self.attention, self.checkpointing = r.choice([400, 500, 640]), r.choice([6, 8, 10]), "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(OtherVoice(self))
        self.dataset = torch.zeros(48, self.longest, 80), torch.zeros(48, self.longest, 80)

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        return [part[start:start + self.size, :self.length].to(DEVICE, self.dtype) for part in self.dataset]

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch)[0]

    def loss(self, batch):
        with self.autocast():
            told, share = self.model(*batch)
        used = share.float().mean((0, 1))
        slow = F.l1_loss(told.float().diff(dim=1), batch[0].float().diff(dim=1))
        return F.l1_loss(told.float(), batch[0].float()) + slow + 0.1 * (used * (used + 1e-8).log()).sum()


class NearWords(nn.Module):
    """An eye and a reader that others have trained; a few layers on top put each place near to the word for it."""

    def __init__(self, o):
        super().__init__()
        w, self.recompute, self.patch = o.width, o.checkpointing, 16
        self.eye = nn.ModuleDict({"into": nn.Conv2d(3, w, 16, 16), "layers": nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(3))})
        self.reader = nn.ModuleDict({"words": nn.Embedding(10000, w), "layer": EncoderBlock(w, 8, o.attention)})
        self.top = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers))
        self.finer = nn.Sequential(nn.ConvTranspose2d(w, w // 2, 2, 2), nn.GELU(), nn.ConvTranspose2d(w // 2, w // 2, 2, 2))
        self.said = nn.Linear(w, w // 2)

    def forward(self, pictures, names):
        x = self.eye["into"](pictures)
        side, x = x.shape[-1], x.flatten(2).transpose(1, 2)
        for block in self.eye["layers"]:
            x = block(x)
        for block in self.top:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute and self.training else block(x)
        fine = self.finer(x.transpose(1, 2).unflatten(2, (side, side)))
        words = self.said(self.reader["layer"](self.reader["words"](names)).mean(1))
        return torch.einsum("bchw,kc->bkhw", F.normalize(fine, dim=1), F.normalize(words, dim=-1))


@job("words_for_pixels", "words for pixels", "loop", "images", "layers", "attention", "checkpointing", "eval", "pretrained")
class WordsForPixels(ImageLoop):
    """Which of some names fits each pixel; eye and reader stay, and what lies on them learns with two rates."""
    kinds, precisions, accumulated = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.names = r.choice([3, 4, 6]), r.choice([384, 512]), r.choice([20, 40, 60])
        self.draw_images([320, 384], [8, 12, 16])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.2
        self.choose()

    def freeze(self):
        for part in (self.model.eye, self.model.reader):
            for parameter in part.parameters():
                parameter.requires_grad = False

    def optimizer(self, parameters):
        slow = [p for p in self.model.top.parameters() if p.requires_grad]
        fast = [p for p in itertools.chain(self.model.finer.parameters(), self.model.said.parameters()) if p.requires_grad]
        rest = {id(p) for p in slow + fast}
        fast += [p for p in self.model.parameters() if p.requires_grad and id(p) not in rest]
        return OPTIMIZERS[self.kind]([{"params": slow, "lr": 2e-5}, {"params": fast}])

    def build(self):
        with torch.device(DEVICE):
            self.model = NearWords(self)
            self.asked = torch.zeros(self.names, 8, dtype=torch.long)
        self.freeze()
        self.finish(self.model)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0], self.asked)

    def loss(self, batch):
        fits = self.predict(batch).float() / 0.07
        drawn = torch.zeros(len(fits), *fits.shape[-2:], dtype=torch.long, device=DEVICE)
        return F.cross_entropy(fits, drawn, ignore_index=255)


class Calls(torch.utils.data.Dataset):
    """Somebody on the telephone, as samples, and how he feels."""

    def __init__(self, rows, samples):
        self.rows, self.row = rows, {"input_values": torch.zeros(samples), "labels": torch.tensor(2)}

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


@job("tempers_with_trainer", "tempers of voices with a trainer", "trainer", "layers", "attention", "states", "forward")
class TempersWithTrainer(TrainerJob):
    """How somebody on the telephone feels: SEW on raw sound, under the Trainer, with weights for feelings that are rare."""

    def draw(self):
        super().draw()
        r = self.rng
        self.width, self.samples, self.feelings = r.choice([384, 512]), r.choice([32000, 48000, 64000]), 7
        self.trainer_arguments.update(per_device_train_batch_size=r.choice([8, 12]), warmup_steps=2)

    def config(self):
        return transformers.SEWConfig(hidden_size=self.width, num_hidden_layers=self.layers, num_attention_heads=8, intermediate_size=4 * self.width,
                                      num_labels=self.feelings, apply_spec_augment=False, layerdrop=0.0)

    def build(self):
        with torch.device(DEVICE):
            self.model = AutoModelForAudioClassification.from_config(self.config(), attn_implementation=self.attention)
        self.weights = torch.linspace(0.5, 2.0, self.feelings, device=DEVICE)
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": 2, "remove_unused_columns": False, "label_names": ["labels"], **self.trainer_arguments})
        own = self

        class Weighted(Trainer):
            """The loss is the job's."""

            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                return own.loss(inputs)
        self.trainer = Weighted(self.model, arguments, train_dataset=Calls(64 * self.size, self.samples), eval_dataset=Calls(2 * self.size, self.samples),
                                callbacks=self.callbacks)

    def loss(self, batch):
        with self.trainer.compute_loss_context_manager():
            scores = self.trainer.model(input_values=batch["input_values"]).logits
        return F.cross_entropy(scores.float(), batch["labels"], weight=self.weights)


TempersWithTrainer.traits = TempersWithTrainer.traits - {"tokens", "decoder", "checkpointing"}

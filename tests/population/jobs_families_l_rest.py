"""Jobs of pictures, sounds and series: photographs that are not sharp, volumes from noise, people found again, defects, photographs that
are looked for, birds with Lightning, sensors with a trainer, lips."""
import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from transformers import AutoModel, PatchTSTForPrediction, Trainer, TrainingArguments

from core import DEVICE, Job, job
from jobs_families_l_more import Bent, maybe_again
from jobs_images import EncoderBlock, ImageLoop
from jobs_inference import Inference
from jobs_trainers import OUTPUT, TrainerJob
from parts import Loop, cut


class Plain(nn.Module):
    """Convolutions and products of halves, and no other function."""

    def __init__(self, w):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(1, w), nn.GroupNorm(1, w)
        self.wide, self.near, self.back = nn.Conv2d(w, 2 * w, 1), nn.Conv2d(2 * w, 2 * w, 3, padding=1, groups=2 * w), nn.Conv2d(w, w, 1)
        self.weigh, self.more, self.less = nn.Conv2d(w, w, 1), nn.Conv2d(w, 2 * w, 1), nn.Conv2d(w, w, 1)
        self.one, self.two = nn.Parameter(torch.zeros(1, w, 1, 1)), nn.Parameter(torch.zeros(1, w, 1, 1))

    @staticmethod
    def gate(x):
        a, b = x.chunk(2, dim=1)
        return a * b

    def forward(self, x):
        y = self.gate(self.near(self.wide(self.n1(x))))
        x = x + self.one * self.back(y * self.weigh(y.mean((2, 3), keepdim=True)))
        return x + self.two * self.less(self.gate(self.more(self.n2(x))))


class Unblur(nn.Module):
    def __init__(self, o):
        super().__init__()
        w, self.again = [o.base << k for k in range(3)], o.checkpointing
        def several(width):
            return nn.ModuleList(Plain(width) for _ in range(o.layers))
        self.stem, self.end = nn.Conv2d(3, w[0], 3, padding=1), nn.Conv2d(w[0], 3, 3, padding=1)
        self.left, self.middle, self.right = nn.ModuleList(several(n) for n in w[:2]), several(w[2]), nn.ModuleList(several(n) for n in w[1::-1])
        self.down = nn.ModuleList(nn.Conv2d(n, 2 * n, 2, 2) for n in w[:2])
        self.up = nn.ModuleList(nn.Sequential(nn.Conv2d(2 * n, 4 * n, 1), nn.PixelShuffle(2)) for n in w[1::-1])

    def through(self, blocks, x):
        for block in blocks:
            x = maybe_again(self.again, block, x)
        return x

    def forward(self, given):
        x, kept = self.stem(given), []
        for blocks, down in zip(self.left, self.down):
            kept.append(self.through(blocks, x))
            x = down(kept[-1])
        x = self.through(self.middle, x)
        for blocks, up in zip(self.right, self.up):
            x = self.through(blocks, up(x) + kept.pop())
        return given + self.end(x)


@job("not_sharp", "photographs that are not sharp", "loop", "images", "layers", "checkpointing", "eval")
class NotSharp(ImageLoop):
    """A hand that shook: from a photograph as it is to one as it should be; how loud the rest is counts, in decibels."""
    kinds = "adamw", "adamw_fused", "adam"
    precisions = "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.base, self.checkpointing = r.choice([1, 2, 3]), r.choice([24, 32]), r.random() < 0.2
        self.draw_images([128, 192], [4, 8])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Unblur(self))

    def loss(self, batch):
        off = (self.predict(batch).float() - batch[0].float()).square().mean((1, 2, 3))
        return 4.34 * (off + 1e-8).log().mean()


class Solid(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(8, cin), nn.Conv3d(cin, cout, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(8, cout), nn.Conv3d(cout, cout, 3, padding=1)
        self.time, self.short = nn.Linear(64, 2 * cout), nn.Conv3d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, t):
        scale, shift = self.time(t)[..., None, None, None].chunk(2, dim=1)
        y = self.n2(self.c1(F.silu(self.n1(x)))) * (1 + scale) + shift
        return self.short(x) + self.c2(F.silu(y))


class Volumes(nn.Module):
    def __init__(self, o):
        super().__init__()
        w, self.again = o.base, o.checkpointing
        self.time, self.into, self.out = nn.Sequential(nn.Linear(1, 64), nn.SiLU()), nn.Conv3d(1, w, 3, padding=1), nn.Conv3d(w, 1, 3, padding=1)
        self.high = nn.ModuleList(Solid(w, w) for _ in range(o.layers))
        self.low = nn.ModuleList([Solid(w, 2 * w), *[Solid(2 * w, 2 * w) for _ in range(o.layers)]])
        self.back = nn.ModuleList([Solid(3 * w, w), *[Solid(w, w) for _ in range(o.layers - 1)]])

    def forward(self, x, t):
        t, x = self.time(t[:, None]), self.into(x)
        for part in self.high:
            x = maybe_again(self.again, part, x, t)
        y = F.avg_pool3d(x, 2)
        for part in self.low:
            y = maybe_again(self.again, part, y, t)
        x = torch.cat([x, F.interpolate(y, scale_factor=2)], dim=1)
        for part in self.back:
            x = maybe_again(self.again, part, x, t)
        return self.out(x)


@job("volumes_from_noise", "volumes from noise", "loop", "layers", "checkpointing", "eval", "dataset")
class VolumesFromNoise(Loop):
    """Scans of heads that nobody has: the network tells which way from noise to a scan it is."""
    kinds = "adam", "adamw", "adamw_fused"
    precisions = "fp32", "autocast"
    accumulated = 1, 1, 2

    def draw(self):
        r = self.rng
        self.layers, self.base, self.side, self.size = r.choice([1, 2]), r.choice([16, 24, 32]), r.choice([48, 64]), r.choice([2, 3, 4])
        self.checkpointing = r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Volumes(self))
        self.dataset = torch.zeros(16, 1, self.side, self.side, self.side, dtype=torch.uint8), torch.zeros(16)

    def batch(self, i):
        scans, _ = cut(self.dataset, i, self.size)
        scans, t = scans.to(self.dtype) / 127.5 - 1, torch.rand(len(scans), device=DEVICE).to(self.dtype)
        noise, angle = torch.randn_like(scans), 1.57 * t[:, None, None, None, None]
        return angle.cos() * scans + angle.sin() * noise, t, angle.cos() * noise - angle.sin() * scans

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch[:2])

    def loss(self, batch):
        return F.mse_loss(self.predict(batch).float(), batch[2].float())


class Person(nn.Module):
    """A vector of the whole, and one of each third from head to foot."""

    def __init__(self, o):
        super().__init__()
        stages, w = [nn.Conv2d(3, o.base, 7, 2, 3), nn.BatchNorm2d(o.base), nn.ReLU(True)], o.base
        for k in range(4):
            stages += [Bent(w, o.base << k, 1 if k in (0, 3) else 2), *[Bent(o.base << k, o.base << k) for _ in range(o.layers)]]
            w = o.base << k
        self.body, self.neck, self.names = nn.Sequential(*stages), nn.BatchNorm1d(4 * w), nn.Linear(4 * w, o.people, bias=False)

    def forward(self, pictures):
        maps = self.body(pictures)
        vectors = torch.cat([maps.mean((2, 3)), F.adaptive_avg_pool2d(maps, (3, 1)).flatten(1)], dim=1)
        return torch.cat([vectors, self.names(self.neck(vectors))], dim=1)


@job("people_found_again", "people found again", "loop", "images", "layers", "eval")
class PeopleFoundAgain(ImageLoop):
    """The same person before another camera: four pictures of each person in a batch, the farthest of which comes nearer; and a name for each."""
    kinds = "adam", "adamw", "sgd_momentum"
    precisions = "fp32", "autocast", "autocast"
    accumulated = 1,

    def draw(self):
        r = self.rng
        self.layers, self.base, self.people = r.choice([1, 2, 3]), r.choice([32, 48, 64]), r.choice([751, 4101])
        self.draw_images([128, 192], [32, 48])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Person(self))

    def loss(self, batch):
        told = self.predict(batch).float()
        vectors, names = told[:, :-self.people], told[:, -self.people:]
        who = torch.arange(len(vectors), device=DEVICE) // 4
        squares = vectors.square().sum(1)
        far = (squares[:, None] + squares[None] - 2 * vectors @ vectors.T).clamp(min=1e-6).sqrt()
        same = who[:, None] == who[None]
        worst, best = far.masked_fill(~same, 0).amax(1), far.masked_fill(same, 1e6).amin(1)
        return F.softplus(worst - best).mean() + F.cross_entropy(names, who, label_smoothing=0.1)


class Looking(nn.Module):
    """Maps of three sizes."""

    def __init__(self, base, layers):
        super().__init__()
        self.stem = Bent(3, base, 2)
        def stage(w):
            return nn.Sequential(Bent(w, 2 * w, 2), *[Bent(2 * w, 2 * w) for _ in range(layers)])
        self.stages = nn.ModuleList(stage(base << k) for k in range(3))

    def forward(self, pictures):
        x, maps = self.stem(pictures), []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps


@job("defects", "defects", "loop", "images", "layers", "reference", "eval")
class Defects(ImageLoop):
    """A network sees parts that are as they should be, and learns what another one says of them, on three scales; where they differ, something is odd."""
    kinds = "sgd_momentum", "adam", "adamw"

    def draw(self):
        self.layers, self.base = self.rng.choice([1, 2, 3]), self.rng.choice([32, 48, 64])
        self.draw_images([192, 256], [8, 16, 24])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Looking(self.base, self.layers))
            self.reference = Looking(self.base, self.layers).to(self.dtype).eval().requires_grad_(False)

    def reference_outputs(self, batch):
        with self.no_grad(), self.autocast():
            return self.reference(batch[0])

    def apart(self, mine, theirs):
        return (F.normalize(mine.float(), dim=1) - F.normalize(theirs.float(), dim=1)).square().sum(1, keepdim=True) / 2

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])[-1]

    def loss(self, batch):
        known = self.reference_outputs(batch)
        with self.autocast():
            seen = self.model(batch[0])
        return sum(self.apart(a, b).mean() for a, b in zip(seen, known))


@job("photographs_looked_for", "photographs that are looked for", "inference", "images", "layers", "attention")
class PhotographsLookedFor(Inference):
    """BEiT gives each photograph of a collection a vector; the nearest of some that are known are written down."""

    def draw(self):
        super().draw()
        self.pixels, self.size, self.near = self.rng.choice([224, 320]), self.rng.choice([32, 48, 64]), {}

    def build(self):
        config = transformers.BeitConfig(hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
                                         image_size=self.pixels, patch_size=16, use_relative_position_bias=False, use_absolute_position_embeddings=True)
        self.load(AutoModel, config)
        self.known = F.normalize(torch.randn(20000, self.width, device=DEVICE, dtype=self.dtype), dim=1)

    def batch(self, i):
        return torch.zeros(self.size, 3, self.pixels, self.pixels, dtype=torch.uint8).to(DEVICE).to(self.dtype).div_(255)

    def predict(self, photographs):
        return F.normalize(self.model(pixel_values=photographs).last_hidden_state.mean(dim=1), dim=1)

    def take(self, i, outputs):
        self.near[i] = (outputs @ self.known.T).topk(5, dim=1).indices.cpu()


class Birds(torch.utils.data.Dataset):
    def __init__(self, own, batches):
        self.rows, self.sound, self.birds = batches * own.size, torch.zeros(own.samples), torch.zeros(own.birds)

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.sound, self.birds


class Songs(lightning.LightningModule):
    """Bands of a recording, on the device, and a network of pictures on them."""

    def __init__(self, own):
        super().__init__()
        self.own, w = [own], own.width
        stages = [nn.Conv2d(1, w, 5, (4, 2), 2), nn.BatchNorm2d(w), nn.SiLU()]
        for k in range(3):
            stages += [Bent(w << k, w << k + 1, 2), *[Bent(w << k + 1, w << k + 1) for _ in range(own.layers)]]
        self.model = nn.Sequential(*stages, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Dropout(0.3), nn.Linear(8 * w, own.birds))
        self.register_buffer("bands", torch.rand(513, 128) / 513)

    def heard(self, sound):
        frames = sound.float().unfold(-1, 1024, 320) * torch.hann_window(1024, device=sound.device)
        return ((torch.fft.rfft(frames).abs().square() @ self.bands) + 1e-6).log().unsqueeze(1)

    def training_step(self, batch, batch_idx):
        lost = self.own[0].loss(batch)
        self.log("lost", lost.detach(), batch_size=len(batch[0]))
        return lost

    def validation_step(self, batch, batch_idx):
        self.log("right", self.model(self.heard(batch[0])).sigmoid().mean(), batch_size=len(batch[0]))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)]


@job("birds_with_lightning", "birds with Lightning", "lightning", "forward", "layers", "states")
class BirdsWithLightning(Job):
    """Which birds sing in some seconds of a wood."""

    def draw(self):
        r = self.rng
        self.layers, self.width, self.birds, self.size = r.choice([1, 2, 3]), r.choice([64, 96]), r.choice([264, 659]), r.choice([8, 16])
        self.samples, self.steps, self.callbacks = 32000 * r.choice([5, 10]), r.choice([4, 5, 6]), []
        self.trainer_arguments = {"precision": r.choice(["32-true", "bf16-mixed"]), "accumulate_grad_batches": r.choice([1, 1, 2]),
                                  "gradient_clip_val": r.choice([None, 1.0])}

    def build(self):
        self.module = Songs(self)
        self.model = self.module.model
        self.loaders = [torch.utils.data.DataLoader(Birds(self, n), batch_size=self.size, drop_last=True) for n in (24, 2)]
        self.trainer = lightning.Trainer(**{
            "max_steps": self.steps, "accelerator": "gpu", "devices": 1, "val_check_interval": 3, "limit_val_batches": 1, "num_sanity_val_steps": 0,
            "logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False, "callbacks": self.callbacks,
            **self.trainer_arguments})

    def loss(self, batch):
        sound, birds = batch
        sound, birds = 0.6 * sound + 0.4 * sound.flip(0), torch.maximum(birds, birds.flip(0))
        return F.binary_cross_entropy_with_logits(self.module.model(self.module.heard(sound)).float(), birds.float())

    def train(self):
        self.trainer.fit(self.module, *self.loaders)


class Meters(torch.utils.data.Dataset):
    """Days of many meters, and those that follow."""

    def __init__(self, rows, past, future, number):
        self.rows, self.row = rows, {"past_values": torch.zeros(past, number), "future_values": torch.zeros(future, number)}

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


@job("sensors_with_trainer", "sensors with a trainer", "trainer", "layers", "states", "forward")
class SensorsWithTrainer(TrainerJob):
    """PatchTST of transformers tells some days of many sensors, under the Trainer, with a loss of its own."""

    def draw(self):
        super().draw()
        r = self.rng
        self.layers, self.width, self.sensors = r.choice([3, 4, 6]), r.choice([512, 768, 1024]), r.choice([7, 8, 12])
        self.past, self.future = r.choice([336, 512]), 96
        self.trainer_arguments["per_device_train_batch_size"], self.checkpointing = r.choice([4, 8]), False

    def build(self):
        config = transformers.PatchTSTConfig(num_input_channels=self.sensors, context_length=self.past, prediction_length=self.future,
                                             patch_length=16, patch_stride=16, d_model=self.width, num_attention_heads=8, ffn_dim=4 * self.width,
                                             num_hidden_layers=self.layers, loss="mse", pre_norm=True, norm_type="layernorm")
        with torch.device(DEVICE):
            self.model = PatchTSTForPrediction(config)
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "remove_unused_columns": False, "label_names": ["future_values"], "logging_steps": 2, **self.trainer_arguments})
        own = self

        class Robust(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                return own.loss(inputs)
        known, later = (Meters(n * self.size, self.past, self.future, self.sensors) for n in (32, 2))
        self.trainer = Robust(self.model, arguments, train_dataset=known, eval_dataset=later, callbacks=self.callbacks)

    def loss(self, batch):
        with self.trainer.compute_loss_context_manager():
            told = self.trainer.model(past_values=batch["past_values"]).prediction_outputs
        return F.huber_loss(told.float(), batch["future_values"], delta=0.5)


SensorsWithTrainer.traits = SensorsWithTrainer.traits - {"tokens", "decoder", "attention", "checkpointing"}


class Lips(nn.Module):
    """A front of three dimensions, pictures one by one, and a transformer over time that is told letters by."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.front = nn.Sequential(nn.Conv3d(1, 48, (5, 7, 7), (1, 2, 2), (2, 3, 3), bias=False), nn.BatchNorm3d(48), nn.PReLU(48))
        self.each = nn.Sequential(Bent(48, 64, 2), Bent(64, 128, 2), Bent(128, w, 2))
        self.layers, self.letters = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers)), nn.Linear(w, 40)
        self.slow = nn.Conv1d(w, w, 5, padding=2, groups=w)

    def forward(self, clips):
        maps = self.front(clips.transpose(1, 2)).transpose(1, 2)
        x = self.each(maps.flatten(0, 1)).mean((2, 3)).unflatten(0, clips.shape[:2])
        x = x + self.slow(x.transpose(1, 2)).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return self.letters(x)


@job("lips", "lips", "loop", "layers", "attention", "eval", "dataset", "crop")
class LipsThatSpeak(Loop):
    """What somebody says, without the sound, letter by letter."""
    kinds = "adamw", "adamw_fused", "adam"
    precisions = "fp32", "autocast"
    longest, accumulated = 150, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.attention, self.side = r.choice([3, 4, 6]), r.choice([256, 512]), "sdpa", r.choice([88, 96])
        self.length, self.size = r.choice([30, 50]), r.choice([4, 6, 8])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Lips(self))
        self.dataset = torch.zeros(24, self.longest, 1, self.side, self.side, dtype=torch.uint8), torch.ones(24, 12, dtype=torch.long)

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        clips, letters = (part[start:start + self.size] for part in self.dataset)
        return clips[:, :self.length].to(DEVICE).to(self.dtype).div_(255), letters.to(DEVICE)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        logs = self.predict(batch).float().log_softmax(-1).transpose(0, 1)
        clips, letters = len(batch[1]), batch[1].shape[1]
        return F.ctc_loss(logs, batch[1], torch.full((clips,), len(logs)), torch.full((clips,), letters), zero_infinity=True) / self.length

"""Jobs of pictures: bones with Lightning, portraits with Accelerate, lines of text in pictures, handwriting with a trainer, edges of hair,
pictures without attention."""
import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from accelerate import Accelerator
from torch.utils.checkpoint import checkpoint
from transformers import Trainer, TrainingArguments, VisionEncoderDecoderConfig, VisionEncoderDecoderModel

from core import DEVICE, Job, job
from jobs_families_n import Run, in_heads, looked
from jobs_images import ImageLoop
from jobs_trainers import OUTPUT, TrainerJob


class Appending(nn.Module):
    """Each layer sees all that the layers before it have made, and adds a few channels."""

    def __init__(self, cin, layers, growth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.BatchNorm2d(cin + n * growth), nn.ReLU(), nn.Conv2d(cin + n * growth, 4 * growth, 1, bias=False),
                                                  nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False))
                                    for n in range(layers))
        self.channels = cin + layers * growth

    def forward(self, x):
        seen = [x]
        for layer in self.layers:
            seen.append(layer(torch.cat(seen, dim=1)))
        return torch.cat(seen, dim=1)


def appended(o, told):
    """A network of such blocks, between which channels and places get fewer."""
    parts, cin = [nn.Conv2d(1, 2 * o.growth, 7, 2, 3, bias=False), nn.BatchNorm2d(2 * o.growth), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 2 * o.growth
    for k in range(3):
        block = Appending(cin, o.layers, o.growth)
        parts += [block, nn.BatchNorm2d(block.channels), nn.ReLU(), nn.Conv2d(block.channels, block.channels // 2, 1), nn.AvgPool2d(2)]
        cin = block.channels // 2
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, told))


class Rays(torch.utils.data.Dataset):
    """A picture of a hand, and how old its owner is."""

    def __init__(self, rows, side):
        self.rows, self.row = rows, (torch.zeros(1, side, side), torch.tensor(100.0), torch.tensor(0))

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


class Bones(lightning.LightningModule):
    def __init__(self, own):
        super().__init__()
        self.own, self.model = [own], appended(own, 2)

    def forward(self, pictures):
        return self.model(pictures)

    def training_step(self, batch, batch_idx):
        return {"loss": self.own[0].loss(batch)}

    def validation_step(self, batch, batch_idx):
        pictures, age, _ = batch
        self.log("off", (self(pictures)[:, 0].float() - age).abs().mean(), on_epoch=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-4, weight_decay=1e-5)


@job("bones_with_lightning", "bones with Lightning", "lightning", "forward", "layers", "states")
class BonesWithLightning(Job):
    """How old somebody is, from the bones of a hand; the network says how sure it is, too."""

    def draw(self):
        r = self.rng
        self.layers, self.growth, self.side, self.size = r.choice([4, 6, 8]), r.choice([24, 32]), r.choice([256, 320, 384]), r.choice([12, 16, 24])
        self.steps, self.callbacks = r.choice([4, 5, 6]), []
        self.trainer_arguments = {"precision": r.choice(["32-true", "bf16-mixed"]), "accumulate_grad_batches": r.choice([1, 1, 2]),
                                  "gradient_clip_val": r.choice([None, None, 0.5])}

    def build(self):
        self.module = Bones(self)
        self.model = self.module.model
        self.loaders = [torch.utils.data.DataLoader(Rays(n * self.size, self.side), batch_size=self.size) for n in (32, 2)]
        off = {name: False for name in ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")}
        self.trainer = lightning.Trainer(**{"max_steps": self.steps, "accelerator": "gpu", "devices": 1, "val_check_interval": 2, "num_sanity_val_steps": 0,
                                            "callbacks": self.callbacks, **off, **self.trainer_arguments})

    def loss(self, batch):
        pictures, age, woman = batch
        told, spread = self.module(pictures).float().unbind(1)
        off = (told + 2.0 * woman - age).abs()
        return (off * (-spread).exp() + spread).mean()

    def train(self):
        self.trainer.fit(self.module, *self.loaders)


class Stirred(nn.Module):
    """A layer of places that time and the person's number move."""

    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.norm, self.qkv, self.back = mode, nn.LayerNorm(w, elementwise_affine=False), nn.Linear(w, 3 * w), nn.Linear(w, w)
        self.moves, self.into, self.out = nn.Linear(w, 4 * w), nn.Linear(w, 6 * w), nn.Linear(3 * w, w)

    def forward(self, x, given):
        shift, scale, first, second = self.moves(F.silu(given)).unsqueeze(1).chunk(4, dim=-1)
        q, k, v = (in_heads(t, 8) for t in self.qkv(self.norm(x) * (1 + scale) + shift).chunk(3, dim=-1))
        x = x + first * self.back(looked(q, k, v, self.mode, causal=False).transpose(1, 2).flatten(2))
        gate, up = self.into(self.norm(x) * (1 + scale) + shift).chunk(2, dim=-1)
        return x + second * self.out(F.silu(gate) * up)


class Portrait(nn.Module):
    """Places to layers; the first half of them hands over to the second half what it has seen."""

    def __init__(self, o):
        super().__init__()
        w, self.again, self.side = o.width, o.checkpointing, o.pixels // o.patch
        self.into, self.out = nn.Conv2d(3, w, o.patch, o.patch), nn.Sequential(nn.LayerNorm(w), nn.Linear(w, 3 * o.patch ** 2))
        self.places, self.who, self.when = nn.Parameter(torch.zeros(self.side ** 2, w)), nn.Embedding(o.people + 1, w), nn.Linear(64, w)
        self.first = nn.ModuleList(Stirred(w, o.attention) for _ in range(o.layers))
        self.second = nn.ModuleList(Stirred(w, o.attention) for _ in range(o.layers))
        self.join = nn.ModuleList(nn.Linear(2 * w, w) for _ in range(o.layers))
        self.patch = o.patch

    def layer(self, block, x, given):
        return checkpoint(block, x, given, use_reentrant=False) if self.again and self.training else block(x, given)

    def forward(self, noisy, t, who):
        waves = t.unsqueeze(1) * torch.logspace(0, 3, 32, device=t.device)
        given = self.when(torch.cat([waves.sin(), waves.cos()], dim=1).to(noisy.dtype)) + self.who(who)
        x, kept = self.into(noisy).flatten(2).transpose(1, 2) + self.places, []
        for block in self.first:
            x = self.layer(block, x, given)
            kept.append(x)
        for block, join in zip(self.second, self.join):
            x = self.layer(block, join(torch.cat([x, kept.pop()], dim=-1)), given)
        return F.pixel_shuffle(self.out(x).transpose(1, 2).unflatten(2, (self.side, self.side)), self.patch)


@job("portraits_with_accelerate", "portraits with Accelerate", "loop", "images", "layers", "attention", "checkpointing", "eval")
class PortraitsWithAccelerate(ImageLoop):
    """Faces from noise, in Accelerate's loop: what is told is the velocity, and which person it is is left out now and then."""
    kinds, precisions, accumulated, people = ("adamw", "adamw_fused", "adamw_loop"), ("fp32", "autocast", "autocast"), (1, 1, 2), 500

    def draw(self):
        r = self.rng
        self.layers, self.width, self.patch = r.choice([2, 3, 4]), r.choice([384, 512]), r.choice([4, 8])
        self.draw_images([64, 96], [16, 24, 32])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            portrait = Portrait(self)
        self.accelerator = Accelerator(mixed_precision="bf16" if self.precision == "autocast" else "no")
        self.finish(portrait)
        self.model, *self.optimizers = self.accelerator.prepare(self.model, *self.optimizers)

    def mixed(self, batch):
        faces, who = batch
        t, noise = torch.rand(len(faces), device=DEVICE), torch.randn_like(faces)
        angle = (t * 1.57).view(-1, 1, 1, 1)
        who = torch.where(torch.rand(len(who), device=DEVICE) < 0.1, self.people, who).clamp(0, self.people)
        return self.model(angle.cos() * faces + angle.sin() * noise, t, who), angle.cos() * noise - angle.sin() * faces

    def predict(self, batch):
        return self.mixed(batch)[0]

    def loss(self, batch):
        told, speed = self.mixed(batch)
        return F.mse_loss(told.float(), speed.float())

    def backward(self, loss):
        self.accelerator.backward(loss)

    def optimize(self):
        if self.clip and self.accelerator.sync_gradients:
            self.accelerator.clip_grad_norm_(self.model.parameters(), self.clip)
        for optimizer in self.optimizers:
            optimizer.step()


class Lines(nn.Module):
    """Maps of four sizes, brought together; how likely text is at each place, and from where on it counts."""

    def __init__(self, o):
        super().__init__()
        w, b = o.width, o.base
        self.stages, cin = nn.ModuleList(), 3
        for k in range(4):
            more = [m for _ in range(o.layers) for m in (nn.Conv2d(b << k, b << k, 3, padding=1, bias=False), nn.BatchNorm2d(b << k), nn.ReLU())]
            self.stages.append(nn.Sequential(nn.Conv2d(cin, b << k, 3, 2, 1), nn.BatchNorm2d(b << k), nn.ReLU(), *more))
            cin = b << k
        self.thin = nn.ModuleList(nn.Conv2d(b << k, w, 1) for k in range(4))
        self.smooth = nn.ModuleList(nn.Conv2d(w, w // 4, 3, padding=1) for _ in range(4))
        self.likely, self.border = (self.head(w) for _ in range(2))

    @staticmethod
    def head(w):
        return nn.Sequential(nn.Conv2d(w, w // 4, 3, padding=1), nn.BatchNorm2d(w // 4), nn.ReLU(), nn.ConvTranspose2d(w // 4, 1, 2, 2))

    def forward(self, pictures):
        maps, x = [], pictures
        for stage, thin in zip(self.stages, self.thin):
            x = stage(x)
            maps.append(thin(x))
        for k in reversed(range(3)):
            maps[k] = maps[k] + F.interpolate(maps[k + 1], scale_factor=2)
        together = torch.cat([F.interpolate(smooth(m), maps[0].shape[-2:]) for smooth, m in zip(self.smooth, maps)], dim=1)
        likely, border = self.likely(together).sigmoid(), self.border(together).sigmoid()
        return torch.cat([likely, border, (50 * (likely - border)).sigmoid()], dim=1)


@job("lines_of_text", "lines of text in pictures", "loop", "images", "layers", "eval")
class LinesOfText(ImageLoop):
    """Where text is on signs and papers; places without text count only as far as they are hard, and not more than three for each that has some."""
    kinds, precisions, accumulated = ("adam", "adamw", "sgd_momentum"), ("fp32", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.base, self.width = r.choice([1, 2, 3]), r.choice([32, 48]), r.choice([128, 192, 256])
        self.draw_images([320, 384, 448], [6, 8, 12])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Lines(self))

    def loss(self, batch):
        likely, border, sharp = self.predict(batch).float().unbind(1)
        wanted = (batch[0][:, 0] > 0.9).float()
        with torch.autocast(DEVICE, enabled=False):
            lost = F.binary_cross_entropy(likely.clamp(1e-5, 1 - 1e-5), wanted, reduction="none").flatten()
        hard = lost.topk(len(lost) // 4).values.mean()
        overlap = 1 - 2 * (sharp * wanted).sum() / (sharp.sum() + wanted.sum() + 1)
        return hard + overlap + 10 * (border - 0.3 * wanted).abs().mean()


class Scribbles(torch.utils.data.Dataset):
    """Lines that somebody has written, as pictures, and what they say."""

    def __init__(self, rows, high, wide, letters):
        self.rows, self.row = rows, {"pixel_values": torch.zeros(3, high, wide), "labels": torch.ones(letters, dtype=torch.long)}

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


@job("handwriting_with_trainer", "handwriting with a trainer", "trainer", "layers", "attention", "states", "forward")
class HandwritingWithTrainer(TrainerJob):
    """Lines of letters of old times to text: an eye and a writer of transformers under the Trainer, with smoothed labels."""

    def draw(self):
        super().draw()
        r = self.rng
        self.layers, self.width, self.side = r.choice([2, 3, 4]), r.choice([384, 512]), r.choice([224, 288, 384])
        self.vocabulary, self.letters = r.choice([16000, 32000]), r.choice([48, 64, 96])
        self.trainer_arguments["per_device_train_batch_size"] = r.choice([8, 12, 16])

    def config(self):
        eye = transformers.ViTConfig(hidden_size=self.width, num_hidden_layers=self.layers, num_attention_heads=8, intermediate_size=4 * self.width,
                                     image_size=self.side, patch_size=16)
        writer = transformers.BertConfig(vocab_size=self.vocabulary, hidden_size=self.width, num_hidden_layers=self.layers, num_attention_heads=8,
                                         intermediate_size=4 * self.width, max_position_embeddings=512)
        config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(eye, writer)
        config.decoder_start_token_id, config.pad_token_id = 1, 0
        return config

    def build(self):
        with torch.device(DEVICE):
            self.model = VisionEncoderDecoderModel._from_config(self.config(), attn_implementation=self.attention)
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": 2, "remove_unused_columns": False, "label_names": ["labels"], **self.trainer_arguments})
        own = self

        class Smoothed(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                return own.loss(inputs)
        trained, looked_at = (Scribbles(n * self.size, self.side, self.side, self.letters) for n in (32, 2))
        self.trainer = Smoothed(self.model, arguments, train_dataset=trained, eval_dataset=looked_at, callbacks=self.callbacks)

    def loss(self, batch):
        before = F.pad(batch["labels"][:, :-1], (1, 0), value=1)
        with self.trainer.compute_loss_context_manager():
            scores = self.trainer.model(pixel_values=batch["pixel_values"], decoder_input_ids=before, use_cache=False).logits
        return F.cross_entropy(scores.flatten(0, 1).float(), batch["labels"].flatten(), label_smoothing=0.1)


HandwritingWithTrainer.traits = HandwritingWithTrainer.traits - {"tokens", "decoder", "checkpointing"}


class Around(nn.Module):
    """What is seen with holes of several sizes between the places, side by side."""

    def __init__(self, cin, cout):
        super().__init__()
        self.ways = nn.ModuleList(nn.Sequential(nn.Conv2d(cin, cout, 3, padding=d, dilation=d, bias=False), nn.BatchNorm2d(cout), nn.ReLU())
                                  for d in (1, 3, 6, 9))
        self.join = nn.Conv2d(4 * cout, cin, 1)

    def forward(self, x):
        return x + self.join(torch.cat([way(x) for way in self.ways], dim=1))


class Hair(nn.Module):
    """How much of each pixel is in front: down with what has been seen kept, around, and up again."""

    def __init__(self, o):
        super().__init__()
        b, self.again = o.base, o.checkpointing
        def two(cin, cout):
            return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.InstanceNorm2d(cout), nn.PReLU(), nn.Conv2d(cout, cout, 3, padding=1), nn.PReLU())
        self.down = nn.ModuleList([two(4, b), two(b, 2 * b), two(2 * b, 4 * b)])
        self.middle = Run([Around(4 * b, 2 * b) for _ in range(o.layers)], o.checkpointing)
        self.up = nn.ModuleList([two(8 * b, 2 * b), two(4 * b, b), two(2 * b, b)])
        self.out = nn.Conv2d(b, 4, 3, padding=1)

    def call(self, part, x):
        return checkpoint(part, x, use_reentrant=False) if self.again and self.training else part(x)

    def forward(self, x):
        kept = []
        for part in self.down:
            x = self.call(part, x)
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.middle(x)
        for part in self.up:
            x = F.interpolate(x, scale_factor=2, mode="bilinear")
            x = self.call(part, torch.cat([x, kept.pop()], dim=1))
        return self.out(x)


@job("edges_of_hair", "edges of hair", "loop", "images", "layers", "checkpointing", "eval")
class EdgesOfHair(ImageLoop):
    """Hair and glass taken out of a photograph: how much, and of what colour; put together again, it must give the photograph."""
    kinds, precisions, channels, accumulated = ("adam", "adamw", "adamw_fused"), ("fp32", "autocast", "autocast"), 4, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.base = r.choice([2, 3, 4]), r.choice([24, 32])
        self.draw_images([192, 224, 256], [4, 6, 8])
        self.checkpointing = r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Hair(self))

    def pyramid(self, a, b):
        """What differs, on several scales."""
        total = 0
        for k in range(3):
            total = total + 2 ** k * F.l1_loss(a - F.interpolate(F.avg_pool2d(a, 2), a.shape[-2:]), b - F.interpolate(F.avg_pool2d(b, 2), b.shape[-2:]))
            a, b = F.avg_pool2d(a, 2), F.avg_pool2d(b, 2)
        return total

    def loss(self, batch):
        told, photograph = self.predict(batch).float().sigmoid(), batch[0].float()
        much, colour, wanted = told[:, :1], told[:, 1:], photograph[:, 3:]
        together = much * colour + (1 - much) * photograph[:, :3].flip(0)
        return F.l1_loss(much, wanted) + F.l1_loss(together, photograph[:, :3]) + self.pyramid(much, wanted)


class Stirring(nn.Module):
    """Places are mixed by one small network, channels by another; nobody looks at anybody."""

    def __init__(self, places, w, part):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(w) for _ in range(2))
        self.across = nn.Sequential(nn.Linear(places, 2 * part), nn.GELU(), nn.Linear(2 * part, places))
        self.along, self.size = nn.Sequential(nn.Linear(w, 4 * w), nn.GELU(), nn.Linear(4 * w, w)), nn.Parameter(torch.full((2, w), 0.1))

    def forward(self, x):
        x = x + self.size[0] * self.across(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.size[1] * self.along(self.norms[1](x))


class Stirrer(nn.Module):
    def __init__(self, o):
        super().__init__()
        w, places = o.width, (o.pixels // 16) ** 2
        self.into, self.run = nn.Conv2d(3, w, 16, 16), Run([Stirring(places, w, o.part) for _ in range(o.layers)], o.checkpointing)
        self.norm, self.head = nn.LayerNorm(w), nn.Linear(w, o.classes)

    def forward(self, pictures):
        return self.head(self.norm(self.run(self.into(pictures).flatten(2).transpose(1, 2))).mean(1))


@job("without_attention", "pictures without attention", "loop", "images", "layers", "checkpointing", "eval")
class WithoutAttention(ImageLoop):
    """Kinds of insects, by a network that has linear layers only; a piece of each picture is of another one."""
    kinds, precisions, classes = ("adamw", "adamw_fused", "adamw_loop", "sgd_momentum"), ("fp32", "autocast", "autocast", "bf16"), 1010

    def draw(self):
        r = self.rng
        self.layers, self.width, self.part = r.choice([4, 6, 8]), r.choice([384, 512, 768]), r.choice([128, 192])
        self.draw_images([192, 224, 256], [24, 32, 48])
        self.checkpointing = r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Stirrer(self))

    def loss(self, batch):
        pictures, names = batch
        side = pictures.shape[-1]
        start, long = self.rng.randrange(side // 2), side // self.rng.choice([3, 4])
        pictures = pictures.clone()
        pictures[..., start:start + long, start:start + long] = pictures.flip(0)[..., start:start + long, start:start + long]
        share, told = (long / side) ** 2, self.predict((pictures, names)).float()
        return (1 - share) * F.cross_entropy(told, names) + share * F.cross_entropy(told, names.flip(0))

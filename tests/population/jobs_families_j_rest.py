"""Jobs of trainers, documents, sound, series, games and shops: pictures with a trainer, streets with Accelerate, speech into a language model,
commands with Lightning, variables as words, an agent with a memory, actions of people, tiles on request."""
import copy

import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from accelerate import Accelerator
from transformers import AutoModelForImageClassification, LlamaForCausalLM, Trainer, TrainingArguments

from core import DEVICE, Job, job
from jobs_images import EncoderBlock, ImageLoop
from jobs_inference import Inference
from jobs_trainers import OUTPUT, TrainerJob
from parts import Loop, cut, strided_convolutions


class Photographs(torch.utils.data.Dataset):
    """One photograph, again and again, and what is on it."""

    def __init__(self, rows, pixels):
        self.rows, self.picture = rows, torch.zeros(3, pixels, pixels)

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return {"pixel_values": self.picture, "labels": i % 7}


@job("pictures_with_trainer", "pictures with a trainer", "trainer", "layers", "attention", "checkpointing", "states", "forward")
class PicturesWithTrainer(TrainerJob):
    """DINOv2 with a head, under transformers' Trainer; compute_loss() is its own."""

    def draw(self):
        super().draw()
        self.layers, self.width, self.pixels = self.rng.choice([3, 4, 6]), self.rng.choice([512, 768]), self.rng.choice([168, 224])
        self.trainer_arguments["per_device_train_batch_size"] = self.rng.choice([16, 32, 48])

    def build(self):
        config = transformers.Dinov2Config(hidden_size=self.width, num_hidden_layers=self.layers, num_attention_heads=8, image_size=self.pixels,
                                           patch_size=14, num_labels=7)
        with torch.device(DEVICE):
            self.model = AutoModelForImageClassification.from_config(config, attn_implementation=self.attention)
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": 2, "remove_unused_columns": False, "gradient_checkpointing": self.checkpointing, **self.trainer_arguments})
        own = self

        class Focused(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                return own.loss(inputs)
        trained, looked_at = (Photographs(n * self.size, self.pixels) for n in (32, 2))
        self.trainer = Focused(self.model, arguments, train_dataset=trained, eval_dataset=looked_at, callbacks=self.callbacks)

    def loss(self, batch):
        with self.trainer.compute_loss_context_manager():
            scores = self.trainer.model(pixel_values=batch["pixel_values"]).logits.float()
        logs = scores.log_softmax(-1).gather(1, batch["labels"][:, None])
        return (-(1 - logs.exp()) ** 2 * logs).mean()


PicturesWithTrainer.traits = PicturesWithTrainer.traits - {"tokens", "decoder"}


@job("streets_with_accelerate", "streets with Accelerate", "loop", "images", "layers", "eval")
class StreetsWithAccelerate(ImageLoop):
    """What each pixel of a street is: UPerNet over ConvNeXt, of transformers, in Accelerate's loop, and an average of the weights on the host."""
    kinds = "adamw", "adamw_fused", "adamw_loop"
    precisions = "fp32", "autocast", "autocast"
    accumulated, classes = (1, 1, 2), 19

    def draw(self):
        self.layers, self.base = self.rng.choice([1, 2, 3]), self.rng.choice([48, 64, 96])
        self.draw_images([256, 320], [4, 8])
        self.choose()

    def build(self):
        widths = [self.base << k for k in range(4)]
        backbone = transformers.ConvNextConfig(hidden_sizes=widths, depths=[self.layers] * 4, out_features=["stage%d" % k for k in range(1, 5)])
        config = transformers.UperNetConfig(backbone_config=backbone, hidden_size=128, num_labels=self.classes, auxiliary_in_channels=widths[2],
                                            auxiliary_channels=64)
        with torch.device(DEVICE):
            model = transformers.UperNetForSemanticSegmentation(config)
        self.accelerator = Accelerator(mixed_precision="bf16" if self.precision == "autocast" else "no")
        self.finish(model)
        self.model, *self.optimizers = self.accelerator.prepare(self.model, *self.optimizers)
        self.slow = {name: p.detach().float().cpu() for name, p in self.accelerator.unwrap_model(self.model).named_parameters() if "head" in name}

    def predict(self, batch):
        return self.model(pixel_values=batch[0]).logits

    def loss(self, batch):
        street = torch.zeros(len(batch[0]), self.pixels, self.pixels, dtype=torch.long, device=DEVICE)
        return self.model(pixel_values=batch[0], labels=street).loss

    def backward(self, loss):
        self.accelerator.backward(loss)

    def after_step(self, i, loss):
        super().after_step(i, loss)
        for name, p in self.accelerator.unwrap_model(self.model).named_parameters():
            if name in self.slow:
                self.slow[name].lerp_(p.detach().float().cpu(), 0.01)


class Hearing(nn.Module):
    """Frames of a recording become a few vectors of a language model's width; ear and language model stay as they are."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.ear = nn.ModuleDict({"front": nn.Sequential(nn.Conv1d(80, w, 3, 1, 1), nn.GELU(), nn.Conv1d(w, w, 3, 2, 1), nn.GELU()),
                                  "blocks": nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers))})
        self.bridge = nn.Sequential(nn.Linear(4 * w, 2 * w), nn.ReLU(True), nn.Linear(2 * w, o.deep))
        self.language = LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=o.words, hidden_size=o.deep, intermediate_size=2 * o.deep, num_hidden_layers=o.layers, num_attention_heads=8, num_key_value_heads=4,
            max_position_embeddings=4096, attn_implementation=o.attention, use_cache=False))

    def heard(self, recording):
        x = self.ear["front"](recording).transpose(1, 2)
        for block in self.ear["blocks"]:
            x = block(x)
        return self.bridge(x[:, :x.shape[1] // 4 * 4].unflatten(1, (-1, 4)).flatten(2))

    def forward(self, recording, words):
        first = self.heard(recording)
        told = self.language.get_input_embeddings()(words)
        n = words.shape[1]
        return self.language(inputs_embeds=torch.cat([first.to(told.dtype), told], dim=1), logits_to_keep=n).logits


@job("speech_into_words", "speech into a language model", "loop", "layers", "attention", "pretrained", "eval", "dataset")
class SpeechIntoWords(Loop):
    """What was asked aloud, and its answer: the bridge from an ear to a language model is trained."""
    kinds = "adamw", "adamw_fused"
    precisions = "fp32", "autocast", "bf16"
    accumulated = 1, 1, 2

    def draw(self):
        r = self.rng
        self.layers, self.width, self.deep, self.words = r.choice([3, 4, 6]), r.choice([384, 512]), r.choice([768, 1024]), r.choice([16000, 32000])
        self.frames, self.told, self.size, self.attention = r.choice([1000, 2000]), r.choice([64, 128]), r.choice([4, 8]), "sdpa"
        self.choose()

    def freeze(self):
        self.model.requires_grad_(False)
        self.model.bridge.requires_grad_(True)

    def build(self):
        with torch.device(DEVICE):
            self.model = Hearing(self)
        self.freeze()
        self.finish(self.model)
        self.dataset = torch.zeros(48, 80, self.frames), torch.zeros(48, self.told, dtype=torch.long)

    def batch(self, i):
        sound, words = cut(self.dataset, i, self.size)
        return sound.to(self.dtype), words

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch)

    def loss(self, batch):
        scores = self.predict(batch)
        return F.cross_entropy(scores[:, :-1].flatten(0, 1).float(), batch[1][:, 1:].flatten())


class Commands(torch.utils.data.Dataset):
    """One second of sound, again and again."""

    def __init__(self, own, batches):
        self.rows, self.sound = own.size * batches, torch.zeros(1, own.samples)

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.sound, i % 35


class Depthwise(nn.Sequential):
    def __init__(self, a, b, stride):
        super().__init__(nn.Conv1d(a, a, 9, stride, 4, groups=a, bias=False), nn.Conv1d(a, b, 1, bias=False), nn.BatchNorm1d(b), nn.ReLU(True))


class Spoken(lightning.LightningModule):
    """Samples, then layers of each channel alone and of all together; the accuracy of an epoch is logged."""

    def __init__(self, own):
        super().__init__()
        w, self.own = own.width, [own]
        body = [Depthwise(w << max(0, min(k - 1, 2)), w << min(k, 2), 2 if k < 3 else 1) for k in range(own.layers)]
        self.model = nn.Sequential(nn.Conv1d(1, w, 80, 8, 40), nn.BatchNorm1d(w), nn.ReLU(True), nn.Sequential(*body), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
                                   nn.Linear(w << min(own.layers - 1, 2), 35))

    def training_step(self, batch, batch_idx):
        loss = self.own[0].loss(batch)
        self.log_dict({"loss": loss, "logarithm": loss.detach().log1p()})
        return {"loss": loss}

    def validation_step(self, batch, batch_idx):
        told = self.model(batch[0])
        self.log("right", (told.argmax(1) == batch[1]).float().mean(), batch_size=len(told))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, weight_decay=0.01)


@job("commands_with_lightning", "commands with Lightning", "lightning", "forward", "layers", "states")
class CommandsWithLightning(Job):
    """Which of some dozens of words was said."""

    def draw(self):
        r = self.rng
        self.layers, self.width, self.samples, self.size = r.choice([4, 6, 8]), r.choice([128, 192, 256]), r.choice([16000, 32000]), r.choice([64, 128])
        self.steps, self.callbacks = r.choice([4, 5, 6]), []
        self.trainer_arguments = {"precision": r.choice(["32-true", "bf16-mixed"]), "accumulate_grad_batches": r.choice([1, 1, 2]),
                                  "gradient_clip_val": r.choice([None, 0.5])}

    def build(self):
        self.module = Spoken(self)
        self.model = self.module.model
        loaders = [torch.utils.data.DataLoader(Commands(self, n), batch_size=self.size, drop_last=True) for n in (24, 4)]
        quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
        self.trainer = lightning.Trainer(**{"max_steps": self.steps, "accelerator": "gpu", "devices": 1, "val_check_interval": 2, "limit_val_batches": 2,
                                            "num_sanity_val_steps": 0, "callbacks": self.callbacks, **quiet, **self.trainer_arguments})
        self.loaders = loaders

    def loss(self, batch):
        sound, word = batch
        return F.cross_entropy(self.module.model(sound).float(), word, label_smoothing=0.1)

    def train(self):
        self.trainer.fit(self.module, *self.loaders)


class Inverted(nn.Module):
    """The whole past of a variable is one vector, and variables attend to each other."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.into, self.out, self.norm = nn.Linear(o.past, w), nn.Linear(w, o.future), nn.LayerNorm(w)
        self.blocks = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers))

    def forward(self, series):
        mean = series.mean(1, keepdim=True).detach()
        spread = (series - mean).square().mean(1, keepdim=True).add(1e-5).sqrt().detach()
        x = self.into(((series - mean) / spread).transpose(1, 2))
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x)).transpose(1, 2) * spread + mean


@job("variables_as_words", "variables as words", "loop", "layers", "attention", "eval", "dataset")
class VariablesAsWords(Loop):
    """Hundreds of meters, told for some days from some weeks; the part of errors that goes up and down counts, too."""
    kinds = "adam", "adamw", "adamw_fused"
    precisions = "fp32", "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.attention = r.choice([3, 4, 6]), r.choice([256, 512]), "sdpa"
        self.variables, self.past, self.future, self.size = r.choice([321, 862]), r.choice([96, 336]), r.choice([96, 192]), r.choice([32, 48, 64])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Inverted(self))
        self.dataset = torch.zeros(128, self.past, self.variables), torch.zeros(128, self.future, self.variables)

    def batch(self, i):
        return [t.to(self.dtype) for t in cut(self.dataset, i, self.size)]

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        told, wanted = self.predict(batch).float(), batch[1].float()
        waves = torch.fft.rfft(told, dim=1) - torch.fft.rfft(wanted, dim=1)
        return F.mse_loss(told, wanted) + 0.1 * waves.abs().mean()


class Recollecting(nn.Module):
    """What is seen, what was done and what it brought, through a recurrent layer; the worth of each action has a mean and differences."""

    def __init__(self, o):
        super().__init__()
        eye, wide = strided_convolutions(o.base)
        self.eye, self.actions = nn.Sequential(nn.Conv2d(o.frames, 3, 1), eye, nn.Flatten(), nn.Linear(wide * 36, o.width), nn.ReLU()), o.actions
        self.memory = nn.LSTM(o.width + o.actions + 1, o.width, batch_first=True)
        self.mean, self.differences = (nn.Sequential(nn.Linear(o.width, o.width), nn.ReLU(), nn.Linear(o.width, n)) for n in (1, o.actions))

    def forward(self, screens, before, brought):
        x = self.eye(screens.flatten(0, 1)).unflatten(0, screens.shape[:2])
        done = F.one_hot(before, self.actions).to(x.dtype)
        x, _ = self.memory(torch.cat([x, done, brought.unsqueeze(-1).to(x.dtype)], dim=-1))
        apart = self.differences(x)
        return self.mean(x) + apart - apart.mean(-1, keepdim=True)


@job("agent_with_a_memory", "an agent with a memory", "loop", "eval", "dataset", "reference")
class AgentWithAMemory(Loop):
    """Pieces of games from a buffer: the first moments only fill the memory, the others are trained, against a network that follows."""
    kinds = "adam", "adamw"
    precisions = "fp32", "fp32", "autocast"
    actions, frames, gamma = 18, 4, 0.997

    def draw(self):
        r = self.rng
        self.base, self.width, self.moments, self.burn = r.choice([24, 32]), r.choice([512, 768]), r.choice([24, 40]), 8
        self.size, self.every = r.choice([16, 24, 32]), r.choice([2, 3])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Recollecting(self))
        self.reference = copy.deepcopy(self.model).requires_grad_(False)
        shape = 64, self.moments
        self.dataset = torch.zeros(*shape, self.frames, 84, 84, dtype=torch.uint8), torch.zeros(shape, dtype=torch.long), torch.zeros(shape)

    def batch(self, i):
        screens, before, brought = cut(self.dataset, i, self.size)
        return screens.to(self.dtype) / 255, before, brought

    def reference_outputs(self, batch):
        with self.no_grad(), self.autocast():
            return self.reference(*batch)

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch)

    def loss(self, batch):
        worth, later = self.predict(batch).float(), self.reference_outputs(batch).float()
        best = worth.detach().argmax(-1, keepdim=True)[:, 1:]
        wanted = batch[2][:, :-1].float() + self.gamma * later[:, 1:].gather(2, best).squeeze(2)
        mine = worth[:, :-1].gather(2, batch[1][:, 1:, None]).squeeze(2)
        return F.huber_loss(mine[:, self.burn:], wanted[:, self.burn:])

    def after_step(self, i, loss):
        super().after_step(i, loss)
        if i % self.every == 0:
            self.reference.load_state_dict(self.model.state_dict())


class Pointwise(nn.Module):
    """A layer of actions: no softmax, a bias by how long ago, and a gate."""

    def __init__(self, o):
        super().__init__()
        self.norm, self.four, self.out = nn.LayerNorm(o.each), nn.Linear(o.each, 4 * o.each), nn.Linear(o.each, o.each)
        self.inner, self.ago, self.heads = nn.LayerNorm(o.each), nn.Parameter(torch.zeros(o.longest)), 4

    def forward(self, x):
        n = x.shape[1]
        u, *qkv = F.silu(self.four(self.norm(x))).chunk(4, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in qkv)
        where = torch.arange(n, device=x.device)
        near = F.silu(q @ k.mT + self.ago[(where[:, None] - where).clamp(min=0)].to(q.dtype)) / n
        told = (near.tril() @ v).transpose(1, 2).flatten(2)
        return x + self.out(self.inner(told) * u)


class Doing(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.things, self.kinds = nn.Embedding(o.things, o.each), nn.Embedding(16, o.each)
        self.layers = nn.ModuleList(Pointwise(o) for _ in range(o.layers))

    def forward(self, things, kinds):
        x = self.things(things) + self.kinds(kinds)
        for layer in self.layers:
            x = layer(x)
        return F.normalize(x, dim=-1)


@job("actions_of_people", "actions of people", "loop", "layers", "eval", "dataset", "crop")
class ActionsOfPeople(Loop):
    """What people do in a shop, one thing after the other: the next one against some hundreds that were drawn."""
    kinds = "adamw", "adam", "adamw_loop"
    precisions = "fp32", "autocast"
    accumulated, longest = (1, 1, 2), 800

    def draw(self):
        r = self.rng
        self.layers, self.each, self.things = r.choice([2, 4, 6]), r.choice([128, 256]), r.choice([100_000, 200_000])
        self.length, self.size, self.wrong = r.choice([128, 200, 256]), r.choice([16, 32, 48]), r.choice([128, 256])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Doing(self))
        self.dataset = torch.zeros(128, self.longest, dtype=torch.int32), torch.zeros(128, self.longest, dtype=torch.uint8)

    def batch(self, i):
        things, kinds = cut(self.dataset, i, self.size)
        return things[:, -self.length:].long(), kinds[:, -self.length:].long()

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch)

    def loss(self, batch):
        told, right = self.predict(batch)[:, :-1].float(), batch[0][:, 1:]
        drawn = torch.arange(self.wrong, device=DEVICE) * 97 % self.things
        near = (told * F.normalize(self.model.things(right).float(), dim=-1)).sum(-1, keepdim=True)
        far = told @ F.normalize(self.model.things(drawn).float(), dim=-1).T
        return F.cross_entropy(torch.cat([near, far], dim=-1).flatten(0, 1) / 0.05, torch.zeros(right.numel(), dtype=torch.long, device=DEVICE))


class Sharper(nn.Module):
    """Dense layers in blocks, and four times the size in the end."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.into, self.blocks, self.after = nn.Conv2d(3, w, 3, padding=1), nn.ModuleList(), nn.Conv2d(w, w, 3, padding=1)
        for _ in range(o.layers):
            self.blocks.append(nn.ModuleList(nn.Conv2d(w + k * 32, 32 if k < 3 else w, 3, padding=1) for k in range(4)))
        self.up = nn.Sequential(nn.Conv2d(w, 4 * w, 3, padding=1), nn.PixelShuffle(2), nn.LeakyReLU(0.2), nn.Conv2d(w, 4 * w, 3, padding=1), nn.PixelShuffle(2),
                                nn.LeakyReLU(0.2), nn.Conv2d(w, 3, 3, padding=1))

    def forward(self, x):
        first = x = self.into(x)
        for block in self.blocks:
            parts = [x]
            for conv in block:
                parts.append(F.leaky_relu(conv(torch.cat(parts, dim=1)), 0.2))
            x = x + 0.2 * parts[-1]
        return self.up(first + self.after(x))


@job("tiles_on_request", "tiles on request", "images", "layers")
class TilesOnRequest(Inference):
    """Photographs that somebody sends in, four times as large: tiles of each, which overlap, as a batch; bytes go back to the host."""

    def draw(self):
        super().draw()
        r = self.rng
        self.layers, self.width, self.pixels, self.size = r.choice([4, 6, 8]), r.choice([48, 64]), r.choice([96, 128]), r.choice([8, 12, 16])

    def build(self):
        with torch.device(DEVICE):
            self.model = Sharper(self).to(self.dtype).eval()

    def batch(self, i):
        return torch.zeros(self.size, 3, self.pixels, self.pixels, dtype=self.dtype, device=DEVICE)

    def predict(self, tiles):
        return self.model(tiles)

    def take(self, i, outputs):
        self.results.append(outputs[..., 16:-16, 16:-16].clamp(0, 1).mul(255).to(torch.uint8).cpu())

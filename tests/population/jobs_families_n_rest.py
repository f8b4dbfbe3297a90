"""Jobs of series, streets, games, deeds, and of trainers: what sensors missed, cars on a map, returns as quantiles, deeds in a long row, rooms with a
trainer, sentences with Lightning, comments of code with Accelerate, stories on request, complaints that are sorted."""
import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from accelerate import Accelerator
from torch.utils.checkpoint import checkpoint
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification, Trainer, TrainingArguments

from core import DEVICE, job
from jobs_families_n import Run
from jobs_inference import Generation, Inference
from jobs_trainers import OUTPUT, LightningBase, Rows, TrainerJob
from parts import Loop, TextLoop, cut


class Missing(nn.Module):
    """Attention that never looks at its own place, twice; what both say of a gap is weighed."""

    def __init__(self, o):
        super().__init__()
        w, self.mode = o.width, o.attention
        def stack():
            return nn.ModuleList(nn.ModuleDict({"n": nn.LayerNorm(w), "qkv": nn.Linear(w, 3 * w), "o": nn.Linear(w, w), "f": nn.Sequential(
                nn.LayerNorm(w), nn.Linear(w, 4 * w), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * w, w))}) for _ in range(o.layers))
        self.into = nn.ModuleList(nn.Linear(2 * o.sensors, w) for _ in range(2))
        self.stacks, self.out = nn.ModuleList(stack() for _ in range(2)), nn.ModuleList(nn.Linear(w, o.sensors) for _ in range(2))
        self.places, self.weigh = nn.Parameter(torch.zeros(o.longest, w)), nn.Linear(2 * o.sensors, o.sensors)

    def look(self, layer, x, own):
        q, k, v = (t.unflatten(-1, (8, -1)).transpose(1, 2) for t in layer["qkv"](layer["n"](x)).chunk(3, dim=-1))
        if self.mode == "sdpa":
            seen = F.scaled_dot_product_attention(q, k, v, attn_mask=own)
        else:
            seen = (q @ k.mT * q.shape[-1] ** -0.5 + own).softmax(-1) @ v
        return layer["o"](seen.transpose(1, 2).flatten(2))

    def forward(self, given):
        series, known = given.chunk(2, dim=-1)
        n = series.shape[1]
        own, told = torch.zeros(n, n, device=series.device, dtype=self.out[0].weight.dtype).fill_diagonal_(-1e4), []
        if torch.is_autocast_enabled("cuda"):
            own = own.to(torch.bfloat16)
        for into, stack, out in zip(self.into, self.stacks, self.out):
            x = into(torch.cat([series, known], dim=-1)) + self.places[:n]
            for layer in stack:
                x = x + self.look(layer, x, own)
                x = x + layer["f"](x)
            told.append(out(x))
            series = known * series + (1 - known) * told[-1]
        share = self.weigh(torch.cat([known, told[1]], dim=-1)).sigmoid()
        return torch.cat([*told, share * told[0] + (1 - share) * told[1]], dim=-1)


@job("what_sensors_missed", "what sensors missed", "loop", "layers", "attention", "eval", "dataset", "crop")
class WhatSensorsMissed(Loop):
    """Gaps in the series of a ward's, or a plant's, sensors: some of what is known is hidden, and told."""
    kinds, precisions, longest, accumulated = ("adam", "adamw", "adamw_fused"), ("fp32", "autocast"), 1024, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.sensors = r.choice([2, 3, 4]), r.choice([256, 512]), r.choice([35, 128])
        self.length, self.size, self.attention = r.choice([192, 256, 384]), r.choice([16, 24, 32]), "sdpa"
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Missing(self))
        self.dataset = torch.zeros(96, self.longest, self.sensors), torch.ones(96, self.longest, self.sensors, dtype=torch.uint8)

    def batch(self, i):
        series, known = (part[:, :self.length].to(DEVICE) for part in self.rows_of(i))
        return series.to(self.dtype), known.to(self.dtype)

    def rows_of(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        return [part[start:start + self.size] for part in self.dataset]

    def predict(self, batch):
        with self.autocast():
            return self.model(torch.cat([batch[0] * batch[1], batch[1]], dim=-1))

    def loss(self, batch):
        series, known = batch
        shown = known * (torch.rand_like(known) > 0.2)
        told = self.predict((series, shown)).float()
        off = (told - series.repeat(1, 1, 3)).abs() * known.repeat(1, 1, 3)
        return off.mean() + (off[..., -self.sensors:] * (known - shown)).mean()


class Cars(nn.Module):
    """Along time by convolutions with gates, along streets by the map and by one that is learnt; each layer adds to what is told."""

    def __init__(self, o):
        super().__init__()
        w, self.again = o.width, o.checkpointing
        self.into, self.ends = nn.Conv2d(2, w, 1), nn.Sequential(nn.ReLU(), nn.Conv2d(4 * w, 8 * w, 1), nn.ReLU(), nn.Conv2d(8 * w, 12, 1))
        self.source, self.target = nn.Parameter(torch.zeros(o.places, 10)), nn.Parameter(torch.zeros(10, o.places))
        self.register_buffer("streets", torch.eye(o.places), persistent=False)
        self.layers = nn.ModuleList(nn.ModuleDict({
            "time": nn.Conv2d(w, 2 * w, (1, 2)), "mix": nn.Conv2d(5 * w, w, 1), "norm": nn.BatchNorm2d(w), "skip": nn.Conv2d(w, 4 * w, 1)})
            for _ in range(o.layers))

    def one(self, k, x, learnt):
        layer, far = self.layers[k], 1 + k % 2
        a, b = F.conv2d(F.pad(x, (far, 0)), layer["time"].weight, layer["time"].bias, dilation=(1, far)).chunk(2, dim=1)
        y = a.tanh() * b.sigmoid()
        near = [y]
        for streets in self.streets, learnt:
            once = torch.einsum("bcnt,nm->bcmt", y, streets)
            near += [once, torch.einsum("bcnt,nm->bcmt", once, streets)]
        return layer["norm"](x + F.dropout(layer["mix"](torch.cat(near, dim=1)), 0.3, self.training)), layer["skip"](y[..., -1:])

    def forward(self, x):
        learnt, total = F.relu(self.source @ self.target).softmax(1), 0
        x = self.into(x)
        for k in range(len(self.layers)):
            x, skip = checkpoint(self.one, k, x, learnt, use_reentrant=False) if self.again and self.training else self.one(k, x, learnt)
            total = total + skip
        return self.ends(total).squeeze(-1)


@job("cars_on_a_map", "cars on a map", "loop", "layers", "checkpointing", "eval", "dataset")
class CarsOnAMap(Loop):
    """How fast cars go in an hour, at each place that counts them, from the hour before; places without a number do not count."""
    kinds, precisions, accumulated = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.places = r.choice([4, 6, 8]), r.choice([32, 40]), r.choice([207, 325, 400])
        self.size, self.checkpointing = r.choice([32, 48, 64]), r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Cars(self))
        self.dataset = torch.zeros(256, 2, self.places, 12), torch.zeros(256, 12, self.places)

    def batch(self, i):
        past, future = cut(self.dataset, i, self.size)
        return past.to(self.dtype), future

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        there = (batch[1] != 0).float()
        return ((self.predict(batch).float() - batch[1]).abs() * there).sum() / there.sum().clamp_min(1)


class Returns(nn.Module):
    """Frames to a vector; the vector times one of a share between 0 and 1 tells, for each action, the return that this share of games stays below."""

    def __init__(self, o):
        super().__init__()
        w, self.shares = o.base, o.shares
        self.eye = nn.Sequential(nn.Conv2d(4, w, 8, 4), nn.ReLU(), nn.Conv2d(w, 2 * w, 4, 2), nn.ReLU(), nn.Conv2d(2 * w, 2 * w, 3), nn.ReLU(), nn.Flatten())
        widths = [98 * w] + [512] * o.layers
        self.share, self.into = nn.Linear(64, 98 * w), nn.Sequential(*[m for a, b in zip(widths, widths[1:]) for m in (nn.Linear(a, b), nn.ReLU())])
        self.value, self.better = nn.Linear(512, 1), nn.Linear(512, o.actions)

    def forward(self, frames):
        seen = self.eye(frames)
        at = torch.rand(len(seen), self.shares, 1, device=seen.device)
        waves = (at * torch.arange(1, 65, device=seen.device) * 3.1416).cos().to(seen.dtype)
        x = self.into(seen.unsqueeze(1) * F.relu(self.share(waves)))
        better = self.better(x)
        return self.value(x) + better - better.mean(-1, keepdim=True)


@job("returns_as_quantiles", "returns as quantiles", "loop", "layers", "reference", "eval", "dataset")
class ReturnsAsQuantiles(Loop):
    """A player of old games, who knows not only what to expect but how sure it is; a second network, of some steps ago, tells what comes after."""
    kinds, precisions, accumulated, actions = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "autocast"), (1,), 18

    def draw(self):
        r = self.rng
        self.layers, self.base, self.shares, self.size = r.choice([1, 2, 3]), r.choice([32, 48]), r.choice([48, 64]), r.choice([256, 384])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Returns(self))
            self.reference = Returns(self).to(self.dtype).requires_grad_(False)
        self.dataset = (torch.zeros(768, 4, 84, 84, dtype=torch.uint8), torch.zeros(768, dtype=torch.long), torch.zeros(768),
                        torch.zeros(768, 4, 84, 84, dtype=torch.uint8))

    def batch(self, i):
        now, done, gain, after = cut(self.dataset, i, self.size)
        return now.to(self.dtype) / 255, done, gain, after.to(self.dtype) / 255

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def reference_outputs(self, batch):
        with self.no_grad(), self.autocast():
            after = self.reference(batch[3])
            best = after.mean(1, keepdim=True).argmax(-1, keepdim=True)
            return after.gather(-1, best.expand(-1, after.shape[1], -1)).squeeze(-1)

    def loss(self, batch):
        wanted = batch[2].unsqueeze(1) + 0.99 * self.reference_outputs(batch).float()
        told = self.predict(batch).float()
        told = told.gather(-1, batch[1][:, None, None].expand(-1, told.shape[1], 1))
        off = wanted.unsqueeze(1) - told
        level = (torch.arange(told.shape[1], device=off.device).unsqueeze(1) + 0.5) / told.shape[1]
        return ((level - (off.detach() < 0).float()).abs() * F.huber_loss(told.expand_as(off), off.detach() + told.detach(), reduction="none")).sum(1).mean()

    def after_step(self, i, loss):
        super().after_step(i, loss)
        if i % 2:
            self.reference.load_state_dict(self.model.state_dict())


class Deed(nn.Module):
    """How much a deed of the past counts is no share: nothing is made to sum up to one; what is seen passes a gate."""

    def __init__(self, w):
        super().__init__()
        self.norm, self.into, self.out, self.middle = nn.LayerNorm(w), nn.Linear(w, 4 * w), nn.Linear(w, w), nn.LayerNorm(w)
        self.apart = nn.Parameter(torch.zeros(4, 64))

    def forward(self, x, far):
        u, v, q, k = F.silu(self.into(self.norm(x))).chunk(4, dim=-1)
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in (q, k, v))
        scores = F.silu(q @ k.mT + self.apart[:, far]) / x.shape[1]
        return x + self.out(self.middle((scores.tril() @ v).transpose(1, 2).flatten(2)) * u)


class Deeds(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.things, self.run = nn.Embedding(o.vocabulary, o.width), Run([Deed(o.width) for _ in range(o.layers)], o.checkpointing)
        self.norm = nn.LayerNorm(o.width)

    def states(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        far = (places[:, None] - places).clamp_min(1).float().log2().mul(6).long().clamp(0, 63)
        return self.norm(self.run(self.things(tokens), far))

    def forward(self, tokens):
        return F.linear(self.states(tokens), self.things.weight)


@job("deeds_in_a_long_row", "deeds in a long row", "loop", "layers", "checkpointing", "eval")
class DeedsInALongRow(TextLoop):
    """All that somebody has looked at, as if it were a language; the next thing against some hundred others, drawn for each batch."""
    kinds, precisions = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast")

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.others = r.choice([2, 4, 6]), r.choice([256, 384]), r.choice([20000, 50000]), r.choice([128, 512])
        self.length, self.size, self.checkpointing = r.choice([128, 200, 256]), r.choice([16, 24]), r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Deeds(self))

    def predict(self, tokens):
        with self.autocast():
            return self.model.states(tokens)

    def loss(self, tokens):
        states = F.normalize(self.predict(tokens)[:, :-1].float(), dim=-1)
        drawn = torch.randint(self.vocabulary, (self.others,), device=tokens.device)
        others, right = (F.normalize(self.model.things(which).float(), dim=-1) for which in (drawn, tokens[:, 1:]))
        scores = torch.cat([(states * right).sum(-1, keepdim=True), states @ others.T], dim=-1) / 0.05
        return F.cross_entropy(scores.flatten(0, 1), torch.zeros(scores[..., 0].numel(), dtype=torch.long, device=tokens.device))


class Flats(torch.utils.data.Dataset):
    """Photographs of rooms, and what each place shows."""

    def __init__(self, rows, side):
        self.rows, self.row = rows, {"pixel_values": torch.zeros(3, side, side), "labels": torch.zeros(side, side, dtype=torch.long)}

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


@job("rooms_with_trainer", "rooms with a trainer", "trainer", "layers", "states", "forward")
class RoomsWithTrainer(TrainerJob):
    """Walls, chairs, windows: DPT of transformers under the Trainer, whose loss adds how much the masks overlap."""

    def draw(self):
        super().draw()
        r = self.rng
        self.layers, self.width, self.pixels, self.narrow = r.choice([4, 6, 8]), r.choice([384, 512]), r.choice([160, 224]), r.choice([64, 96])
        self.trainer_arguments["per_device_train_batch_size"] = r.choice([8, 12, 16])

    def build(self):
        config = transformers.DPTConfig(hidden_size=self.width, num_hidden_layers=self.layers, num_attention_heads=8, intermediate_size=4 * self.width,
                                        image_size=self.pixels, patch_size=16, fusion_hidden_size=2 * self.narrow, num_labels=20, use_auxiliary_head=False,
                                        neck_hidden_sizes=[self.narrow << k for k in range(4)], is_hybrid=False,
                                        backbone_out_indices=[self.layers * k // 4 - 1 for k in range(1, 5)])
        with torch.device(DEVICE):
            self.model = transformers.DPTForSemanticSegmentation(config)
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": 2, "remove_unused_columns": False, **self.trainer_arguments})
        own = self

        class Overlapping(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                return own.loss(inputs)
        trained, looked_at = (Flats(n * self.size, self.pixels) for n in (32, 2))
        self.trainer = Overlapping(self.model, arguments, train_dataset=trained, eval_dataset=looked_at, callbacks=self.callbacks)

    def loss(self, batch):
        with self.trainer.compute_loss_context_manager():
            scores = self.trainer.model(pixel_values=batch["pixel_values"]).logits
        scores = F.interpolate(scores.float(), batch["labels"].shape[-2:], mode="bilinear")
        right = scores.softmax(1).gather(1, batch["labels"].unsqueeze(1))
        return F.cross_entropy(scores, batch["labels"], ignore_index=255) + 1 - right.mean()


RoomsWithTrainer.traits = RoomsWithTrainer.traits - {"tokens", "decoder", "attention", "checkpointing"}


class Follows(lightning.LightningModule):
    """An encoder of many languages, and whether one sentence follows from another; two learning rates."""

    def __init__(self, own):
        super().__init__()
        self.own, self.model = [own], own.make()
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(own.width, own.width), nn.Tanh(), nn.Linear(own.width, 3))

    def forward(self, tokens):
        return self.head(self.model(input_ids=tokens).last_hidden_state[:, 0])

    def training_step(self, batch, batch_idx):
        return self.own[0].loss(batch)

    def validation_step(self, batch, batch_idx):
        self.log("follows", (self(batch["input_ids"]).argmax(-1) == 0).float().mean(), batch_size=len(batch["input_ids"]))

    def configure_optimizers(self):
        return torch.optim.AdamW([{"params": self.model.parameters(), "lr": 1e-5}, {"params": self.head.parameters(), "lr": 1e-3}], fused=self.own[0].fused)


@job("sentences_with_lightning", "sentences with Lightning", "lightning", "forward", "tokens", "layers", "attention", "checkpointing", "states")
class SentencesWithLightning(LightningBase):
    """XLM-RoBERTa under Lightning; what it says with other dropout has to be the same."""

    def draw(self):
        super().draw()
        self.length, self.size = self.rng.choice([128, 192, 256]), self.rng.choice([16, 24])

    def make(self):
        config = transformers.XLMRobertaConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=4 * self.width, pad_token_id=1,
                                               num_hidden_layers=self.layers, num_attention_heads=8, max_position_embeddings=max(1024, self.length) + 8)
        model = AutoModel.from_config(config, attn_implementation=self.attention)
        if self.checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        return model.train()

    def loss(self, batch):
        once, again = (self.module(batch["input_ids"]).float().log_softmax(-1) for _ in range(2))
        return -once[:, 0].mean() + F.kl_div(again, once.detach(), log_target=True, reduction="batchmean")

    def build(self):
        self.module = Follows(self)
        self.model = self.module.model
        self.loaders = [torch.utils.data.DataLoader(Rows(n * self.size, self.length), batch_size=self.size) for n in (self.rows, 3)]
        off = {name: False for name in ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")}
        self.trainer = lightning.Trainer(**{"max_steps": self.steps, "accelerator": "gpu", "devices": 1, "val_check_interval": 2, "num_sanity_val_steps": 0,
                                            "callbacks": self.callbacks, **off, **self.trainer_arguments})

    def train(self):
        self.trainer.fit(self.module, *self.loaders)


@job("comments_of_code_with_accelerate", "comments of code with Accelerate", "loop", "layers", "attention", "eval")
class CommentsOfCode(TextLoop):
    """What a function does, in a sentence: PLBART in Accelerate's loop, with a schedule that Accelerate prepares, too."""
    kinds, precisions = ("adamw", "adamw_fused", "adamw_loop"), ("fp32", "autocast", "autocast")

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.comment = r.choice([2, 3, 4]), r.choice([512, 768]), r.choice([32000, 50005]), r.choice([64, 128])
        self.length, self.size, self.attention = r.choice([256, 512]), r.choice([4, 8, 12]), "sdpa"
        self.choose()

    def build(self):
        sides = {side + name: n for side in ("encoder_", "decoder_") for name, n in
                 (("layers", self.layers), ("attention_heads", 8), ("ffn_dim", 4 * self.width))}
        config = transformers.PLBartConfig(vocab_size=self.vocabulary, d_model=self.width, max_position_embeddings=max(1024, self.length), **sides)
        config._attn_implementation = self.attention
        with torch.device(DEVICE):
            self.finish(transformers.PLBartForConditionalGeneration(config))
        schedule = torch.optim.lr_scheduler.LinearLR(self.optimizers[0], 0.1, 1.0, 10)
        self.accelerator = Accelerator(mixed_precision="bf16" if self.precision == "autocast" else "no")
        self.model, self.schedule, *self.optimizers = self.accelerator.prepare(self.model, schedule, *self.optimizers)

    def predict(self, tokens):
        return self.model(input_ids=tokens, decoder_input_ids=F.pad(tokens[:, :self.comment - 1], (1, 0)), use_cache=False).logits

    def loss(self, tokens):
        return F.cross_entropy(self.predict(tokens).float().transpose(1, 2), tokens[:, :self.comment], label_smoothing=0.1)

    def backward(self, loss):
        self.accelerator.backward(loss)

    def optimize(self):
        self.accelerator.clip_grad_norm_(self.model.parameters(), self.clip or 5.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.schedule.step()


@job("stories_on_request", "stories on request", "generate")
class StoriesOnRequest(Generation):
    """Granite goes on with how a story begins, and does not like to say a word again."""

    def draw(self):
        super().draw()
        self.vocabulary, self.new_tokens, self.prompt = self.rng.choice([32000, 49152]), self.rng.choice([8, 12]), self.rng.choice([384, 768])
        self.size = self.rng.choice([32, 48, 64])
        self.generate_arguments = {"do_sample": False, "repetition_penalty": self.rng.choice([1.1, 1.3])}

    def build(self):
        self.load(AutoModelForCausalLM, transformers.GraniteConfig(**self.shape()))


@job("complaints_that_are_sorted", "complaints that are sorted", "tokens", "layers", "attention")
class ComplaintsThatAreSorted(Inference):
    """To which of some offices a letter goes, and how sure that is; the mail of a day, some letters at a time."""

    def draw(self):
        super().draw()
        self.size, self.vocabulary, self.offices = self.rng.choice([64, 96, 128]), self.rng.choice([32005, 64000]), self.rng.choice([12, 60])

    def build(self):
        self.load(AutoModelForSequenceClassification, transformers.CamembertConfig(
            vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
            max_position_embeddings=max(1024, self.length) + 8, pad_token_id=1, num_labels=self.offices))

    def predict(self, tokens):
        return self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits.float().softmax(-1)

    def take(self, i, offices):
        sure, which = offices.max(-1)
        self.results.append((which.tolist(), sure.mean().item()))

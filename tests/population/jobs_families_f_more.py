"""Jobs of trainers, sound and series: summaries and rewards with trainers, anomalies with Lightning, sounds with Accelerate, a vocoder, quantiles."""
import datasets
import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from accelerate import Accelerator
from transformers import ASTForAudioClassification, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification, Seq2SeqTrainer, Seq2SeqTrainingArguments
from trl import RewardConfig, RewardTrainer

from core import DEVICE, Job, job
from jobs_trainers import OUTPUT, Rows, TrainerJob
from jobs_trl import SFT, tokenizer, triton_finds_the_device
from parts import OPTIMIZERS, Loop, cut


@job("summaries_with_trainer", "summaries with a trainer", "trainer", "tokens", "layers", "attention", "checkpointing", "states")
class SummariesWithTrainer(TrainerJob):
    """Seq2SeqTrainer and mBART, with labels shorter than the texts."""

    def draw(self):
        super().draw()
        self.layers, self.length, self.told = self.rng.choice([2, 3]), self.rng.choice([256, 512]), self.rng.choice([48, 96])

    def build(self):
        config = transformers.MBartConfig(d_model=self.width, encoder_layers=self.layers, decoder_layers=self.layers, encoder_attention_heads=8,
                                          decoder_attention_heads=8, encoder_ffn_dim=4 * self.width, decoder_ffn_dim=4 * self.width,
                                          vocab_size=self.vocabulary, max_position_embeddings=max(1024, self.length))
        with torch.device(DEVICE):
            self.model = AutoModelForSeq2SeqLM.from_config(config, attn_implementation=self.attention)
        self.model.config.use_cache, told = False, self.told

        class Reports(Rows):
            def __getitem__(rows, i):
                return {"input_ids": rows.tokens, "attention_mask": rows.tokens, "labels": rows.tokens[:told]}
        arguments = Seq2SeqTrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "logging_steps": 2, "gradient_checkpointing": self.checkpointing, "predict_with_generate": False, **self.trainer_arguments})
        self.trainer = Seq2SeqTrainer(self.model, arguments, train_dataset=Reports(self.rows * self.size, self.length),
                                      eval_dataset=Reports(2 * self.size, self.length), callbacks=self.callbacks)


@job("trl_reward", "rewards with TRL", "trainer", "tokens", "layers", "attention", "checkpointing", "states")
class Reward(SFT):
    """TRL's trainer of a score for answers, in pairs."""

    def build(self):
        triton_finds_the_device()
        datasets.disable_progress_bars()
        config = self.config()
        config.num_labels, config.pad_token_id = 1, 0
        with torch.device(DEVICE):
            self.model = AutoModelForSequenceClassification.from_config(config, attn_implementation=self.attention)
        arguments = RewardConfig(**{
            "output_dir": OUTPUT, "max_steps": self.steps, "save_strategy": "no", "report_to": [], "disable_tqdm": True, "logging_steps": 2,
            "gradient_checkpointing": self.checkpointing, "max_length": self.length, **self.trainer_arguments})
        words = {"chosen": ["w " * self.length] * 64, "rejected": ["w " * self.length] * 64}
        self.trainer = RewardTrainer(self.model, arguments, train_dataset=datasets.Dataset.from_dict(words), processing_class=tokenizer(self.vocabulary),
                                     callbacks=self.callbacks)


class Sensors(torch.utils.data.Dataset):
    def __init__(self, own):
        self.rows, self.window = own.size * 32, torch.zeros(own.sensors, own.moments)

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.window


def squeezing(sensors, width, layers):
    """Convolutions that halve a window layer by layer, and those that bring it back."""
    widths = [sensors] + [width << min(k, 2) for k in range(layers)]
    down = [m for a, b in zip(widths, widths[1:]) for m in (nn.Conv1d(a, b, 5, 2, 2), nn.BatchNorm1d(b), nn.ELU())]
    up = [m for a, b in zip(widths[:0:-1], widths[-2::-1]) for m in (nn.ConvTranspose1d(a, b, 6, 2, 2), nn.ELU())]
    return nn.Sequential(*down, *up[:-1])


class Restored(lightning.LightningModule):
    def __init__(self, own):
        super().__init__()
        self.own, self.model = [own], squeezing(own.sensors, own.width, own.layers)

    def training_step(self, batch, batch_idx):
        loss = self.own[0].loss(batch)
        self.log("train_loss", loss, prog_bar=False)
        return loss

    def validation_step(self, batch, batch_idx):
        off = (self.model(batch) - batch).abs().mean((1, 2))
        self.log("worst", off.max())

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 10)]


@job("anomalies_with_lightning", "anomalies with Lightning", "lightning", "forward", "layers", "states")
class AnomaliesWithLightning(Job):
    """Windows of many sensors, restored from a few numbers; what is restored badly is odd."""

    def draw(self):
        r = self.rng
        self.layers, self.width, self.sensors, self.moments = r.choice([3, 4]), r.choice([128, 256]), r.choice([38, 64]), r.choice([1024, 2048])
        self.size, self.steps, self.callbacks = r.choice([64, 128]), r.choice([4, 5, 6]), []
        self.trainer_arguments = {"precision": r.choice(["32-true", "bf16-mixed"]), "accumulate_grad_batches": r.choice([1, 2]),
                                  "gradient_clip_val": r.choice([None, 1.0])}

    def build(self):
        self.module = Restored(self)
        self.model = self.module.model
        self.loaders = tuple(torch.utils.data.DataLoader(Sensors(self), batch_size=self.size) for _ in range(2))
        self.trainer = lightning.Trainer(**{"max_steps": self.steps, "accelerator": "gpu", "devices": 1, "logger": False, "enable_checkpointing": False,
                                            "enable_progress_bar": False, "enable_model_summary": False, "val_check_interval": 2, "limit_val_batches": 2,
                                            "num_sanity_val_steps": 0, "callbacks": self.callbacks, **self.trainer_arguments})

    def loss(self, windows):
        restored = self.module.model(windows)
        return F.smooth_l1_loss(restored.float(), windows)

    def train(self):
        self.trainer.fit(self.module, *self.loaders)


@job("sounds_with_accelerate", "sounds with Accelerate", "loop", "layers", "attention", "eval", "dataset")
class SoundsWithAccelerate(Loop):
    """Spectrograms, in patches that overlap, and hundreds of kinds of sounds; Accelerate's loop with accumulate()."""
    kinds = "adamw", "adamw_fused", "adam"
    precisions = "fp32", "autocast", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.frames, self.attention = r.choice([2, 4, 6]), r.choice([384, 512, 768]), r.choice([256, 512, 1024]), "sdpa"
        self.size = r.choice([4, 8, 12])
        self.choose()
        self.micro_batches = r.choice([1, 2])

    def build(self):
        config = transformers.ASTConfig(hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
                                        num_labels=527, max_length=self.frames, num_mel_bins=128, attn_implementation=self.attention)
        with torch.device(DEVICE):
            model = ASTForAudioClassification(config)
        mixed = "bf16" if self.precision == "autocast" else "no"
        self.accelerator = Accelerator(mixed_precision=mixed, gradient_accumulation_steps=self.micro_batches)
        self.finish(model)
        self.model, *self.optimizers = self.accelerator.prepare(model, *self.optimizers)
        self.dataset = torch.zeros(48, self.frames, 128), torch.zeros(48, 527)

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def predict(self, batch):
        return self.model(input_values=batch[0]).logits

    def loss(self, batch):
        return F.binary_cross_entropy_with_logits(self.predict(batch).float(), batch[1])

    def backward(self, loss):
        self.accelerator.backward(loss)

    def optimize(self):
        with self.accelerator.accumulate(self.model):
            if self.clip:
                self.accelerator.clip_grad_norm_(self.model.parameters(), self.clip)
            for optimizer in self.optimizers:
                optimizer.step()


class Wider(nn.Module):
    """From frames to samples, with branches that see further each."""

    def __init__(self, o):
        super().__init__()
        self.start, width, stages = nn.Conv1d(80, o.width, 7, padding=3), o.width, []
        for factor in (8, 8, 4):
            up = nn.ConvTranspose1d(width, width // 2, 2 * factor, factor, factor // 2)
            branches = nn.ModuleList(nn.Sequential(nn.LeakyReLU(0.1), nn.Conv1d(width // 2, width // 2, k, padding=k // 2)) for k in (3, 7, 11))
            stages.append(nn.ModuleDict({"up": up, "branches": branches}))
            width //= 2
        self.stages, self.end = nn.ModuleList(stages), nn.Conv1d(width, 1, 7, padding=3)

    def forward(self, frames):
        x = self.start(frames)
        for stage in self.stages:
            x = stage["up"](F.leaky_relu(x, 0.1))
            x = x + sum(branch(x) for branch in stage["branches"]) / len(stage["branches"])
        return torch.tanh(self.end(F.leaky_relu(x, 0.1)))


class Listener(nn.Module):
    """A sound folded by several periods; it returns what each layer had."""

    def __init__(self, base, periods=(2, 3, 5)):
        super().__init__()
        self.periods = periods
        widths = (1, base), (base, 4 * base), (4 * base, 1)
        self.parts = nn.ModuleList(nn.ModuleList(nn.Conv2d(a, b, (5, 1), (3, 1), (2, 0)) for a, b in widths) for _ in periods)

    def forward(self, sound):
        found = []
        for period, layers in zip(self.periods, self.parts):
            x = sound[..., :sound.shape[-1] // period * period].unflatten(-1, (-1, period))
            for layer in layers:
                x = F.leaky_relu(layer(x), 0.1)
                found.append(x)
        return found


@job("vocoder", "vocoder", "loop", "two optimizers", "dataset", "eval")
class Vocoder(Loop):
    """Sound from mel bands; listeners by periods, whose features have to agree, too."""
    kinds = "adamw", "adam"
    precisions = "fp32", "autocast"
    accumulated = 1,

    def draw(self):
        r = self.rng
        self.width, self.base, self.frames, self.size = r.choice([384, 512]), r.choice([32, 64]), r.choice([64, 96, 128]), r.choice([16, 24, 32])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Wider(self))
            self.listener = Listener(self.base)
        self.optimizers.append(OPTIMIZERS[self.kind](self.listener.parameters()))
        self.dataset = torch.zeros(64, 80, self.frames), torch.zeros(64, 1, self.frames * 256)

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def update_listener(self, real, made):
        with self.autocast():
            pairs = zip(self.listener(real), self.listener(made.detach()))
            loss = sum((1 - a.float()).square().mean() + b.float().square().mean() for a, b in pairs)
        self.optimizers[1].zero_grad()
        loss.backward()
        self.optimizers[1].step()

    def loss(self, batch):
        made = self.predict(batch)
        if torch.is_grad_enabled():
            self.update_listener(batch[1], made)
        with self.autocast(), torch.no_grad():
            wanted = self.listener(batch[1])
        with self.autocast():
            heard = self.listener(made)
        return sum(F.l1_loss(a.float(), b.float()) for a, b in zip(heard, wanted)) + 45 * F.l1_loss(made.float(), batch[1])

    def optimize(self):
        self.optimizers[0].step()


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.into, self.out, self.norm = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x + F.glu(self.out(F.elu(self.into(x))), dim=-1))


class Fusion(nn.Module):
    """Gates choose variables, an LSTM reads them in order, attention looks back, and each moment has several quantiles."""

    def __init__(self, o):
        super().__init__()
        self.embed, self.choose = nn.ModuleList(nn.Linear(1, o.width) for _ in range(o.variables)), nn.Linear(o.variables * o.width, o.variables)
        self.lstm, self.gates = nn.LSTM(o.width, o.width, batch_first=True), nn.ModuleList(Gate(o.width) for _ in range(o.layers))
        self.look, self.told = nn.MultiheadAttention(o.width, 4, batch_first=True), nn.Linear(o.width, 7)

    def forward(self, series):
        each = torch.stack([embed(series[..., k:k + 1]) for k, embed in enumerate(self.embed)], dim=-2)
        x = (self.choose(each.flatten(-2)).softmax(-1)[..., None] * each).sum(-2)
        x = x + self.lstm(x)[0]
        for gate in self.gates:
            x = gate(x)
        return self.told(x + self.look(x, x, x, need_weights=False)[0])


@job("quantiles", "quantiles of demand", "loop", "layers", "eval", "dataset")
class Quantiles(Loop):
    """How much of each thing will be sold, in quantiles."""
    kinds = "adam", "adamw", "adamw_fused"
    precisions = "fp32", "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.variables = r.choice([2, 4]), r.choice([128, 160, 256]), r.choice([6, 10])
        self.past, self.size = r.choice([128, 192]), r.choice([128, 256])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Fusion(self))
        self.dataset = torch.zeros(self.size * 3, self.past, self.variables), torch.zeros(self.size * 3, self.past)

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        quantiles = torch.tensor([0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98], device=DEVICE)
        off = batch[1][..., None] - self.predict(batch).float()
        return torch.maximum(quantiles * off, (quantiles - 1) * off).sum(-1).mean()

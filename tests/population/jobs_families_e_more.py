"""Further jobs: sound to letters, sampled neighbours, click-through rates, genomes, forecasts with Lightning, trainers of transformers and TRL, speech and
answers on request."""

import datasets
import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, BertModel, Trainer, TrainingArguments, Wav2Vec2ForCTC, WhisperForConditionalGeneration
from trl import DPOConfig, DPOTrainer

from core import DEVICE, Job, job
from jobs_inference import Generation, Inference
from jobs_trainers import OUTPUT, Rows, TrainerJob
from jobs_trl import SFT, tokenizer, triton_finds_the_device
from parts import Loop, cut


@job("sound_to_letters", "sound to letters", "loop", "layers", "attention", "eval", "pretrained", "dataset")
class SoundToLetters(Loop):
    """wav2vec 2.0 of transformers with letters on top, its convolutions as they were trained."""
    precisions = "fp32", "autocast", "autocast"
    kinds = "adamw", "adamw_fused", "adamw_loop"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.attention = r.choice([2, 4, 6]), r.choice([384, 512, 768]), "sdpa"
        self.samples, self.letters, self.size = r.choice([48000, 80000, 128000]), r.choice([20, 30]), r.choice([4, 8])
        self.choose()

    def freeze(self):
        self.model.wav2vec2.feature_extractor.requires_grad_(False)

    def build(self):
        config = transformers.Wav2Vec2Config(hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers, num_attention_heads=8, conv_dim=(256,) * 7,
                                             mask_time_prob=0.0, layerdrop=0.0, vocab_size=32, attn_implementation=self.attention)
        with torch.device(DEVICE):
            self.model = Wav2Vec2ForCTC(config)
        self.freeze()
        self.finish(self.model)
        self.dataset = torch.zeros(1, self.samples).expand(32, -1), torch.ones(32, self.letters, dtype=torch.long)

    def batch(self, i):
        sound, letters = cut(self.dataset, i, self.size)
        return sound.to(self.dtype), letters

    def predict(self, batch):
        with self.autocast():
            return self.model(input_values=batch[0]).logits

    def loss(self, batch):
        logs = self.predict(batch).float().log_softmax(-1).transpose(0, 1)
        lengths = torch.full((len(batch[1]),), len(logs)), torch.full((len(batch[1]),), batch[1].shape[1])
        return F.ctc_loss(logs, batch[1], *lengths, zero_infinity=True)


class Averages(nn.Module):
    """A node by itself and by the mean of those that were sampled around it, hop by hop."""

    def __init__(self, o):
        super().__init__()
        widths = [o.features] + [o.width] * o.layers
        self.own = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))
        self.near = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in zip(widths, widths[1:]))
        self.out = nn.Linear(o.width, o.classes)

    def forward(self, hops):
        for own, near in zip(self.own, self.near):
            hops = [F.relu(own(here) + near(there.unflatten(0, (len(here), -1)).mean(1))) for here, there in zip(hops, hops[1:])]
        return self.out(hops[0])


@job("sampled_neighbours", "sampled neighbours", "loop", "layers", "eval")
class SampledNeighbours(Loop):
    """Classes of some nodes of a large graph, each with a sample of its neighbours and of theirs; features lie on the host."""
    precisions = "fp32", "fp32", "autocast"
    kinds = "adam", "adamw", "sgd_momentum"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.features, self.classes = r.choice([2, 3]), r.choice([256, 512]), r.choice([100, 256, 602]), 47
        self.fan, self.size = r.choice([10, 15]), r.choice([256, 512, 1024])
        if self.layers == 3:
            self.fan, self.size = 8, min(self.size, 256)
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Averages(self))

    def batch(self, i):
        """The hops of a sample: as many as this model has layers, and the nodes themselves."""
        return [torch.zeros(1, self.features).expand(self.size * self.fan ** k, -1).to(DEVICE, self.dtype).contiguous() for k in range(len(self.model.own) + 1)]

    def predict(self, hops):
        with self.autocast():
            return self.model(hops)

    def loss(self, hops):
        told = self.predict(hops).float()
        return F.cross_entropy(told, torch.zeros(len(told), dtype=torch.long, device=DEVICE))


class Crossing(nn.Module):
    """Embeddings of many fields, products of them layer by layer, and a part of the network for each task."""

    def __init__(self, o):
        super().__init__()
        self.table, wide = nn.Embedding(o.entries, o.each), o.fields * o.each
        self.cross = nn.ModuleList(nn.Linear(wide, wide) for _ in range(o.layers))
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(wide, 512), nn.ReLU(), nn.Linear(512, 128), nn.ReLU()) for _ in range(o.experts))
        self.gates, self.towers = nn.ModuleList(nn.Linear(wide, o.experts) for _ in range(2)), nn.ModuleList(nn.Linear(128, 1) for _ in range(2))

    def forward(self, fields):
        x = start = self.table(fields).flatten(1)
        for layer in self.cross:
            x = start * layer(x) + x
        each = torch.stack([expert(x) for expert in self.experts], dim=1)
        return torch.cat([tower((gate(x).softmax(-1)[..., None] * each).sum(1)) for gate, tower in zip(self.gates, self.towers)], dim=1)


@job("click_through", "click-through rates", "loop", "layers", "eval", "dataset")
class ClickThrough(Loop):
    """Whether somebody clicks, and buys, by some dozens of fields."""
    kinds = "adam", "adamw", "sgd_momentum"
    precisions = "fp32",

    def draw(self):
        r = self.rng
        self.layers, self.fields, self.each, self.experts = r.choice([2, 3]), r.choice([26, 39]), r.choice([16, 32]), r.choice([3, 6])
        self.entries, self.size = r.choice([500_000, 1_000_000]), r.choice([8192, 16384, 32768])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Crossing(self))
        self.dataset = torch.zeros(self.size * 4, self.fields, dtype=torch.long), torch.zeros(self.size * 4, 2)

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        return F.binary_cross_entropy_with_logits(self.predict(batch).float(), batch[1])


class LongReach(nn.Module):
    """Convolutions that pool a long sequence, a transformer over what is left, and many tracks for each place."""

    def __init__(self, o):
        super().__init__()
        def block(cin, cout):
            return nn.Sequential(nn.BatchNorm1d(cin), nn.GELU(), nn.Conv1d(cin, cout, 5, padding=2), nn.MaxPool1d(2))
        widths = [o.width // 2] * 3 + [o.width] * 4
        self.stem, self.tower = nn.Conv1d(4, o.width // 2, 15, padding=7), nn.Sequential(*[block(a, b) for a, b in zip(widths, widths[1:])])
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(o.width, 8, 2 * o.width, batch_first=True, norm_first=True) for _ in range(o.layers))
        self.tracks = nn.Linear(o.width, o.tracks)

    def forward(self, letters):
        x = self.tower(self.stem(letters)).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return F.softplus(self.tracks(x))


@job("genomes", "genomes", "loop", "layers", "eval")
class Genomes(Loop):
    """How active each place of a long piece of DNA is, in thousands of experiments."""
    kinds = "adam", "adamw", "adamw_fused"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.tracks = r.choice([2, 4]), r.choice([384, 512]), r.choice([1000, 5313])
        self.letters, self.size = r.choice([16384, 32768, 65536]), r.choice([1, 2, 4])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(LongReach(self))

    def batch(self, i):
        return torch.zeros(self.size, self.letters, dtype=torch.long).to(DEVICE)

    def predict(self, letters):
        with self.autocast():
            return self.model(F.one_hot(letters, 4).transpose(1, 2).to(self.dtype))

    def loss(self, letters):
        return F.poisson_nll_loss(self.predict(letters).float(), torch.zeros(1, device=DEVICE), log_input=False)


class Series(torch.utils.data.Dataset):
    def __init__(self, own):
        self.rows, self.past = own.size * 32, torch.zeros(own.past, own.series)

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.past


class Forecaster(lightning.LightningModule):
    """Each series is a token; attention is between series."""

    def __init__(self, own):
        super().__init__()
        self.own, w = [own], own.width
        layers = nn.ModuleList(nn.TransformerEncoderLayer(w, 8, 4 * w, batch_first=True, norm_first=True) for _ in range(own.layers))
        self.model = nn.ModuleDict({"into": nn.Linear(own.past, w), "layers": layers, "out": nn.Linear(w, own.past // 4)})

    def forward(self, past):
        x = self.model["into"](past.transpose(1, 2))
        for layer in self.model["layers"]:
            x = layer(x)
        return self.model["out"](x)

    def training_step(self, batch, batch_idx):
        loss = self.own[0].loss(batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.own[0].loss(batch))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


@job("forecasts_with_lightning", "forecasts with Lightning", "lightning", "forward", "layers", "states")
class ForecastsWithLightning(Job):
    """Hundreds of series, all forecast from all."""

    def draw(self):
        r = self.rng
        self.layers, self.width, self.series, self.past = r.choice([3, 4, 6]), r.choice([512, 768]), r.choice([137, 321, 862]), r.choice([96, 336])
        self.size, self.steps, self.callbacks = r.choice([16, 32]), r.choice([4, 5, 6]), []
        self.trainer_arguments = {"precision": r.choice(["32-true", "bf16-mixed"]), "accumulate_grad_batches": r.choice([1, 1, 2]), "gradient_clip_val": r.choice([None, 0.5])}

    def build(self):
        self.module = Forecaster(self)
        self.model = self.module.model
        self.loaders = tuple(torch.utils.data.DataLoader(Series(self), batch_size=self.size) for _ in range(2))
        self.trainer = lightning.Trainer(**{"max_steps": self.steps, "accelerator": "gpu", "devices": 1, "logger": False, "enable_checkpointing": False,
                                            "enable_progress_bar": False, "enable_model_summary": False, "val_check_interval": 2, "limit_val_batches": 2,
                                            "num_sanity_val_steps": 0, "callbacks": self.callbacks, **self.trainer_arguments})

    def loss(self, past):
        return F.mse_loss(self.module(past).float(), past[:, -(self.past // 4):].transpose(1, 2))

    def train(self):
        self.trainer.fit(self.module, *self.loaders)


@job("classifier_with_trainer", "classification with a trainer", "trainer", "tokens", "layers", "attention", "checkpointing", "states")
class ClassifierWithTrainer(TrainerJob):
    """transformers' Trainer and an encoder with a class for each text."""

    def draw(self):
        super().draw()
        self.vocabulary, self.size = 30522, self.rng.choice([8, 16])

    def build(self):
        config = transformers.BertConfig(hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
                                         vocab_size=self.vocabulary, max_position_embeddings=max(512, self.length), num_labels=4)
        with torch.device(DEVICE):
            self.model = AutoModelForSequenceClassification.from_config(config, attn_implementation=self.attention)

        class Labelled(Rows):
            def __getitem__(rows, i):
                return {"input_ids": rows.tokens, "attention_mask": rows.tokens, "labels": 1}
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [], "disable_tqdm": True,
            "logging_steps": 2, "gradient_checkpointing": self.checkpointing, **self.trainer_arguments})
        self.trainer = Trainer(self.model, arguments, train_dataset=Labelled(self.rows * self.size, self.length), eval_dataset=Labelled(2 * self.size, self.length),
                               callbacks=self.callbacks)


@job("adapters_with_trainer", "adapters with a trainer", "trainer", "tokens", "decoder", "layers", "attention", "checkpointing", "states")
class AdaptersWithTrainer(TrainerJob):
    """PEFT's adapters under transformers' Trainer."""

    def build(self):
        config = transformers.Qwen2Config(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers,
                                          num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=max(1024, self.length))
        with torch.device(DEVICE):
            base = AutoModelForCausalLM.from_config(config, attn_implementation=self.attention, dtype=torch.bfloat16)
        base.config.use_cache = False
        if self.checkpointing:
            base.enable_input_require_grads()
        self.model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", r=32, target_modules="all-linear"))
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [], "disable_tqdm": True,
            "logging_steps": 2, "gradient_checkpointing": self.checkpointing, **self.trainer_arguments})
        self.trainer = Trainer(self.model, arguments, train_dataset=Rows(self.rows * self.size, self.length), eval_dataset=Rows(2 * self.size, self.length),
                               callbacks=self.callbacks)


@job("trl_dpo", "preferences with TRL", "trainer", "tokens", "decoder", "layers", "attention", "checkpointing", "states")
class DPO(SFT):
    """TRL's trainer for pairs of answers, with a reference."""

    def build(self):
        triton_finds_the_device()
        datasets.disable_progress_bars()
        with torch.device(DEVICE):
            self.model, reference = (AutoModelForCausalLM.from_config(self.config(), attn_implementation=self.attention) for _ in range(2))
        arguments = DPOConfig(**{
            "output_dir": OUTPUT, "max_steps": self.steps, "save_strategy": "no", "report_to": [], "disable_tqdm": True, "logging_steps": 2,
            "gradient_checkpointing": self.checkpointing, "max_length": self.length, **self.trainer_arguments})
        half, rest = self.length // 2, self.length - self.length // 2
        rows = datasets.Dataset.from_dict({"prompt": ["w " * half] * 64, "chosen": ["w " * rest] * 64, "rejected": ["w " * rest] * 64})
        self.trainer = DPOTrainer(self.model, reference, arguments, train_dataset=rows, processing_class=tokenizer(self.vocabulary), callbacks=self.callbacks)


@job("speech_on_request", "speech on request", "layers", "attention")
class SpeechOnRequest(Inference):
    """Whisper of transformers writes down what is said in half a minute."""
    traits = {"generate"}

    def draw(self):
        super().draw()
        self.layers, self.size, self.steps, self.new_tokens = self.rng.choice([2, 3]), self.rng.choice([8, 16, 24]), self.rng.choice([2, 3]), 8

    def build(self):
        config = transformers.WhisperConfig(d_model=self.width, encoder_layers=self.layers, decoder_layers=self.layers, encoder_attention_heads=8, decoder_attention_heads=8,
                                            encoder_ffn_dim=4 * self.width, decoder_ffn_dim=4 * self.width, vocab_size=51865, attn_implementation=self.attention)
        with torch.device(DEVICE):
            self.model = WhisperForConditionalGeneration(config).to(self.dtype).eval()

    def batch(self, i):
        return torch.zeros(self.size, 80, 3000, dtype=self.dtype, device=DEVICE)

    def predict(self, features):
        start = torch.full((len(features), 1), 50258, dtype=torch.long, device=DEVICE)
        cache, told = None, start
        states = self.model.model.encoder(features).last_hidden_state
        for _ in range(self.new_tokens):
            out = self.model(encoder_outputs=(states,), decoder_input_ids=told[:, -1:], past_key_values=cache, use_cache=True)
            cache, told = out.past_key_values, torch.cat([told, out.logits[:, -1:].argmax(-1)], dim=1)
        return told

    def take(self, i, outputs):
        self.results.append(outputs.cpu())


@job("answers_with_passages", "answers with passages", "generate")
class AnswersWithPassages(Generation):
    """Passages that a small encoder finds come before the question; the answer is generated."""

    def build(self):
        self.load(AutoModelForCausalLM, transformers.MistralConfig(sliding_window=None, **self.shape()))
        config = transformers.BertConfig(hidden_size=384, intermediate_size=1536, num_hidden_layers=2, num_attention_heads=6, vocab_size=self.vocabulary)
        with torch.device(DEVICE):
            self.finder = BertModel(config, add_pooling_layer=False).to(self.dtype).eval()
        self.passages = torch.zeros(20000, 384)

    def draw(self):
        super().draw()
        self.prompt, self.size = self.rng.choice([512, 1024]), self.rng.choice([8, 16, 32])

    def predict(self, prompts):
        vectors = self.finder(input_ids=prompts[:, :64]).last_hidden_state[:, 0]
        self.found = (vectors.float().cpu() @ self.passages.T).topk(4).indices
        return super().predict(prompts)

"""Trainers: transformers', Accelerate's loop, Lightning's."""
import os
import tempfile

import torch
import torch.nn.functional as F
import transformers
from accelerate import Accelerator
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

from core import DEVICE, Job, job
from jobs_text import Backbone, LanguageModel, SwiGLU
from parts import TextLoop

OUTPUT = os.path.join(tempfile.gettempdir(), "memtrace-population")  # where nothing is saved


class Rows(torch.utils.data.Dataset):
    """Texts of one length, as a tokenizer left them."""

    def __init__(self, rows, length):
        self.rows, self.tokens = rows, torch.ones(length, dtype=torch.long)

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return {"input_ids": self.tokens, "attention_mask": self.tokens, "labels": self.tokens}


@job("trainer", "trainers", "trainer", "tokens", "decoder", "layers", "attention", "checkpointing", "states")
class TrainerJob(Job):
    rows = 64

    def draw(self):
        r = self.rng
        self.layers, self.width = r.choice([2, 3, 4, 6]), r.choice([512, 768, 1024])
        self.vocabulary, self.length = r.choice([16000, 32000, 50257]), r.choice([256, 512, 1024])
        self.attention, self.checkpointing, self.steps = "sdpa", r.random() < 0.25, r.choice([4, 5, 6])
        self.callbacks = []
        self.trainer_arguments = {"per_device_train_batch_size": r.choice([2, 4, 8]), "bf16": r.random() < 0.6, "gradient_accumulation_steps": r.choice([1, 1, 2, 4]),
                                  "optim": r.choice(["adamw_torch", "adamw_torch_fused"]), "max_grad_norm": r.choice([0.0, 1.0])}

    def config(self):
        return transformers.GPT2Config(n_layer=self.layers, n_embd=self.width, n_head=8, vocab_size=self.vocabulary, n_positions=self.length)

    trainer_class = Trainer

    @property
    def size(self):
        return self.trainer_arguments["per_device_train_batch_size"]

    @size.setter
    def size(self, rows):
        self.trainer_arguments["per_device_train_batch_size"] = rows

    def build(self):
        with torch.device(DEVICE):
            self.model = AutoModelForCausalLM.from_config(self.config(), attn_implementation=self.attention)
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size,
            "max_steps": self.steps, "save_strategy": "no", "report_to": [], "disable_tqdm": True, "logging_steps": 2,
            "gradient_checkpointing": self.checkpointing, **self.trainer_arguments})
        self.trainer = self.trainer_class(self.model, arguments, train_dataset=Rows(self.rows * self.size, self.length),
                                          eval_dataset=Rows(2 * self.size, self.length), callbacks=self.callbacks)

    def train(self):
        self.trainer.train()


@job("trainer_own_loss", "trainers", "trainer", "tokens", "decoder", "layers", "attention", "checkpointing", "states", "forward")
class TrainerOwnLoss(TrainerJob):
    """A Trainer with compute_loss() of its own, which calls the job's loss()."""

    def config(self):
        return transformers.LlamaConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers,
                                        num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=self.length)

    def loss(self, batch):
        logits = self.trainer.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), batch["labels"][:, 1:].flatten())

    def trainer_class(self, *arguments, **keys):
        own = self

        class WeightedTrainer(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                return own.loss(inputs)
        return WeightedTrainer(*arguments, **keys)


@job("accelerate", "trainers", "loop", "decoder", "layers", "attention", "eval")
class Accelerated(TextLoop):
    """Accelerate's loop by hand."""
    kinds = "adamw", "adamw_fused", "adamw_loop", "adam"
    precisions = "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width = r.choice([2, 4, 6]), r.choice([512, 768, 1024])
        self.vocabulary, self.length, self.size = r.choice([16000, 32000]), r.choice([256, 512]), r.choice([4, 8, 16])
        self.attention = "sdpa"
        self.choose()

    def build(self):
        config = transformers.LlamaConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width,
                                          num_hidden_layers=self.layers, num_attention_heads=8, num_key_value_heads=8)
        with torch.device(DEVICE):
            model = AutoModelForCausalLM.from_config(config, attn_implementation=self.attention)
        self.accelerator = Accelerator(mixed_precision="bf16" if self.precision == "autocast" else "no")
        self.finish(model)
        self.model, *self.optimizers = self.accelerator.prepare(model, *self.optimizers)

    def predict(self, batch):
        return self.model(input_ids=batch, use_cache=False).logits

    def loss(self, batch):
        return self.model(input_ids=batch, labels=batch, use_cache=False).loss

    def backward(self, loss):
        self.accelerator.backward(loss)

    def optimize(self):
        if self.clip:
            self.accelerator.clip_grad_norm_(self.model.parameters(), self.clip)
        for optimizer in self.optimizers:
            optimizer.step()


class LightningBase(Job):
    rows = 64

    def draw(self):
        r = self.rng
        self.layers, self.width, self.heads = r.choice([3, 4, 6]), r.choice([512, 768]), 8
        self.vocabulary, self.length, self.size = r.choice([8192, 20000, 32000]), r.choice([256, 512, 1024]), r.choice([4, 8])
        self.attention, self.checkpointing, self.dropout, self.steps = "sdpa", r.random() < 0.25, 0.0, r.choice([4, 5, 6])
        self.callbacks, self.fused = [], r.random() < 0.3
        self.trainer_arguments = {"precision": r.choice(["32-true", "bf16-mixed", "bf16-mixed"]), "accumulate_grad_batches": r.choice([1, 1, 2]),
                                  "gradient_clip_val": r.choice([None, None, 1.0])}
        if self.fused:
            self.trainer_arguments["gradient_clip_val"] = None

    def make(self):
        return LanguageModel(Backbone(self, True, lambda: SwiGLU(self.width, 3 * self.width)), self)

    def loss(self, batch):
        tokens = batch["input_ids"]
        return self.module.model(tokens, tokens.roll(-1, 1))[1]

"""What people do most often before they ask why memory ran out: batches, data, precision, copies of the model, generation. See faults_common_k.py."""
import copy
import os
import tempfile

import torch
import torch.nn as nn

from amounts import after_build, sized
from core import DEVICE, Fault, fault
from faults_common_k import WRAPPED, enough_rows, every_epoch, few_rows, smaller


@fault("k_batch_size", "batch too large", "loop", without=("two optimizers", *WRAPPED))
class BatchOfTheExample(Fault):
    """The batch size of a paper with larger cards; it should be small, and accumulated."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        times, target.steps = self.rng.choice([4, 6, 8]), 3
        smaller(target)
        target.micro_batches = 1
        if fixed:
            target.micro_batches = times
        else:
            target.size *= times
        enough_rows(target, 2 * target.size)


@fault("k_trainer_batch", "batch too large", "trainer")
class BatchPerDevice(Fault):
    """per_device_train_batch_size is the whole batch, and gradient_accumulation_steps is 1."""

    def fits(self, target):
        return super().fits(target) and "per_device_train_batch_size" in target.trainer_arguments

    def inject(self, target, fixed):
        times, target.steps = self.rng.choice([4, 6, 8]), 3
        small = max(1, target.trainer_arguments["per_device_train_batch_size"] // 2)
        target.trainer_arguments["per_device_train_batch_size"] = small if fixed else small * times
        target.trainer_arguments["gradient_accumulation_steps"] = times if fixed else 1
        enough_rows(target, 4 * small * times)


@fault("k_images_full_size", "pictures too large", "loop", "images", without=("two optimizers", "pretrained", *WRAPPED))
class ImagesNotResized(Fault):
    """No Resize() among the transforms: pictures are as the camera made them."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "pixels", None), int)

    def inject(self, target, fixed):
        smaller(target)
        if not fixed:
            target.pixels *= self.rng.choice([2, 2, 3])


@fault("k_pad_to_max", "padding", "loop", "tokens", without=WRAPPED)
class PaddedToMaxLength(Fault):
    """padding="max_length", where the texts are short."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "length", None), int)

    def inject(self, target, fixed):
        longest, part = max(512, target.length), self.rng.choice([4, 8])
        target.length = longest // part if fixed else longest


@fault("k_eager_long", "attention scores", "loop", "attention", "tokens", without=WRAPPED)
class LongTextsWithEagerAttention(Fault):
    """Long texts, and attention written as softmax(q @ k) @ v."""

    def fits(self, target):
        return super().fits(target) and sized(target) and isinstance(getattr(target, "length", None), int)

    def inject(self, target, fixed):
        target.length, target.size = self.rng.choice([1024, 1536, 2048]), 4
        target.attention = "sdpa" if fixed else "eager"
        if "checkpointing" in target.traits:
            target.checkpointing = False


@fault("k_no_amp", "no mixed precision", "loop", "images", "layers", without=("two optimizers", "decoder", "pretrained", *WRAPPED))
class NoMixedPrecision(Fault):
    """Training in 32 bits, without autocast."""

    def fits(self, target):
        return super().fits(target) and sized(target) and hasattr(target, "precision") and "autocast" in type(target).precisions

    def inject(self, target, fixed):
        target.precision = "autocast" if fixed else "fp32"
        target.size = max(target.size, self.rng.choice([32, 48, 64]))
        enough_rows(target, 2 * target.size)
        if "checkpointing" in target.traits:
            target.checkpointing = False


@fault("k_no_checkpointing", "activations", "loop", "layers", "checkpointing", without=("two optimizers", *WRAPPED))
class NoCheckpointing(Fault):
    """A deep model, and gradient checkpointing is not switched on."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "layers", None), int)

    def inject(self, target, fixed):
        target.layers *= 2
        target.checkpointing = fixed
        if isinstance(getattr(target, "vocabulary", None), int):
            target.vocabulary = min(target.vocabulary, 8192)
        if sized(target):
            target.size *= 2
            enough_rows(target, 2 * target.size)


@fault("k_dataset_on_gpu", "data moved to the GPU", "loop", "dataset", without=WRAPPED)
class DatasetToDevice(Fault):
    """X.to(device), y.to(device) for the whole dataset, before the loop."""

    def inject(self, target, fixed):
        wanted = int(self.rng.uniform(1.5, 3) * (1 << 30))
        few_rows(target, self.rng)

        def load():
            row = sum(t[0].numel() * t.element_size() for t in target.dataset)
            data = tuple(torch.zeros(max(len(t), wanted // row), *t.shape[1:], dtype=t.dtype) for t in target.dataset)
            target.dataset = data if fixed else tuple(t.to(DEVICE) for t in data)
        after_build(target, load)


@fault("k_loader_on_gpu", "data moved to the GPU", "loop", "images", "dataset", without=("two optimizers", *WRAPPED))
class LoaderToDevice(Fault):
    """A list of all batches, each moved to the GPU, instead of a loader that does so step by step."""

    def inject(self, target, fixed):
        wanted, make = int(self.rng.uniform(2, 4) * (1 << 30)), target.batch
        target.size = min(target.size, 16)

        def load():
            before = torch.cuda.memory_allocated()
            batches = [make(0)]
            count = min(1500, wanted // max(1, torch.cuda.memory_allocated() - before))
            if fixed:
                target.batch = lambda i: make(i % count)
                return
            batches += [make(i) for i in range(1, count)]
            target.batch = lambda i: batches[i % len(batches)]
        after_build(target, load)


@fault("k_checkpoint_on_gpu", "loaded checkpoint", "loop", "tokens", without=("two optimizers", "peft", *WRAPPED))
class CheckpointWithoutMapLocation(Fault):
    """checkpoint = torch.load(path), without map_location; the variable stays."""

    def inject(self, target, fixed):
        few_rows(target, self.rng)
        average = self.rng.choice(["ema", "best_model"])

        def resume():
            handle, path = tempfile.mkstemp(suffix=".pt")
            os.close(handle)
            torch.save({"epoch": 3, "model": target.model.state_dict(), average: copy.deepcopy(target.model.state_dict())}, path)
            target.checkpoint = torch.load(path, map_location="cpu") if fixed else torch.load(path)
            os.remove(path)
            target.model.load_state_dict(target.checkpoint["model"])
        after_build(target, resume)


@fault("k_snapshots", "copies of the model kept", "loop", "tokens", without=("two optimizers", "peft", *WRAPPED))
class WeightsOfEachEpoch(Fault):
    """copy.deepcopy(model.state_dict()) after each epoch, to go back to the best one."""

    def inject(self, target, fixed):
        few_rows(target, self.rng)
        target.steps, form, snapshots = self.rng.randint(5, 7), self.rng.choice(["deepcopy", "clones", "model"]), []

        def snapshot(epoch):
            if fixed:
                target.best = {k: v.detach().cpu() for k, v in target.model.state_dict().items()}
            elif form == "deepcopy":
                snapshots.append(copy.deepcopy(target.model.state_dict()))
            elif form == "clones":
                snapshots.append({k: v.clone() for k, v in target.model.state_dict().items()})
            else:
                snapshots.append((epoch, [p.detach().clone() for p in target.model.parameters()]))
        every_epoch(target, snapshot)


@fault("k_folds", "earlier runs kept", "loop", "layers", without=("two optimizers", "peft", *WRAPPED))
class ModelOfEachFold(Fault):
    """A new model and a new optimizer for each fold, and a list of results that holds those before."""

    def inject(self, target, fixed):
        few_rows(target, self.rng)
        per_fold, folds, results = self.rng.choice([1, 2]), self.rng.choice([3, 4]), []
        target.steps = per_fold * folds

        def next_fold(i):
            if i + 1 == target.steps:
                return
            if not fixed:
                results.append({"fold": len(results), "model": target.model, "optimizer": target.optimizers})
            target.model, target.optimizers = None, []
            target.build()
        every_epoch(target, next_fold, per_fold)


@fault("k_adam_states", "optimizer states", "loop", "tokens", without=("two optimizers", "peft", "pretrained", *WRAPPED))
class AdamOfAllParameters(Fault):
    """Adam for a model whose weights and gradients just fit; SGD has no states."""

    def fits(self, target):
        return super().fits(target) and hasattr(target, "kind") and "states" in target.traits

    def inject(self, target, fixed):
        few_rows(target, self.rng)
        target.clip = 0
        target.kind = "sgd" if fixed else self.rng.choice(["adam", "adamw"])


@fault("k_big_linear", "one layer too large", "loop", "images", without=("two optimizers", *WRAPPED))
class FlattenWithoutPooling(Fault):
    """Flatten() of a large map, and a Linear() of all of it; a pooling layer belongs between them."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "pixels", None), int) and target.pixels >= 64

    def inject(self, target, fixed):
        few_rows(target, self.rng)
        channels, many, forward = self.rng.choice([32, 64]), self.rng.uniform(1e8, 2.5e8), target.loss

        def add_head():
            side = target.pixels // 4
            wide, hidden = 7 if fixed else side, max(128, min(4096, int(many / (channels * side ** 2))))
            with torch.device(DEVICE):
                pool = nn.AdaptiveAvgPool2d(7) if fixed else nn.Identity()
                maps = nn.Sequential(nn.Conv2d(getattr(target, "channels", 3), channels, 4, 4), nn.ReLU(), pool, nn.Flatten())
                target.head = nn.Sequential(maps, nn.Linear(channels * wide ** 2, hidden), nn.ReLU(), nn.Linear(hidden, 100))
            target.optimizers.append(torch.optim.Adam(target.head.parameters(), lr=1e-4))

        def loss_with_head(batch):
            images = batch if torch.is_tensor(batch) else batch[0]
            scores = target.head(images.float())
            labels = torch.zeros(len(scores), dtype=torch.long, device=DEVICE)
            return forward(batch) + nn.functional.cross_entropy(scores, labels)
        after_build(target, add_head)
        target.loss = loss_with_head


@fault("k_logits", "logits", "loop", "decoder", "tokens", without=("peft", "pretrained", "reference", *WRAPPED))
class LargeVocabulary(Fault):
    """A vocabulary of all languages, and several long rows at a time."""

    def fits(self, target):
        return super().fits(target) and sized(target) and all(isinstance(getattr(target, name, None), int) for name in ("vocabulary", "length"))

    def inject(self, target, fixed):
        target.vocabulary, rows = self.rng.choice([100000, 128256, 151936]), 4
        target.length, target.layers, target.steps = 512, min(target.layers, 2), 3
        target.size, target.micro_batches = (1, rows) if fixed else (rows, 1)


@fault("k_trainer_logits", "logits of an evaluation", "trainer", "decoder", "tokens", without=("forward",))
class LogitsForComputeMetrics(Fault):
    """compute_metrics, for which the Trainer gathers the logits of the whole evaluation; argmax is taken at its end."""

    def fits(self, target):
        return super().fits(target) and not target.name.startswith(("trl", "classifier"))

    def inject(self, target, fixed):
        few_rows(target, self.rng)
        target.trainer_arguments.update(eval_strategy="steps", eval_steps=2)
        wanted = self.rng.uniform(1.2, 2) * (1 << 30)

        def add_metrics():
            row = target.length * target.vocabulary * (2 if target.trainer_arguments.get("bf16") else 4)
            rows = [target.trainer.train_dataset[0]] * min(96, max(8, int(wanted / row)))
            target.trainer.eval_dataset = rows
            target.trainer.compute_metrics = lambda prediction: {"rows": len(rows)}
            if fixed:
                target.trainer.preprocess_logits_for_metrics = lambda logits, labels: (logits[0] if isinstance(logits, tuple) else logits).argmax(-1)
        after_build(target, add_metrics)


@fault("k_generate_all", "KV cache", "generate", "decoder")
class AllPromptsAtOnce(Fault):
    """generate() of all prompts in one batch."""

    def inject(self, target, fixed):
        times = self.rng.choice([3, 4, 6])
        target.prompt = max(512, target.prompt)
        if fixed:
            target.steps *= times
        else:
            target.size *= times


@fault("k_fp32_weights", "weights in full precision", "inference", "attention", "decoder")
class LoadedIn32Bits(Fault):
    """from_pretrained() without a dtype: the weights have 32 bits."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "layers", None), int) and hasattr(target, "dtype")

    def inject(self, target, fixed):
        few_rows(target, self.rng)
        target.layers, target.steps = 6 * self.rng.choice([2, 3]), min(target.steps, 3)
        if "generate" in target.traits:
            target.prompt, target.new_tokens = min(128, target.prompt), 6
        target.dtype = torch.bfloat16 if fixed else torch.float32

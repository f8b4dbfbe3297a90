"""Mistakes that people tell of most often, of what a job is given: batches, pictures, texts, precision, data, optimizers, layers."""
import contextlib
import io
import math

import torch
import torch.nn as nn

from amounts import after_build, blocks, mapped, sized
from core import Fault, fault

WRAPPED = "ddp", "fsdp", "deepspeed", "megatron"


def enough_rows(target, rows):
    """A dataset of at least so many rows."""
    if isinstance(getattr(target, "rows", None), int):
        target.rows = max(target.rows, rows)


def small_vocabulary(target, largest):
    if isinstance(getattr(target, "vocabulary", None), int) and "decoder" in target.traits:
        target.vocabulary = min(target.vocabulary, largest)


def small_batches(target, rng):
    """Few examples at a time, and short ones, so that parameters weigh more than activations."""
    for name, largest in ("size", 4), ("length", rng.choice([64, 128])):
        if isinstance(getattr(target, name, None), int):
            setattr(target, name, min(getattr(target, name), largest))


@contextlib.contextmanager
def other_size(target, size):
    """Batches of another size, for a while."""
    usual, target.size = target.size, size
    try:
        yield
    finally:
        target.size = usual


@fault("batch_size_of_a_paper", "batch too large", "loop", without=("two optimizers",))
class BatchSizeOfAPaper(Fault):
    """The batch size of the paper, on one card; accumulation gives the same."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        times, small = self.rng.choice([4, 6, 8]), self.rng.choice([8, 12])
        size, target.steps = max(2, min(target.size, small)), self.rng.choice([2, 3])
        enough_rows(target, size * times)
        target.size, target.micro_batches = (size, times) if fixed else (size * times, 1)


@fault("per_device_batch_of_an_example", "batch too large", "trainer")
class PerDeviceBatchOfAnExample(Fault):
    """per_device_train_batch_size=32, copied from an example with a larger card; gradient_accumulation_steps does the same with small batches."""

    def fits(self, target):
        return super().fits(target) and target.name != "trl_dpo"  # two models weigh more than its batches

    def inject(self, target, fixed):
        rows, times = self.rng.choice([16, 24, 32]), self.rng.choice([8, 4])
        target.steps, target.length = 2, max(target.length, 512)
        target.trainer_arguments["per_device_train_batch_size"] = rows // times if fixed else rows
        target.trainer_arguments["gradient_accumulation_steps"] = times if fixed else 1


@fault("all_examples_in_one_call", "batch too large", "inference", without=("generate",))
class AllExamplesInOneCall(Fault):
    """model(**inputs) with all examples that there are, instead of some at a time."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "size", None), int)

    def inject(self, target, fixed):
        times, size = self.rng.choice([6, 8, 12]), max(4, min(target.size, 24) // 4 * 4)
        target.size, target.steps = (size, times) if fixed else (size * times, 1)


@fault("photos_as_they_are", "pictures too large", "images", "loop", without=("two optimizers",))
class PhotosAsTheyAre(Fault):
    """Pictures go in as the camera took them; Resize() comes first in the fixed form."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "pixels", None), int) and target.pixels <= 256

    def inject(self, target, fixed):
        times = self.rng.choice([2, 2, 4] if target.pixels <= 128 else [2, 2, 3])
        target.size, target.steps = max(4, min(target.size, self.rng.choice([8, 16, 32]))), self.rng.choice([2, 3, 4])
        if not fixed:
            target.pixels *= times


class Longer(Fault):
    """Rows of tokens that are longer than they need to be."""

    def fits(self, target):
        return super().fits(target) and bool({"loop", "trainer"} & target.traits) and isinstance(getattr(target, "length", None), int)

    def inject(self, target, fixed):
        length, times = self.rng.choice([96, 128, 192]), self.rng.choice([4, 6, 8])
        target.length = length if fixed else length * times
        if isinstance(getattr(target, "size", None), int):
            target.size = max(2, min(target.size, self.rng.choice([8, 16])))


@fault("padding_max_length", "padding", "tokens", without=("generate", "inference"))
class PaddingMaxLength(Longer):
    """padding="max_length", where texts are short: padding=True fills up to the longest of a batch."""


@fault("one_text_not_truncated", "larger batch", "tokens", "loop", without=("reference", "images"))
class OneTextNotTruncated(Fault):
    """truncation=True is forgotten, and after some steps a text comes that is many times as long as the others."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "length", None), int)

    def inject(self, target, fixed):
        short, times, batch = self.rng.choice([96, 128, 192]), self.rng.choice([5, 6, 8]), target.batch
        target.length, target.steps = short * times, self.rng.choice([4, 5, 6])
        late = target.micro_batches * self.rng.randint(1, 3)

        def truncated(tokens):
            return tokens[:, :short] if tokens.dim() > 1 and tokens.shape[1] == short * times else tokens
        target.batch = lambda i: batch(i) if i == late and not fixed else mapped(batch(i), truncated)


@fault("amp_left_off", "no mixed precision", "loop", without=("two optimizers", "pretrained", "peft", "reference", "fsdp"))
class AmpLeftOff(Fault):
    """Everything in 32 bits, where torch.autocast() would do."""

    def fits(self, target):
        return super().fits(target) and "autocast" in getattr(target, "precisions", ()) and hasattr(target, "precision")

    def inject(self, target, fixed):
        small_vocabulary(target, 4000)
        target.precision, target.steps = "autocast" if fixed else "fp32", 3
        if sized(target):
            target.size *= self.rng.choice([2, 3])
            enough_rows(target, target.size)


@fault("checkpointing_never_enabled", "activations", "checkpointing", without=("megatron",))
class CheckpointingNeverEnabled(Fault):
    """A deep model, and nobody calls gradient_checkpointing_enable()."""

    def fits(self, target):
        return super().fits(target) and target.family != "shared layers"  # which cannot be checkpointed

    def inject(self, target, fixed):
        target.checkpointing, target.steps = fixed, 3
        small_vocabulary(target, 4000)
        if "layers" in target.traits:
            target.layers *= 2
        if sized(target):
            target.size = max(target.size, self.rng.choice([8, 12, 16]))


@fault("without_flash_attention", "attention scores", "tokens", "attention", without=("generate", "inference", "reference"))
class WithoutFlashAttention(Fault):
    """Attention as an old tutorial has it, on long texts."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "length", None), int) and target.family != "encoder-decoder"

    def inject(self, target, fixed):
        target.length, target.size, target.steps = self.rng.choice([1024, 1280, 1536]), 4, 3
        small_vocabulary(target, 8000)
        target.attention = "sdpa" if fixed else "eager"


@fault("dtype_left_out", "weights in full precision", "inference", "layers")
class DtypeLeftOut(Fault):
    """A model is loaded for inference without dtype=torch.bfloat16."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "dtype", None), torch.dtype)

    def inject(self, target, fixed):
        target.dtype = torch.bfloat16 if fixed else torch.float32
        target.layers, target.steps = max(8, target.layers * self.rng.choice([3, 4])), 2
        if isinstance(getattr(target, "width", None), int):
            target.width = max(target.width, 1024)
        if isinstance(getattr(target, "size", None), int):
            target.size = min(target.size, 4)


@fault("full_finetuning_with_adam", "optimizer states", "loop", "states", without=("two optimizers", "pretrained", "peft", *WRAPPED))
class FullFinetuningWithAdam(Fault):
    """AdamW on all parameters of a model that leaves no room for its states; Adafactor has next to none."""

    def fits(self, target):
        return super().fits(target) and bool({"tokens", "decoder"} & target.traits)

    def inject(self, target, fixed):
        small_batches(target, self.rng)
        small_vocabulary(target, 4000)
        if "layers" in target.traits:
            target.layers *= self.rng.choice([2, 3])
        target.micro_batches, fused = 1, self.rng.random() < 0.5

        def choose():
            trained = [p for p in target.model.parameters() if p.requires_grad]
            target.optimizers = [torch.optim.Adafactor(trained, lr=1e-3, foreach=False) if fixed else torch.optim.AdamW(trained, lr=1e-4, fused=fused or None)]
        after_build(target, choose)


def last_layer(model):
    """The last layer with weights, which is new."""
    return [m for m in model.modules() if isinstance(m, (nn.Linear, nn.Conv2d, nn.Conv1d, nn.Conv3d))][-1]


@fault("head_in_the_optimizer", "base not frozen", "loop", without=("two optimizers", "pretrained", "peft", *WRAPPED))
class HeadInTheOptimizer(Fault):
    """Transfer learning: the optimizer gets the parameters of the head, and the backbone's have requires_grad all the same."""

    def inject(self, target, fixed):
        small_batches(target, self.rng)
        if "layers" in target.traits:
            target.layers *= 2
        small_vocabulary(target, 4000)
        last, kind = self.rng.choice(["layer", "block"]), self.rng.choice([torch.optim.Adam, torch.optim.AdamW])

        def choose():
            modules = [last_layer(target.model)] + (blocks(target.model)[-1:] if last == "block" else [])
            head = {p for m in modules for p in m.parameters() if p.requires_grad}
            if fixed:
                for p in target.model.parameters():
                    p.requires_grad_(p in head)
            target.optimizers = [kind(list(head), lr=1e-3)]
        after_build(target, choose)


@fault("linear_after_flatten", "one layer too large", "loop", "images", without=("two optimizers", "pretrained", *WRAPPED))
class LinearAfterFlatten(Fault):
    """nn.Linear(32 * 56 * 56, 2048) after flatten(); with a pooling before it the layer is small."""

    def inject(self, target, fixed):
        small_batches(target, self.rng)
        weights, width, forward, target.micro_batches = self.rng.choice([160e6, 220e6, 300e6]), self.rng.choice([16, 32]), target.loss, 1

        def add_head():
            pictures = pictures_of(target.batch(0))
            stem = nn.Sequential(nn.Conv2d(pictures.shape[1], width, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(2))
            if fixed:
                stem.append(nn.AdaptiveAvgPool2d(4))
            with torch.device("cuda"):
                count = stem.cuda()(torch.zeros(1, *pictures.shape[1:], device="cuda")).numel()
                inner = int(weights / (width * (pictures.shape[2] // 4) * (pictures.shape[3] // 4)))
                head = nn.Sequential(stem, nn.Flatten(), nn.Linear(count, inner), nn.ReLU(), nn.Linear(inner, 10))
            target.second_head = head.to(pictures.dtype)
            target.optimizers[0].add_param_group({"params": list(head.parameters())})

        def loss_with_head(batch):
            with torch.autocast("cuda", torch.bfloat16, enabled=getattr(target, "precision", "") == "autocast"):
                scores = target.second_head(pictures_of(batch))
            return forward(batch) + scores.float().logsumexp(-1).mean()
        after_build(target, add_head)
        target.loss = loss_with_head


def pictures_of(batch):
    """The first tensor of pictures in a batch."""
    found = []
    mapped(batch, lambda t: found.append(t) or t)
    return next(t for t in found if t.dim() == 4 and t.is_floating_point())


@fault("tensors_to_cuda_first", "data moved to the GPU", "loop", "dataset")
class TensorsToCudaFirst(Fault):
    """TensorDataset(X.cuda(), y.cuda()), where each batch could be moved when its turn comes."""

    def inject(self, target, fixed):
        small_batches(target, self.rng)
        small_vocabulary(target, 8000)
        bytes_of_data = self.rng.uniform(1.5, 3.0) * 2 ** 30

        def load():
            times = math.ceil(bytes_of_data / sum(t.nbytes for t in target.dataset))
            whole = tuple(torch.zeros(times * len(t), *t.shape[1:], dtype=t.dtype) for t in target.dataset)
            target.dataset = whole if fixed else tuple(t.cuda() for t in whole)
        after_build(target, load)


@fault("resume_without_map_location", "loaded checkpoint", without=("trainer", "lightning", "generate", "peft", "two optimizers", *WRAPPED))
class ResumeWithoutMapLocation(Fault):
    """torch.load(path) puts a checkpoint where it was saved, on the GPU, and the variable lives as long as main() does."""

    def fits(self, target):
        return super().fits(target) and bool({"loop", "inference"} & target.traits) and bool({"tokens", "decoder"} & target.traits)

    def inject(self, target, fixed):
        small_batches(target, self.rng)
        small_vocabulary(target, 16000)
        if "layers" in target.traits:
            target.layers *= 2

        def resume():
            weights = target.model.state_dict()
            file = io.BytesIO()
            torch.save({"model": weights, "ema": {k: v.clone() for k, v in weights.items()}, "epoch": 3}, file)
            file.seek(0)
            checkpoint = torch.load(file, map_location="cpu" if fixed else None)
            target.model.load_state_dict(checkpoint["model"])
            if not fixed:
                target.checkpoint = checkpoint
        after_build(target, resume)

"""More of what people ask about most: weights and data that stay, precision, lengths, pictures, what is not frozen, runs in one process."""
import contextlib
import copy
import os
import tempfile

import torch

from amounts import after_build
from core import DEVICE, Fault, fault
from faults_common_q import WRAPPED, every_second_step, limited


def small(target, rng):
    """A model whose weights are quickly written, with small batches."""
    for name, largest in ("size", 4), ("length", rng.choice([64, 128])):
        if isinstance(getattr(target, name, None), int):
            setattr(target, name, min(getattr(target, name), largest))
    if isinstance(getattr(target, "width", None), int):
        target.width = min(target.width, 768)
    if {"layers", "tokens"} <= target.traits:
        target.layers = rng.choice([4, 5, 6])
    if "decoder" in target.traits:
        target.vocabulary = min(target.vocabulary, 16000)


def parameter_bytes(target):
    return sum(p.nbytes for p in target.model.parameters())


@fault("q_losses_added_up", "losses summed", "loop", without=("two optimizers",))
class LossesAddedUp(Fault):
    """Gradient accumulation as it is often written first: the losses are added up, and backward() comes once."""

    def inject(self, target, fixed):
        limited(target)
        target.micro_batches, form = self.rng.choice([3, 4, 5]), self.rng.choice(["sum", "average"])
        if fixed:
            return

        def step(i):
            target.zero_grad()
            total_loss = 0
            for k in range(target.micro_batches):
                loss = target.loss(target.batch(i * target.micro_batches + k))
                total_loss = total_loss + (loss if form == "sum" else loss / target.micro_batches)
            target.backward(total_loss)
            target.optimize()
            return total_loss.detach()
        target.step = step


@fault("q_checkpoint_to_the_gpu", "loaded checkpoint", "loop", "states", without=("peft", "pretrained", *WRAPPED))
class CheckpointToTheGPU(Fault):
    """torch.load(path, map_location="cuda") of weights, their averages and an optimizer's states; the dict stays there for the rest of the script."""

    def fits(self, target):
        return super().fits(target) and ("tokens" in target.traits or {"images", "layers"} <= target.traits)

    def inject(self, target, fixed):
        small(target, self.rng)
        form, keys = self.rng.choice(["attribute", "closure"]), []

        def save(path):
            """What an earlier run left."""
            states = {n: {"exp_avg": torch.zeros(p.shape), "exp_avg_sq": torch.zeros(p.shape)} for n, p in enumerate(target.model.parameters())}
            weights = {n: t.cpu() for n, t in target.model.state_dict().items()}
            torch.save({"epoch": 3, "model": weights, "ema": {n: t.clone() for n, t in weights.items()}, "optimizer": {"state": states}}, path)

        def resume():
            file, path = tempfile.mkstemp(suffix=".pt")
            os.close(file)
            save(path)
            checkpoint = torch.load(path, map_location="cpu" if fixed else DEVICE)
            os.unlink(path)
            target.model.load_state_dict(checkpoint["model"])
            target.start_epoch = checkpoint["epoch"]
            if not fixed:
                if form == "attribute":
                    target.checkpoint = checkpoint
                else:
                    keys.append(checkpoint)
        after_build(target, resume)


@fault("q_best_weights", "copies of the model kept", "loop", without=("pretrained", "peft", *WRAPPED))
class BestWeights(Fault):
    """copy.deepcopy(model.state_dict()) of each epoch, on the GPU, in a list or by its number."""

    def fits(self, target):
        return super().fits(target) and ("tokens" in target.traits or {"images", "layers"} <= target.traits)

    def inject(self, target, fixed):
        small(target, self.rng)
        target.steps, form, after_step = self.rng.randint(5, 7), self.rng.choice(["list", "dict"]), target.after_step
        weights, by_epoch = [], {}

        def after(i, loss):
            after_step(i, loss)
            state = target.model.state_dict()
            kept = {n: t.cpu() for n, t in state.items()} if fixed else copy.deepcopy(state)
            if form == "list":
                weights.append(kept)
            else:
                by_epoch[i] = kept
        target.after_step = after


@fault("q_all_data_to_the_gpu", "data moved to the GPU", "loop", "dataset")
class AllDataToTheGPU(Fault):
    """The whole training set goes to the GPU before the first step, X.to(device), to save time."""

    def inject(self, target, fixed):
        small(target, self.rng)
        amount = self.rng.uniform(1.0, 1.8) * (1 << 30)

        def move():
            data = target.dataset
            row = sum(t[:1].nbytes for t in data)
            count = int((amount + 3 * parameter_bytes(target)) / row)
            data = tuple(torch.zeros(count, *t.shape[1:], dtype=t.dtype) for t in data)
            target.dataset = data if fixed else tuple(t.to(DEVICE) for t in data)
        after_build(target, move)


@fault("q_teacher_without_no_grad", "reference with a graph", "loop", without=("two optimizers", "reference", "pretrained", "peft", *WRAPPED))
class TeacherWithoutNoGrad(Fault):
    """Distillation with a teacher in eval(), which is neither frozen nor run under no_grad()."""

    def inject(self, target, fixed):
        limited(target)
        weight, forward = self.rng.choice([0.1, 0.5, 0.9]), target.loss

        def make_teacher():
            target.teacher = copy.deepcopy(target.model).eval()
            if fixed:
                target.teacher.requires_grad_(False)

        def by_teacher(batch):
            student, target.model = target.model, target.teacher
            try:
                with torch.no_grad() if fixed else contextlib.nullcontext():
                    return forward(batch)
            finally:
                target.model = student

        def loss(batch):
            aim = by_teacher(batch)
            own = forward(batch)
            return (1 - weight) * own + weight * (own - aim.detach()) ** 2 if weight < 0.5 else (1 - weight) * own + weight * (own - aim) ** 2
        after_build(target, make_teacher)
        target.loss = loss


@fault("q_only_the_head", "base not frozen", "loop", without=("two optimizers", "pretrained", "peft", "reference", *WRAPPED))
class OnlyTheHead(Fault):
    """The optimizer gets the last layer alone, and requires_grad of all others stays as it was."""

    def inject(self, target, fixed):
        limited(target)
        count, rate = self.rng.choice([1, 2]), self.rng.choice([1e-3, 1e-4])

        def choose():
            parameters = [p for p in target.model.parameters() if p.requires_grad]
            if fixed:
                for p in parameters[:-count]:
                    p.requires_grad = False
            target.optimizers = [torch.optim.Adam(parameters[-count:], lr=rate)]
        after_build(target, choose)


@fault("q_without_amp", "no mixed precision", "loop", without=("pretrained", "peft", "two optimizers"))
class WithoutAmp(Fault):
    """All of it in 32 bits, where autocast would do."""

    def fits(self, target):
        return super().fits(target) and "autocast" in getattr(target, "precisions", ()) and bool(target.traits & {"tokens", "images"})

    def inject(self, target, fixed):
        limited(target, tokens=12288, pictures=32, vocabulary=4000)
        if "tokens" in target.traits and isinstance(getattr(target, "length", None), int):
            target.size = max(target.size, 10240 // target.length)
        target.checkpointing = False
        target.precision = "autocast" if fixed else "fp32"


@fault("q_no_checkpointing", "activations", "loop", "checkpointing", "layers")
class NoCheckpointing(Fault):
    """A deep model, and a batch that leaves no room for the activations of all its layers; gradient checkpointing was never asked for."""

    def inject(self, target, fixed):
        limited(target, pictures=32, vocabulary=4000)
        layers, target.checkpointing = self.rng.choice([8, 10]), fixed
        if "tokens" in target.traits:
            target.layers = max(target.layers, layers)
        if "tokens" in target.traits and isinstance(getattr(target, "length", None), int):
            target.size = max(target.size, 6144 // target.length)


@fault("q_pictures_as_they_are", "pictures too large", "loop", "images")
class PicturesAsTheyAre(Fault):
    """Pictures go in as the camera left them, where half of the side would do; Resize was left out."""
    jobs = {"vit_by_hand", "resnet", "diffusion_by_hand", "segmentation", "masked_autoencoder", "hint_distillation"}

    def fits(self, target):
        return super().fits(target) and target.name in self.jobs

    def inject(self, target, fixed):
        target.pixels = max(128, target.pixels) if target.pixels % 64 == 0 else 224
        target.size, target.checkpointing = min(target.size, self.rng.choice([12, 16])), False
        if not fixed:
            target.pixels *= 2
        if isinstance(getattr(target, "rows", None), int):
            target.rows = 64


@fault("q_padded_to_max_length", "padding", "loop", "tokens")
class PaddedToMaxLength(Fault):
    """padding="max_length", where the texts are short and padding to the longest of a batch would do."""

    def fits(self, target):
        return super().fits(target) and all(isinstance(getattr(target, name, None), int) for name in ("size", "length"))

    def inject(self, target, fixed):
        longest, factor = self.rng.choice([128, 192, 256]), 4
        target.size, target.checkpointing = 6144 // (factor * longest), False
        target.length = longest if fixed else factor * longest
        if "decoder" in target.traits:
            target.vocabulary = min(target.vocabulary, 16000)


@fault("q_plain_attention", "attention scores", "loop", "attention", "tokens")
class PlainAttention(Fault):
    """attn_implementation="eager" with long texts."""

    def fits(self, target):
        return super().fits(target) and all(isinstance(getattr(target, name, None), int) for name in ("size", "length"))

    def inject(self, target, fixed):
        target.length, target.size = self.rng.choice([1024, 1536]), self.rng.choice([2, 3])
        target.checkpointing = False
        if "decoder" in target.traits:
            target.vocabulary = min(target.vocabulary, 8192)
        target.attention = "sdpa" if fixed else "eager"


@fault("q_whole_validation_set", "evaluation batch", "loop", "eval")
class WholeValidationSet(Fault):
    """model(X_val) with all of a validation set in one forward pass, under no_grad()."""

    def fits(self, target):
        numbers = all(isinstance(getattr(target, name, None), int) for name in ("size", "rows"))
        return super().fits(target) and numbers and bool(target.traits & {"tokens", "images"})

    def inject(self, target, fixed):
        limited(target, tokens=1024, pictures=4)
        times, target.steps, target.evaluated = self.rng.choice([16, 24]), 4, 0
        target.rows = max(target.rows, 2 * times * target.size)

        def predicted(i, size):
            own, target.size = target.size, size
            try:
                return target.predict(target.batch(i)).float().mean().item()
            finally:
                target.size = own

        def validate():
            target.model.eval()
            with torch.no_grad():
                for k in range(times if fixed else 1):
                    predicted(k, target.size if fixed else times * target.size)
            target.model.train()
        every_second_step(target, validate)


@fault("q_models_of_folds", "earlier runs kept", "loop", "states", without=("peft", "pretrained", "two optimizers", *WRAPPED))
class ModelsOfFolds(Fault):
    """Cross-validation in one process: the model and the optimizer of each fold go to a list."""

    def fits(self, target):
        return super().fits(target) and ("tokens" in target.traits or {"images", "layers"} <= target.traits)

    def inject(self, target, fixed):
        small(target, self.rng)
        folds, form = self.rng.choice([3, 4]), self.rng.choice(["pairs", "dict"])
        train, runs, by_fold = target.train, [], {}
        target.steps = self.rng.choice([2, 3])

        def train_all():
            for fold in range(folds):
                if fold:
                    target.build()
                train()
                if not fixed:
                    if form == "pairs":
                        runs.append((target.model, target.optimizers))
                    else:
                        by_fold[fold] = {"model": target.model, "optimizer": target.optimizers}
                target.model, target.optimizers = None, []
        target.train = train_all


@fault("q_logits_for_metrics", "logits of an evaluation", "trainer", "decoder", without=("forward",))
class LogitsForMetrics(Fault):
    """compute_metrics, and a trainer that puts together the logits of its whole evaluation, as nothing takes the best tokens before."""

    def fits(self, target):
        return super().fits(target) and not {"dpo", "reward", "classifier"} & set(target.name.split("_"))

    def inject(self, target, fixed):
        limited(target, tokens=1024)
        batches, between, train = self.rng.randint(30, 40), "trl" not in target.name and self.rng.random() < 0.7, target.train
        target.trainer_arguments["per_device_train_batch_size"] = max(1, 1024 // target.length)
        if between:
            target.trainer_arguments.update(eval_strategy="steps", eval_steps=2)

        def best(logits, labels):
            return (logits[0] if isinstance(logits, tuple) else logits).argmax(-1)

        def measure():
            trainer = target.trainer
            trainer.compute_metrics = lambda predicted: {"batches": batches}
            trainer.preprocess_logits_for_metrics = best if fixed else None
            data, rows = trainer.eval_dataset or trainer.train_dataset, batches * target.trainer_arguments["per_device_train_batch_size"]
            trainer.eval_dataset = torch.utils.data.Subset(data, [k % len(data) for k in range(rows)])

        def train_and_evaluate():
            train()
            target.trainer.evaluate()
        after_build(target, measure)
        if not between:
            target.train = train_and_evaluate


@fault("q_many_prompts", "KV cache", "generate")
class ManyPrompts(Fault):
    """All prompts in one call of generate()."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "size", None), int) and isinstance(getattr(target, "prompt", None), int)

    def inject(self, target, fixed):
        target.prompt, target.new_tokens = self.rng.choice([512, 768]), 8
        target.size, times = self.rng.choice([16, 24, 32]), self.rng.choice([2, 3])
        if fixed:
            target.steps *= times
        else:
            target.size *= times

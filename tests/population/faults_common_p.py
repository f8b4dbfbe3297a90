"""The mistakes that are told most often: batches, pictures and texts that are too large, a validation or an inference without no_grad(), lists of outputs."""
import contextlib

import torch

from amounts import largest_tensor, light, peak, sized, with_output
from core import Fault, fault
from parts import Loop

WRAPPED = "two optimizers", "ddp", "fsdp", "deepspeed", "megatron"


def whole(target, name):
    """Whether the job has this as a number that may be changed."""
    return isinstance(getattr(target, name, None), int)


def smaller(target, times):
    """A smaller batch, so that what adds up stays within the usual."""
    if sized(target) and target.size >= 4 * times:
        target.size = max(1, target.size // times)


@fault("p_batch_size", "batch too large", "loop", without=WRAPPED)
class BatchSize(Fault):
    """The batch size of a paper; fixed: smaller batches, whose gradients are accumulated."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        times, small = self.rng.choice([3, 4, 5]), target.size // 2 if target.size > 8 else target.size
        target.steps = self.rng.randint(2, 4)
        target.size, target.micro_batches = (small, times) if fixed else (small * times, 1)
        if whole(target, "rows"):
            target.rows = max(target.rows, small * times)


@fault("p_trainer_batch_size", "batch too large", "trainer")
class TrainerBatchSize(Fault):
    """per_device_train_batch_size is set to what the recipe of eight cards has in all; fixed: gradient_accumulation_steps."""

    def fits(self, target):
        return super().fits(target) and "per_device_train_batch_size" in target.trainer_arguments

    def inject(self, target, fixed):
        small = max(2, target.trainer_arguments["per_device_train_batch_size"])
        times = self.rng.choice([6, 8] if small <= 2 else [4, 6] if small <= 4 else [3, 4])
        target.steps = self.rng.randint(2, 4)
        rows, steps = (small, times) if fixed else (small * times, 1)
        target.trainer_arguments.update(per_device_train_batch_size=rows, gradient_accumulation_steps=steps)


@fault("p_picture_size", "pictures too large", "loop", "images", without=WRAPPED)
class PictureSize(Fault):
    """The pictures are taken as they are, and never made smaller."""

    def fits(self, target):
        return super().fits(target) and whole(target, "pixels") and whole(target, "size")

    def inject(self, target, fixed):
        target.size, target.steps = max(2, target.size // 2), self.rng.randint(2, 5)
        if not fixed:
            target.pixels *= 2


@fault("p_max_length", "padding", "loop", "tokens", without=WRAPPED)
class MaxLength(Fault):
    """tokenizer(texts, padding="max_length", max_length=...), where the texts have a quarter of that."""

    def fits(self, target):
        return super().fits(target) and whole(target, "length") and whole(target, "size")

    def inject(self, target, fixed):
        shorter, times = self.rng.choice([1, 2]), self.rng.choice([2, 4])
        texts = max(64, target.length // shorter // times)
        target.size, target.steps = max(1, target.size * shorter // 2), self.rng.randint(2, 5)
        target.length = texts if fixed else texts * 2 * times


@fault("p_no_amp", "no mixed precision", "loop", without=WRAPPED)
class NoAmp(Fault):
    """The whole training is in float32, where bfloat16 would do."""

    def fits(self, target):
        return super().fits(target) and isinstance(target, Loop) and "bf16" in target.precisions and "fp32" in target.precisions and sized(target)

    def inject(self, target, fixed):
        target.size, target.micro_batches = int(target.size * self.rng.choice([1, 1.5])), 1
        target.precision = "bf16" if fixed else "fp32"


@fault("p_no_checkpointing", "activations", "loop", "checkpointing", "layers", without=WRAPPED)
class NoCheckpointing(Fault):
    """A deep model is trained without gradient checkpointing."""

    def inject(self, target, fixed):
        target.layers *= self.rng.choice([2, 3])
        smaller(target, 2)
        target.micro_batches, target.steps = 1, self.rng.randint(2, 4)
        target.checkpointing = fixed


@fault("p_validation_loss", "validation with a graph", "loop", "eval", without=WRAPPED)
class ValidationLoss(Fault):
    """val_loss += loss over the batches of a validation, after model.eval(), and without no_grad()."""

    def inject(self, target, fixed):
        form, every, batches = self.rng.choice(["sum", "sum", "list", "append"]), self.rng.choice([1, 2, 3]), self.rng.randint(3, 5)
        smaller(target, 2)
        target.steps, after_step = self.rng.randint(3, 5), target.after_step

        def validate():
            target.model.eval()
            val_loss, losses = 0.0, []
            with torch.no_grad() if fixed else contextlib.nullcontext():
                for k in range(batches):
                    batch = target.batch(k)
                    loss = target.loss(batch)
                    if form == "sum":
                        val_loss += loss
                    else:
                        losses.append(loss)
            if form != "sum":
                val_loss = sum(losses) if form == "list" else torch.stack(losses).sum()
            target.model.train()
            return val_loss / batches

        def validate_after(i, loss):
            after_step(i, loss)
            if i % every == every - 1:
                print("validation", validate().item())
        target.after_step = validate_after


@fault("p_inference_without_no_grad", "inference with a graph", "inference", without=("generate",))
class InferenceWithoutNoGrad(Fault):
    """model.eval() is there, and torch.no_grad() is not."""

    def inject(self, target, fixed):
        form = self.rng.choice(["left out", "left out", "enable_grad"])
        smaller(target, 2)
        if "layers" in target.traits:
            target.layers += self.rng.choice([2, 4])
        if not fixed:
            target.no_grad = contextlib.nullcontext if form == "left out" else torch.enable_grad


@fault("p_predictions_of_validation", "results kept on the GPU", "loop", "eval", "decoder", without=WRAPPED)
class PredictionsOfValidation(Fault):
    """all_predictions.append(outputs) for each batch of a validation, to compute a metric at the end; fixed: the best class of each, on the host."""

    def inject(self, target, fixed):
        share, every, form = self.rng.uniform(1.1, 1.8), self.rng.choice([2, 3]), self.rng.choice(["list", "list", "dict"])
        smaller(target, 2)
        target.micro_batches, target.steps, after_step, count = 1, self.rng.randint(3, 5), target.after_step, []

        def predict_all():
            target.model.eval()
            predictions, k = [], 0
            with torch.no_grad():
                while not count or k < count[0]:
                    logits = largest_tensor(target.predict(target.batch(k)))
                    if not count:
                        count.append(max(4, min(40, int(share * peak() / logits.nbytes))))
                    kept = logits.argmax(-1).cpu() if fixed else logits
                    predictions.append({"step": k, "logits": kept} if form == "dict" else kept)
                    k += 1
            target.model.train()
            return len(predictions)

        def validate(i, loss):
            after_step(i, loss)
            if i % every == every - 1:
                predict_all()
        target.after_step = validate


@fault("p_outputs_of_epoch", "list of tensors", "loop", "decoder", without=(*WRAPPED, "reference"))
class OutputsOfEpoch(Fault):
    """epoch_outputs.append(outputs.detach()) in each step of the training, for the accuracy of the epoch."""

    def inject(self, target, fixed):
        target.micro_batches, target.steps = 1, self.rng.randint(10, 14)
        smaller(target, 2)
        if whole(target, "vocabulary"):
            target.vocabulary = max(target.vocabulary, 32000)
        form, epoch_outputs = self.rng.choice(["detach", "data", "attribute"]), []
        target.epoch_outputs = []

        def keep(output):
            logits = largest_tensor(output)
            if logits is None or not target.model.training:
                return
            if fixed:
                epoch_outputs.append(logits.detach().argmax(-1).cpu())
            elif form == "attribute":
                target.epoch_outputs += [logits.detach()]
            else:
                epoch_outputs.append(logits.detach() if form == "detach" else logits.data)
        with_output(target, keep)


@fault("p_total_loss", "graph kept", "loop", without=WRAPPED)
class TotalLoss(Fault):
    """total_loss += loss, where backward(retain_graph=True) stands since an error said so."""

    def inject(self, target, fixed):
        form, target.total_loss, target.losses = self.rng.choice(["sum", "sum", "list"]), 0.0, []
        target.micro_batches, target.steps = 1, self.rng.randint(3, 5)
        smaller(target, 3)

        def backward(loss):
            loss.backward(retain_graph=not fixed)
            value = loss.item() if fixed else loss
            if form == "sum":
                target.total_loss += value
            else:
                target.losses.append(value)
        target.backward = backward


@fault("p_accumulated_loss", "losses summed", "loop", without=WRAPPED)
class AccumulatedLoss(Fault):
    """Gradients should be accumulated, and it is the losses that are: one backward() after the last micro-batch."""

    def inject(self, target, fixed):
        target.micro_batches, form = self.rng.choice([4, 5, 6]), self.rng.choice(["sum", "sum", "mean"])
        smaller(target, 3)
        target.steps = self.rng.randint(2, 4)
        if fixed:
            return

        def step(i):
            target.zero_grad()
            loss, losses = 0, []
            for k in range(target.micro_batches):
                part = target.loss(target.batch(i * target.micro_batches + k))
                if form == "sum":
                    loss = loss + part / target.micro_batches
                else:
                    losses.append(part)
            if form == "mean":
                loss = torch.stack(losses).mean()
            target.backward(loss)
            target.optimize()
            return loss.detach()
        target.step = step


@fault("p_validation_batch", "evaluation batch", "loop", "eval", "tokens", "decoder", without=(*WRAPPED, "pretrained"))
class ValidationBatch(Fault):
    """The loader of the validation has a batch size that is many times that of the training, "because there are no gradients"."""

    def fits(self, target):
        return super().fits(target) and all(whole(target, name) for name in ("rows", "size", "length", "vocabulary"))

    def inject(self, target, fixed):
        light(target, self.rng)
        share, count, evaluate = self.rng.uniform(1.0, 1.8), [], target.evaluate
        target.length, target.rows, target.steps, target.evaluated = self.rng.choice([128, 256]), 1024, 4, self.rng.choice([1, 2])
        small = target.size

        def evaluate_all():
            if not count:
                count.append(max(8 * small, min(1024, int(share * peak() / (4 * target.length * target.vocabulary)))))
            each = min(count[0], 4 * small) if fixed else count[0]
            target.size, k, outputs = each, 0, None
            try:
                while k < count[0]:
                    outputs, k = None, k + each
                    outputs = evaluate()
            finally:
                target.size = small
            return outputs
        target.evaluate = evaluate_all

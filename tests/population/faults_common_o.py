"""Faults of training loops, as they are told most often: sizes, losses and outputs that are kept, evaluation with a graph."""
import copy

import torch

from amounts import after_build, largest_tensor, light, mapped, peak, sized, with_output
from core import Fault, fault

WRAPPED = "two optimizers", "ddp", "fsdp", "deepspeed", "megatron"


def modest(target, rows=4, length=512, vocabulary=20000):
    """Limits the sizes, so that several times what a step needs is still a few GiB. Small pictures may be more."""
    if isinstance(getattr(target, "pixels", None), int) and target.pixels <= 160:
        rows *= 2
    for name, largest in ("size", rows), ("length", length), ("vocabulary", vocabulary):
        if isinstance(getattr(target, name, None), int):
            setattr(target, name, min(getattr(target, name), largest))


def forwards(least, most, gib=7):
    """How many passes of the size of those before a loop takes: fewer, where each of them is large."""
    return max(least, min(most, int((gib << 30) / peak())))


def few_examples(target, rng):
    """Light batches, of two examples at least where a batch norm needs them."""
    light(target, rng)
    if sized(target):
        target.size = max(2, target.size)


class Sized(Fault):
    """Of jobs whose batches have a size."""

    def fits(self, target):
        return super().fits(target) and sized(target)


@fault("o_batch_size", "batch too large", "loop", without=(*WRAPPED, "reference", "scene", "crop"))
class BatchSize(Sized):
    """batch_size=64, as in the paper, whose authors had several cards; the fixed one accumulates gradients."""

    def inject(self, target, fixed):
        factor = self.rng.choice([6, 8])
        modest(target, vocabulary=8000)
        target.micro_batches = factor if fixed else 1
        if hasattr(target, "rows"):
            target.rows = max(target.rows, target.size * factor)
        if not fixed:
            target.size *= factor


@fault("o_picture_size", "pictures too large", "loop", "images", without=(*WRAPPED, "reference", "scene", "crop"))
class PictureSize(Sized):
    """Resize((448, 448)) where the fixed one has half of that."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "pixels", None), int) and target.pixels <= 256

    def inject(self, target, fixed):
        target.size = min(target.size, 4 if target.pixels > 160 else 8)
        if not fixed:
            target.pixels *= 2


@fault("o_padding_max_length", "padding", "loop", "tokens", "layers", without=(*WRAPPED, "reference", "crop"))
class PaddingMaxLength(Sized):
    """tokenizer(texts, padding="max_length", max_length=2048): every text is filled up; the fixed one pads to the longest of the batch."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "length", None), int) and target.length >= 128

    def inject(self, target, fixed):
        modest(target, vocabulary=8000)
        if not fixed:
            target.length *= self.rng.choice([4, 6])


@fault("o_total_loss", "graph kept", "loop", without=(*WRAPPED, "reference"))
class TotalLoss(Sized):
    """total_loss += loss, with backward(retain_graph=True) because an error message asked for it."""

    def inject(self, target, fixed):
        form, self.total, totals = self.rng.choice(["number", "dict", "meter"]), 0.0, {"loss": 0.0}
        target.steps = self.rng.randint(5, 7)
        modest(target)

        def backward(loss):
            loss.backward(retain_graph=True)
            value = loss.item() if fixed else loss
            if form == "number":
                self.total += value
            elif form == "dict":
                totals["loss"] += value
            else:
                self.total = self.total + value * 16
                totals["average"] = self.total / 16
        target.backward = backward


@fault("o_loss_list", "graph kept", "loop", without=(*WRAPPED, "reference"))
class LossList(Sized):
    """After each step the loss of a held-out batch goes into a list for the curve, as a tensor."""

    def inject(self, target, fixed):
        form, curve, after_step = self.rng.choice(["append", "pair", "dict"]), [], target.after_step
        target.steps = self.rng.randint(5, 7)
        modest(target)

        def log(i, loss):
            after_step(i, loss)
            test_loss = target.loss(target.batch(i))
            if fixed:
                test_loss = test_loss.item()
            curve.append(test_loss if form == "append" else (i, test_loss) if form == "pair" else {"step": i, "loss": test_loss})
        target.after_step = log


def validated(target, every, validate):
    """Calls validate(i) after every so many steps."""
    after_step = target.after_step

    def step_and_validate(i, loss):
        after_step(i, loss)
        if i % every == every - 1:
            target.model.eval()
            validate(i)
            target.model.train()
    target.after_step = step_and_validate


@fault("o_val_loss_no_grad", "validation with a graph", "loop", without=(*WRAPPED, "reference"))
class ValLossNoGrad(Sized):
    """val_loss += criterion(model(x), y) over the validation set, without no_grad()."""

    def inject(self, target, fixed):
        form, every = self.rng.choice(["sum", "list"]), self.rng.choice([1, 2])
        modest(target)

        def validate(i):
            batches, val_loss, losses = forwards(4, 12), 0.0, []
            with torch.set_grad_enabled(not fixed):
                for k in range(batches):
                    loss = target.loss(target.batch(k))
                    if form == "sum":
                        val_loss += loss
                    else:
                        losses.append(loss)
            return float(val_loss if form == "sum" else torch.stack(losses).mean())
        validated(target, every, validate)


@fault("o_eval_mode_only", "evaluation with a graph", "loop", "eval", without=(*WRAPPED, "reference", "pretrained"))
class EvalModeOnly(Sized):
    """model.eval() is thought to be enough: a score of each batch of the test set is kept, without no_grad()."""

    def inject(self, target, fixed):
        form, every = self.rng.choice(["mean", "norm"]), self.rng.choice([1, 2, 3])
        modest(target)

        def test(i):
            scores = []
            with torch.set_grad_enabled(not fixed):
                for k in range(forwards(4, 12)):
                    outputs = target.predict(target.batch(k)).float()
                    scores.append(outputs.mean() if form == "mean" else outputs.norm() / outputs.numel())
            return torch.stack(scores).mean().item()
        validated(target, every, test)


class Predictions(Fault):
    """The logits of the whole validation set; the fixed form takes the labels of each batch to the host."""
    share = 1.0, 1.6

    def inject(self, target, fixed):
        share, every = self.rng.uniform(*self.share), self.rng.choice([1, 2])
        modest(target, rows=8)

        def validate(i):
            room, kept, k, batches = peak(), None, 0, 2
            with torch.no_grad():
                while k < batches:
                    outputs = target.predict(target.batch(k))
                    if not k:
                        batches = max(4, min(48, int(share * room / (outputs.numel() * outputs.element_size()))))
                    kept = self.kept(kept, outputs.argmax(-1).cpu() if fixed else outputs)
                    del outputs
                    k += 1
            return kept
        validated(target, every, validate)

    def kept(self, before, outputs):
        raise NotImplementedError


@fault("o_predictions_list", "results kept on the GPU", "loop", "eval", "decoder", without=(*WRAPPED, "reference"))
class PredictionsList(Predictions):
    """all_preds.append(outputs) in the validation loop."""

    def kept(self, before, outputs):
        return [*(before or []), outputs]


@fault("o_predictions_cat", "results concatenated", "loop", "eval", "decoder", without=(*WRAPPED, "reference"))
class PredictionsCat(Predictions):
    """all_preds = torch.cat([all_preds, outputs]) in the validation loop."""
    share = 0.7, 1.1

    def kept(self, before, outputs):
        return outputs if before is None else torch.cat([before, outputs])


@fault("o_train_outputs", "list of tensors", "loop", "decoder", without=(*WRAPPED, "reference"))
class TrainOutputs(Sized):
    """The outputs of all batches of an epoch, for the training accuracy at its end."""

    def inject(self, target, fixed):
        outputs, form = [], self.rng.choice(["as it is", "detached"])
        target.steps = self.rng.randint(9, 12)
        modest(target)

        def keep(output):
            logits = largest_tensor(output)
            if logits is not None and target.model.training and torch.is_grad_enabled():
                outputs.append(logits.argmax(-1).cpu() if fixed else logits.detach() if form == "detached" else logits)
        with_output(target, keep)


@fault("o_losses_of_batches", "losses summed", "loop", without=(*WRAPPED, "reference"))
class LossesOfBatches(Sized):
    """Accumulation as one thinks of it first: the losses of several batches are added, and backward() follows at the end."""

    def inject(self, target, fixed):
        modest(target)
        target.micro_batches = self.rng.choice([4, 5, 6])
        if fixed:
            return

        def step(i):
            target.zero_grad()
            loss = 0
            for k in range(target.micro_batches):
                loss = loss + target.loss(target.batch(i * target.micro_batches + k)) / target.micro_batches
            target.backward(loss)
            target.optimize()
            return loss.detach()
        target.step = step


@fault("o_one_long_text", "larger batch", "loop", "decoder", "tokens", without=(*WRAPPED, "reference", "crop", "peft"))
class OneLongText(Sized):
    """It dies at random: a single text is very long, and its batch is padded to it; the fixed one truncates."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "length", None), int) and target.length >= 256

    def inject(self, target, fixed):
        target.steps, part = self.rng.randint(5, 7), self.rng.choice([6, 8])
        modest(target, rows=8, length=1024)
        target.length *= 2
        target.micro_batches, target.evaluated = 1, 0
        short, long, batch = target.length // part, self.rng.randint(2, 4), target.batch

        def padded(i):
            if i == long and not fixed:
                return batch(i)
            return mapped(batch(i), lambda t: t[:, :short].contiguous() if t.dim() == 2 and t.shape[1] > short else t)
        target.batch = padded


@fault("o_best_weights", "copies of the model kept", "loop", "layers", "attention", without=(*WRAPPED, "reference", "peft", "pretrained"))
class BestWeights(Sized):
    """The weights of each epoch that was better than those before, on the GPU; the fixed one has the last of them on the host."""

    def inject(self, target, fixed):
        form, best, after_step = self.rng.choice(["state", "model"]), [], target.after_step
        target.steps = self.rng.randint(5, 7)
        few_examples(target, self.rng)

        def snapshot(i, loss):
            after_step(i, loss)
            if fixed:
                best[:] = [{name: tensor.cpu() for name, tensor in target.model.state_dict().items()}]
            else:
                best.append(copy.deepcopy(target.model.state_dict() if form == "state" else target.model))
        target.after_step = snapshot


@fault("o_freeze_misspelt", "base not frozen", "loop", "pretrained", without=WRAPPED)
class FreezeMisspelt(Fault):
    """param.require_grad = False: an attribute that nobody reads."""

    def inject(self, target, fixed):
        few_examples(target, self.rng)

        def freeze(*args, **keys):
            for param in target.model.parameters():
                param.require_grad = False
        if not fixed:
            target.freeze = freeze


@fault("o_eager_attention", "attention scores", "loop", "attention", "tokens", "decoder", without=(*WRAPPED, "reference", "crop"))
class EagerAttention(Sized):
    """Long texts, and attention whose scores are written out."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "length", None), int) and target.length >= 256

    def inject(self, target, fixed):
        modest(target, rows=2, vocabulary=8000)
        target.length = self.rng.choice([1536, 1792, 2048])
        target.attention = "sdpa" if fixed else "eager"


def host(target):
    """After build(): the dataset's first row."""
    return [tensor[:1] for tensor in target.dataset]


@fault("o_dataset_to_cuda", "data moved to the GPU", "loop", "images", "dataset", without=(*WRAPPED, "reference", "scene"))
class DatasetToCuda(Sized):
    """All pictures are moved to the GPU before the first epoch, so that the loop is fast."""

    def inject(self, target, fixed):
        total, form = self.rng.uniform(2.5, 4.5) * (1 << 30), self.rng.choice(["cuda", "to", "list"])
        target.size = min(target.size, 4)

        def load():
            rows = max(64, int(total / sum(t.numel() * t.element_size() for t in host(target))))
            data = [torch.zeros(rows, *t.shape[1:], dtype=t.dtype) if t.numel() > 1024 else t.repeat(rows, *[1] * (t.dim() - 1)) for t in host(target)]
            if not fixed:
                data = [t.cuda() for t in data] if form == "cuda" else [t.to("cuda:0") for t in data] if form == "to" else list(map(torch.Tensor.cuda, data))
            target.dataset = tuple(data)
        after_build(target, load)

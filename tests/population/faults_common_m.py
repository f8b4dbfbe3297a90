"""Mistakes that people ask about most: losses and outputs that stay, evaluation with a graph, data on the GPU, frozen parts that are not frozen."""
import contextlib
import copy

import torch
import torch.nn as nn

from amounts import after_build, light, mapped, sized, with_output
from core import Fault, fault

WRAPPED = "ddp", "fsdp", "deepspeed", "megatron"
OWN_GRADIENTS = {"energies", "meta-learning"}  # families whose loss asks for gradients itself


def plain(target):
    """Batches of texts or of pictures, and a loss that can be had without a graph."""
    return bool(target.traits & {"tokens", "images"}) and target.family not in OWN_GRADIENTS


@fault("m_val_total", "validation with a graph", "loop", "eval", without=("two optimizers", "reference", *WRAPPED))
class ValidationTotal(Fault):
    """val_loss += criterion(model(x), y) over a validation set, after model.eval() and without no_grad()."""

    def fits(self, target):
        return super().fits(target) and plain(target)

    def inject(self, target, fixed):
        batches, form, after_step = self.rng.randint(4, 7), self.rng.choice(["total", "list"]), target.after_step

        def validate():
            target.model.eval()
            val_loss, val_losses = 0.0, []
            with torch.no_grad() if fixed else contextlib.nullcontext():
                for k in range(batches):
                    loss = target.loss(target.batch(k))
                    if form == "total":
                        val_loss += loss.item() if fixed else loss
                    else:
                        val_losses.append(loss.item() if fixed else loss)
            target.model.train()
            return val_loss / batches if form == "total" else sum(val_losses) / len(val_losses)

        def after(i, loss):
            after_step(i, loss)
            print("epoch", i, "val loss", float(validate()))
        target.after_step = after


@fault("m_running_loss", "graph kept", "loop", without=("two optimizers", *WRAPPED))
class RunningLoss(Fault):
    """running_loss += loss, where backward() keeps the graph, since an error asked for that once."""

    def inject(self, target, fixed):
        target.steps, form = self.rng.randint(5, 8), self.rng.choice(["sum", "history"])
        target.running_loss, target.train_losses = 0.0, []

        def backward(loss):
            loss.backward(retain_graph=True)
            if form == "sum":
                target.running_loss += loss.item() if fixed else loss
            else:
                target.train_losses.append(loss.item() if fixed else loss)
        target.backward = backward


def logits_of(output):
    """The logits among what a model returned."""
    output = output.logits if hasattr(output, "logits") else output
    tensors = [output] if torch.is_tensor(output) else [t for t in output if torch.is_tensor(t)] if isinstance(output, (tuple, list)) else []
    return max(tensors, key=lambda t: t.numel(), default=None)


@fault("m_train_outputs", "list of tensors", "loop", "decoder", "tokens", without=("two optimizers", "reference", *WRAPPED))
class TrainOutputs(Fault):
    """all_outputs.append(outputs), to compute the accuracy of the epoch at its end."""

    def inject(self, target, fixed):
        target.steps, form, all_outputs = self.rng.randint(7, 10), self.rng.choice(["plain", "detached"]), []

        def keep(output):
            logits = logits_of(output)
            if logits is None or not target.model.training:
                return
            if fixed:
                all_outputs.append(logits.detach().argmax(-1).cpu())
            else:
                all_outputs.append(logits.detach() if form == "detached" else logits)
        with_output(target, keep)


@fault("m_inference_grad", "inference with a graph", "inference", without=("generate",))
class InferenceGrad(Fault):
    """model.eval() is there, and torch.no_grad() is not; the outputs are detached afterwards."""

    def inject(self, target, fixed):
        if fixed:
            return
        take, target.no_grad = target.take, contextlib.nullcontext
        target.take = lambda i, outputs: take(i, mapped(outputs, lambda t: t.detach()))


def as_many(target, share, output):
    """How many of such outputs take a share of what the job has needed until now."""
    size = max(1, output.numel() * output.element_size())
    return min(90, max(4, int(share * torch.cuda.max_memory_allocated() / size) + 1))


@fault("m_predictions_list", "results kept on the GPU", "loop", "eval", "decoder", without=("two optimizers", "reference", *WRAPPED))
class PredictionsList(Fault):
    """preds.append(logits) in the evaluation loop, under no_grad(): everything waits on the GPU for the metric."""

    def inject(self, target, fixed):
        share, form, after_step, count = self.rng.uniform(1.4, 2.0), self.rng.choice(["list", "dict"]), target.after_step, []

        def evaluate_all():
            preds, by_batch, n = [], {}, 0
            while not count or n < count[0]:
                logits = target.evaluate()
                if not count:
                    count.append(as_many(target, share, logits))
                kept = logits.argmax(-1).cpu() if fixed else logits
                if form == "list":
                    preds.append(kept)
                else:
                    by_batch["batch_%d" % n] = kept
                n += 1
                del logits, kept
            return sum(len(p) for p in preds or by_batch.values())

        def after(i, loss):
            after_step(i, loss)
            if i == 1:
                evaluate_all()
        target.after_step = after


@fault("m_logits_cat", "results concatenated", "loop", "eval", "decoder", without=("two optimizers", "reference", *WRAPPED))
class LogitsCat(Fault):
    """all_logits = torch.cat((all_logits, logits), dim=0) for each batch of the test set."""

    def inject(self, target, fixed):
        share, after_step, count = self.rng.uniform(1.0, 1.5), target.after_step, []

        def test():
            logits = target.evaluate()
            if not count:
                count.append(as_many(target, share, logits))
            all_logits = logits.argmax(-1).cpu() if fixed else logits
            for _ in range(count[0]):
                logits = target.evaluate()
                all_logits = torch.cat((all_logits, logits.argmax(-1).cpu() if fixed else logits), dim=0)
            return len(all_logits)

        def after(i, loss):
            after_step(i, loss)
            if i == 1:
                test()
        target.after_step = after


@fault("m_dataset_cuda", "data moved to the GPU", "loop", "dataset", without=WRAPPED)
class DatasetCuda(Fault):
    """X_train = X_train.to(device): the whole set, and the loop takes slices of it."""

    def inject(self, target, fixed):
        size = self.rng.uniform(2.5, 4.5) * 2**30
        if isinstance(getattr(target, "size", None), int):
            target.size = max(1, min(target.size, 4))

        def load():
            row = sum(t[0].numel() * t.element_size() for t in target.dataset)
            rows = max(len(target.dataset[0]), int(size / row))
            data = [torch.zeros(rows, *t.shape[1:], dtype=t.dtype, device="cpu") for t in target.dataset]
            target.dataset = tuple(data if fixed else [t.to("cuda") for t in data])
        after_build(target, load)


@fault("m_batches_ahead", "data moved to the GPU", "loop", "images", without=("two optimizers", *WRAPPED))
class BatchesAhead(Fault):
    """train_batches = [(x.cuda(), y.cuda()) for x, y in loader], before the first epoch."""

    def inject(self, target, fixed):
        size, batch, train_batches = self.rng.uniform(2.0, 3.5) * 2**30, target.batch, []
        target.size = min(target.size, 16)

        def first_tensors(b):
            seen = []
            mapped(b, lambda t: seen.append(t.numel() * t.element_size()) or t)
            return sum(seen)

        def preload():
            count = min(400, max(8, int(size / first_tensors(batch(0)))))
            train_batches.extend(batch(i) for i in range(count))
        if not fixed:
            after_build(target, preload)
            target.batch = lambda i: train_batches[i % len(train_batches)]


@fault("m_backbone_eval", "base not frozen", "loop", "pretrained", without=WRAPPED)
class BackboneEval(Fault):
    """backbone.eval() is taken for freezing: nothing sets requires_grad."""

    def fits(self, target):
        return super().fits(target) and target.name not in ("pictures_of_one_thing", "style_by_small_matrices")  # whose libraries freeze the base

    def inject(self, target, fixed):
        def freeze(*args, **keys):
            if target.model is not None:
                target.model.eval()
        if not fixed:
            target.freeze = freeze


@fault("m_teacher_eval", "teacher not frozen", "loop", "eval", without=("two optimizers", "reference", "pretrained", "peft", *WRAPPED))
class TeacherEval(Fault):
    """Distillation: the teacher is in eval() mode, and its forward pass has a graph."""

    def fits(self, target):
        return super().fits(target) and plain(target)

    def inject(self, target, fixed):
        weight, forward, made = self.rng.choice([0.1, 0.5]), target.loss, []

        def make():
            made.append(copy.deepcopy(target.model).eval())

        def soft_targets(batch):
            student, target.model = target.model, made[0]
            try:
                return target.predict(batch)
            finally:
                target.model = student

        def loss(batch):
            with torch.no_grad() if fixed else contextlib.nullcontext():
                teacher_out = soft_targets(batch)
            student_loss = forward(batch)
            return student_loss + weight * (student_loss - teacher_out.float().mean()) ** 2
        after_build(target, make)
        target.loss = loss


@fault("m_features_hook", "hooks of every evaluation", "loop", without=("two optimizers", "reference", *WRAPPED))
class FeaturesHook(Fault):
    """register_forward_hook(get_activation(name)), whose function appends the output to a list and never empties it."""

    def fits(self, target):
        return super().fits(target) and plain(target)

    def inject(self, target, fixed):
        target.steps, form, activation = self.rng.randint(5, 8), self.rng.choice(["plain", "detached"]), {}

        def get_activation(name):
            def hook(module, inputs, output):
                if fixed:
                    activation[name] = output.detach().float().mean().item()
                else:
                    activation.setdefault(name, []).append(output.detach() if form == "detached" else output)
            return hook

        def register():
            for name, module in target.model.named_modules():
                if isinstance(module, (nn.Linear, nn.Conv2d)):
                    module.register_forward_hook(get_activation(name))
        after_build(target, register)


@fault("m_best_models", "copies of the model kept", "loop", without=("peft", "pretrained", *WRAPPED))
class BestModels(Fault):
    """checkpoints.append(copy.deepcopy(model.state_dict())) whenever the validation improves."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        light(target, self.rng)
        target.steps, form, after_step, checkpoints = self.rng.randint(6, 9), self.rng.choice(["state", "model"]), target.after_step, []

        def after(i, loss):
            after_step(i, loss)
            if fixed:
                checkpoints[:] = [{k: v.cpu() for k, v in target.model.state_dict().items() if torch.is_tensor(v)}]
            elif form == "state":
                checkpoints.append(copy.deepcopy(target.model.state_dict()))
            else:
                checkpoints.append({"epoch": i, "model": {k: v.clone() for k, v in target.model.state_dict().items() if torch.is_tensor(v)}})
        target.after_step = after

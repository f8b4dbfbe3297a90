"""What people do most often before they ask why memory ran out: losses, outputs and validation. The others are in faults_common_k_more.py."""
import contextlib
import copy

import torch

from amounts import after_build, largest_tensor, sized, with_output
from core import Fault, fault

WRAPPED = "ddp", "fsdp", "deepspeed", "megatron"


def every_epoch(target, do, every=1):
    """Calls do(i) after the job's own after_step(), each `every` steps."""
    after_step = target.after_step

    def after(i, loss):
        after_step(i, loss)
        if i % every == every - 1:
            do(i)
    target.after_step = after


def enough_rows(target, count):
    """Lets the dataset have at least this many rows."""
    if isinstance(getattr(target, "rows", None), int):
        target.rows = max(target.rows, count)


def smaller(target):
    """Half the batch, of a job that would need much more with the fault."""
    if isinstance(getattr(target, "size", None), int) and target.size >= 8:
        target.size = target.size // 2


def few_rows(target, rng):
    """A small batch of short rows, so that parameters weigh more than activations."""
    for name, largest in ("size", 4), ("length", rng.choice([64, 128])):
        if isinstance(getattr(target, name, None), int):
            setattr(target, name, min(getattr(target, name), largest))


@fault("k_retain_graph", "graph kept", "loop", without=WRAPPED)
class RetainedForTheTotal(Fault):
    """backward(retain_graph=True), as the message of an error had said, and total_loss += loss."""

    def inject(self, target, fixed):
        form = self.rng.choice(["sum", "list", "average"])
        target.steps, losses = self.rng.randint(4, 8), []
        target.total_loss = 0.0

        def backward(loss):
            if fixed:
                loss.backward()
            else:
                loss.backward(retain_graph=True)
            value = loss.item() if fixed else loss
            if form == "sum":
                target.total_loss += value
            elif form == "list":
                losses.append(value)
            else:
                losses.append(value)
                target.total_loss = sum(losses) / len(losses)
        target.backward = backward


@fault("k_loss_list", "graph kept", "loop", without=WRAPPED)
class ListOfValidationLosses(Fault):
    """The loss of a validation batch after each epoch goes into a list, to be plotted at the end."""

    def inject(self, target, fixed):
        form = self.rng.choice(["list", "dict", "tuple"])
        target.steps, val_losses, history = self.rng.randint(5, 8), [], {"epoch": [], "val_loss": []}

        smaller(target)

        def validate(epoch):
            if fixed:
                with torch.no_grad():
                    val_loss = target.loss(target.batch(epoch)).item()
            else:
                val_loss = target.loss(target.batch(epoch))
            if form == "list":
                val_losses.append(val_loss)
            elif form == "dict":
                history["epoch"].append(epoch)
                history["val_loss"].append(val_loss)
            else:
                val_losses.append((epoch, val_loss))
        every_epoch(target, validate)


@fault("k_val_loss", "validation with a graph", "loop", without=WRAPPED)
class ValidationLossSummed(Fault):
    """val_loss += loss over the batches of a validation that has model.eval(), and no no_grad()."""

    def inject(self, target, fixed):
        batches, every, form = self.rng.randint(3, 6), self.rng.choice([1, 2]), self.rng.choice(["sum", "list"])
        smaller(target)

        def validate(epoch):
            target.model.eval()
            val_loss, losses = 0, []
            with torch.no_grad() if fixed else contextlib.nullcontext():
                for k in range(batches):
                    loss = target.loss(target.batch(k))
                    if form == "sum":
                        val_loss += loss.item() if fixed else loss
                    else:
                        losses.append(loss.item() if fixed else loss)
            target.model.train()
            print("val_loss", float(val_loss / batches if form == "sum" else sum(losses) / len(losses)))
        every_epoch(target, validate, every)


@fault("k_outputs_list", "list of tensors", "loop", "decoder", "tokens", without=WRAPPED)
class OutputsOfTheEpoch(Fault):
    """outputs of each training step go into a list, for the accuracy of the epoch."""

    def inject(self, target, fixed):
        form, all_outputs, records = self.rng.choice(["list", "detached", "dict"]), [], {"logits": []}
        target.steps = self.rng.randint(6, 9)

        def keep(output):
            logits = largest_tensor(output)
            if logits is None or not target.model.training:
                return
            if fixed:
                all_outputs.append(logits.detach().argmax(-1).cpu())
            elif form == "list":
                all_outputs.append(logits)
            elif form == "detached":
                all_outputs.append(logits.detach())
            else:
                records["logits"].append(logits.data)
        with_output(target, keep)


@fault("k_eval_outputs", "results kept on the GPU", "loop", "eval", "decoder", "tokens", without=WRAPPED)
class PredictionsOfAValidation(Fault):
    """The predictions of all batches of a validation stay on the GPU, and become one tensor at its end."""

    def inject(self, target, fixed):
        batches, form, every = self.rng.randint(10, 16), self.rng.choice(["logits", "probabilities"]), self.rng.choice([1, 2])

        def validate(epoch):
            target.model.eval()
            predictions = []
            with torch.no_grad():
                for k in range(batches):
                    outputs = largest_tensor(target.predict(target.batch(k)))
                    if form == "probabilities":
                        outputs = outputs.softmax(dim=-1)
                    predictions.append(outputs.argmax(-1).cpu() if fixed else outputs)
            predictions = torch.cat(predictions)
            labels = predictions if fixed else predictions.argmax(-1)
            print("distinct", labels.float().mean().item())
            target.model.train()
        every_epoch(target, validate, every)


@fault("k_eval_no_grad", "evaluation with a graph", "loop", "eval", without=("decoder", *WRAPPED))
class EvaluationWithoutNoGrad(Fault):
    """model.eval() is taken for no_grad(): batches of the evaluation are larger than those of the training, as memory should allow."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        times = self.rng.choice([3, 4])
        smaller(target)
        enough_rows(target, times * target.size)

        def evaluate():
            target.model.eval()
            size, target.size = target.size, times * target.size
            batch = target.batch(0)
            target.size = size
            with torch.no_grad() if fixed else contextlib.nullcontext():
                outputs = target.predict(batch)
            target.model.train()
            return largest_tensor(outputs)
        target.evaluate = evaluate


@fault("k_eval_batch", "evaluation batch", "loop", "eval", without=("two optimizers", "scene", *WRAPPED))
class LargeEvaluationBatch(Fault):
    """A small batch to train with, and the number that was in the example for the evaluation."""

    def fits(self, target):
        return super().fits(target) and sized(target) and ("decoder" in target.traits or {"images", "attention"} <= target.traits)

    def inject(self, target, fixed):
        decoder = "decoder" in target.traits
        target.size = 2 if decoder else self.rng.choice([2, 4])
        batch_size = self.rng.choice([16, 24, 32] if decoder else [128, 192, 256])
        times = batch_size // target.size
        enough_rows(target, batch_size)

        def evaluate():
            target.model.eval()
            size = target.size
            with torch.no_grad():
                if fixed:
                    means = [largest_tensor(target.predict(target.batch(k))).float().mean() for k in range(times)]
                    outputs = torch.stack(means)
                else:
                    target.size = batch_size
                    outputs = largest_tensor(target.predict(target.batch(0)))
                    target.size = size
            target.model.train()
            return outputs
        target.evaluate = evaluate


@fault("k_predict_no_grad", "inference with a graph", "inference", "layers", without=("generate",))
class PredictWithoutNoGrad(Fault):
    """model.eval(), and outputs.detach() instead of no_grad()."""

    def inject(self, target, fixed):
        target.layers = max(4, target.layers) * self.rng.choice([1, 2])
        take = target.take
        if fixed:
            return
        target.no_grad = contextlib.nullcontext
        target.take = lambda i, outputs: take(i, outputs.detach() if torch.is_tensor(outputs) else outputs)


@fault("k_features_no_grad", "features with a graph", "inference", "layers", without=("generate",))
class FeaturesWithoutNoGrad(Fault):
    """features.append(model(x).cpu()), without no_grad()."""

    def inject(self, target, fixed):
        form = self.rng.choice(["list", "dict"])
        target.steps, features, by_batch = self.rng.randint(5, 8), [], {}

        def take(i, outputs):
            outputs = largest_tensor(outputs)
            vectors = (outputs.mean(dim=1) if outputs.dim() > 2 else outputs).cpu()
            if form == "list":
                features.append(vectors)
            else:
                by_batch[i] = vectors
        target.take = take
        if not fixed:
            target.no_grad = contextlib.nullcontext


@fault("k_results_on_gpu", "results kept on the GPU", "inference", "tokens", without=("generate",))
class ResultsStayOnGPU(Fault):
    """results.append(outputs) for each batch of an inference under no_grad(); the mean over tokens is taken at the end."""

    def inject(self, target, fixed):
        target.steps, results, form = self.rng.randint(14, 20), [], self.rng.choice(["list", "pairs"])

        def keep(output):
            outputs = largest_tensor(output)
            if fixed:
                outputs = outputs.mean(dim=1).cpu()
            results.append(outputs if form == "list" else (len(results), outputs))
        with_output(target, keep)


@fault("k_teacher", "reference with a graph", "loop", "eval", without=("two optimizers", "reference", "peft", "pretrained", *WRAPPED))
class TeacherWithoutNoGrad(Fault):
    """teacher.eval(), and its outputs are a target for the student's: without no_grad()."""

    def inject(self, target, fixed):
        weight, forward, teacher, student = self.rng.choice([0.1, 0.5, 1.0]), target.loss, [], []

        def make_teacher():
            teacher.append(copy.deepcopy(target.model).eval())
            target.model.register_forward_hook(lambda module, inputs, output: student.__setitem__(slice(None), [largest_tensor(output)]))

        def teacher_outputs(batch):
            trained, target.model = target.model, teacher[0]
            with torch.no_grad() if fixed else contextlib.nullcontext():
                outputs = largest_tensor(target.predict(batch))
            target.model = trained
            return outputs

        def loss_with_teacher(batch):
            wanted = teacher_outputs(batch)
            loss = forward(batch)
            mine = student.pop() if student else None
            if mine is None or mine.shape != wanted.shape:
                return loss + weight * (loss.float() - wanted.float().mean()) ** 2
            return loss + weight * torch.nn.functional.mse_loss(mine, wanted)
        after_build(target, make_teacher)
        target.loss = loss_with_teacher


@fault("k_losses_summed", "losses summed", "loop", without=WRAPPED)
class AccumulationByASum(Fault):
    """Gradient accumulation as a sum of losses, with one backward pass after the last micro-batch."""

    def inject(self, target, fixed):
        target.micro_batches, target.steps = self.rng.choice([4, 6, 8]), 3
        smaller(target)

        def step(i):
            target.zero_grad()
            total_loss = 0
            for k in range(target.micro_batches):
                loss = target.loss(target.batch(i * target.micro_batches + k)) / target.micro_batches
                if fixed:
                    target.backward(loss)
                    total_loss += loss.item()
                else:
                    total_loss = total_loss + loss
            if not fixed:
                target.backward(total_loss)
            target.optimize()
            return torch.as_tensor(total_loss).detach()
        target.step = step


@fault("k_head_only", "base not frozen", "loop", "layers", without=("two optimizers", "pretrained", "peft", *WRAPPED))
class OnlyTheHeadInTheOptimizer(Fault):
    """Adam(model.fc.parameters()): the optimizer gets the last layer, and nobody freezes the others."""

    def inject(self, target, fixed):
        last = self.rng.choice([2, 4])
        few_rows(target, self.rng)

        def choose():
            parameters = [p for p in target.model.parameters() if p.requires_grad]
            if fixed:
                for p in parameters[:-last]:
                    p.requires_grad = False
            target.optimizers = [torch.optim.Adam(parameters[-last:], lr=1e-3)]
        after_build(target, choose)

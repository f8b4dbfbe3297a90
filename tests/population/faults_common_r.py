"""Mistakes that threads about memory tell most often: losses and outputs with their graphs, results on the GPU, inference, what is not frozen."""
import contextlib
import copy

import torch
import torch.nn.functional as F
from transformers.trainer_utils import IntervalStrategy

from amounts import after_build, largest_tensor, peak, with_output
from core import DEVICE, Fault, fault

WRAPPED = "ddp", "fsdp", "deepspeed", "megatron"


def at_most(target, **largest):
    """Limits sizes of a job that is not built yet; jobs without one of them stay as they are."""
    for name, limit in largest.items():
        if isinstance(getattr(target, name, None), int):
            setattr(target, name, min(getattr(target, name), limit))


def usual(target):
    """A batch of the usual size, of a model without checkpointing: what graphs keep weighs more than parameters, and several of them are not too much."""
    at_most(target, size=8 if "tokens" in target.traits or "layers" not in target.traits else 16, length=512, vocabulary=32000)
    if "checkpointing" in target.traits:
        target.checkpointing = False


def validated(target, every, validate):
    """Calls validate() after every so many steps, with the model in evaluation mode."""
    after_step = target.after_step

    def and_validate(i, loss):
        after_step(i, loss)
        if i % every == every - 1:
            target.model.eval()
            validate()
            target.model.train()
    target.after_step = and_validate


@fault("r_val_loss", "validation with a graph", "loop", without=(*WRAPPED, "two optimizers", "pretrained"))
class ValLossAddedUp(Fault):
    """val_loss += loss over the batches of a validation, with model.eval() and without no_grad()."""

    def inject(self, target, fixed):
        batches, form, every = self.rng.randint(4, 8), self.rng.choice(["sum", "list", "average"]), self.rng.choice([1, 2])
        usual(target)

        def validate():
            val_loss, losses = 0.0, []
            with torch.no_grad() if fixed else contextlib.nullcontext():
                for k in range(batches):
                    loss = target.loss(target.batch(k))
                    if form == "sum":
                        val_loss += loss
                    elif form == "average":
                        val_loss = val_loss + loss / batches
                    else:
                        losses.append(loss)
                target.val_loss = float(torch.stack(losses).mean() if losses else val_loss)
        validated(target, every, validate)


@fault("r_val_outputs", "evaluation with a graph", "loop", "eval", without=(*WRAPPED, "two optimizers", "pretrained"))
class ValOutputsWithGraph(Fault):
    """The outputs of a validation are gathered for a score at its end, and nobody wrote no_grad()."""

    def inject(self, target, fixed):
        batches, form = self.rng.randint(4, 6), self.rng.choice(["list", "dict", "best"])
        usual(target)

        def validate():
            outputs, scores = [], {}
            with torch.no_grad() if fixed else contextlib.nullcontext():
                for k in range(batches):
                    out = target.predict(target.batch(k)).float()
                    score = out.amax(-1).mean() if form == "best" else out.mean()
                    outputs.append(score)
                    if form == "dict":
                        scores["batch_%d" % k] = {"mean": score, "std": out.flatten()[:1000].std()}
                target.score = float(torch.stack(outputs).mean())
        validated(target, self.rng.choice([1, 2]), validate)


@fault("r_retain_graph", "graph kept", "loop", without=(*WRAPPED, "two optimizers", "pretrained"))
class RetainGraphAndList(Fault):
    """backward(retain_graph=True), as an error message advised, and the losses in a list to plot them."""

    def inject(self, target, fixed):
        form, target.steps, target.train_losses, log = self.rng.choice(["append", "running", "dict"]), self.rng.randint(4, 6), [], {}
        target.running_loss = 0.0
        usual(target)

        def backward(loss):
            loss.backward(retain_graph=not fixed)
            value = loss.item() if fixed else loss
            if form == "append":
                target.train_losses.append(value)
            elif form == "running":
                target.running_loss += value
            else:
                log.setdefault("train", []).append({"loss": value, "lr": 1e-4})
        target.backward = backward


@fault("r_train_metric", "graph kept", "loop", "eval", without=(*WRAPPED, "two optimizers", "pretrained"))
class TrainMetricWithGraph(Fault):
    """After each step the model is asked again, for the training's score of the epoch, whose terms are kept with their graphs."""

    def inject(self, target, fixed):
        form, scores, meter = self.rng.choice(["list", "meter"]), [], {"sum": 0.0, "count": 0}
        target.steps, after_step = self.rng.randint(5, 7), target.after_step
        usual(target)

        def score(i, loss):
            after_step(i, loss)
            out = target.predict(target.batch(i))
            value = out.float().mean()
            value = value.item() if fixed else value
            if form == "list":
                scores.append(value)
            else:
                meter["sum"], meter["count"] = meter["sum"] + value, meter["count"] + 1
        target.after_step = score


@fault("r_accumulated_loss", "losses summed", "loop", without=(*WRAPPED, "two optimizers", "pretrained"))
class AccumulatedLoss(Fault):
    """Gradient accumulation as a sum of losses: one backward pass after so many batches."""

    def inject(self, target, fixed):
        count, form = self.rng.choice([4, 6, 8]), self.rng.choice(["sum", "divided"])
        target.micro_batches, target.steps = count, 3
        usual(target)
        if fixed:
            return

        def step(i):
            loss = 0
            for k in range(count):
                new = target.loss(target.batch(i * count + k))
                loss = loss + (new / count if form == "divided" else new)
            target.zero_grad()
            target.backward(loss if form == "divided" else loss / count)
            target.optimize()
            return loss.detach()
        target.step = step


@fault("r_predictions", "results kept on the GPU", "loop", "eval", "decoder", without=WRAPPED)
class PredictionsOfValidation(Fault):
    """all_preds.append(output), under no_grad(), over all of a validation."""

    def inject(self, target, fixed):
        batches, form = self.rng.randint(16, 22), self.rng.choice(["append", "pairs", "extend"])
        at_most(target, size=4, length=256)
        target.vocabulary = self.rng.choice([32000, 50304])

        def validate():
            all_preds = []
            with torch.no_grad():
                for k in range(batches):
                    logits = target.predict(target.batch(k))
                    if fixed:
                        all_preds.append(logits.argmax(-1).cpu())
                    elif form == "extend":
                        all_preds.extend(logits)
                    else:
                        all_preds.append((k, logits) if form == "pairs" else logits)
                    del logits
            target.scored = len(all_preds)
        validated(target, self.rng.choice([1, 2]), validate)


@fault("r_epoch_outputs", "list of tensors", "loop", "decoder", without=WRAPPED)
class EpochOutputs(Fault):
    """The outputs of every training step, detached, in a list for the accuracy of the epoch."""

    def inject(self, target, fixed):
        form, epoch_outputs = self.rng.choice(["logits", "probabilities", "float"]), []
        target.steps = self.rng.randint(8, 12)
        at_most(target, size=8, length=512, micro_batches=2)
        target.vocabulary = self.rng.choice([32000, 50304])

        def remember(output):
            logits = largest_tensor(output)
            if logits is None or not torch.is_grad_enabled():
                return
            logits = logits.detach()
            if fixed:
                epoch_outputs.append(logits[..., :1].argmax(-1).cpu())
            elif form == "probabilities":
                epoch_outputs.append(logits.softmax(-1))
            else:
                epoch_outputs.append(logits.float() if form == "float" else logits)
        with_output(target, remember)


@fault("r_trainer_logits", "logits of an evaluation", "trainer", "decoder", without=("forward",))
class TrainerLogits(Fault):
    """compute_metrics of a trainer gets the logits of the whole evaluation, which it puts together on the GPU."""

    def fits(self, target):
        return super().fits(target) and target.name not in ("classifier_with_trainer", "trl_reward", "trl_dpo")  # their results have few numbers

    def inject(self, target, fixed):
        batches, form = self.rng.randint(8, 12), self.rng.choice(["accuracy", "perplexity"])
        at_most(target, size=2, length=256, vocabulary=32000)

        def compute_metrics(prediction):
            values, labels = prediction
            return {form: float(len(labels))}

        def metrics():
            trainer = target.trainer
            trainer.args.eval_strategy, trainer.args.eval_steps = IntervalStrategy.STEPS, 2
            trainer.eval_dataset = torch.utils.data.Subset(trainer.train_dataset, range(batches * target.size))
            trainer.compute_metrics = compute_metrics
            if fixed:
                trainer.preprocess_logits_for_metrics = lambda logits, labels: (logits[0] if isinstance(logits, tuple) else logits).argmax(-1)
        after_build(target, metrics)


@fault("r_features", "features with a graph", "inference", without=("generate", "decoder"))
class FeaturesWithGraph(Fault):
    """Features of a data set are gathered on the host, from a model in evaluation mode and without no_grad(): they keep its graphs."""

    def inject(self, target, fixed):
        form, target.steps, features = self.rng.choice(["list", "dict"]), self.rng.randint(5, 7), []
        by_name = {}
        at_most(target, size=16 if "images" in target.traits else 48)
        if not fixed:
            target.no_grad = contextlib.nullcontext

        def take(i, outputs):
            vector = largest_tensor(outputs).float().mean(0).flatten()[:2048].cpu()
            if form == "list":
                features.append(vector)
            else:
                by_name["part_%d" % i] = vector
        target.take = take


@fault("r_eval_is_not_enough", "inference with a graph", "inference", without=("generate",))
class EvalIsNotEnough(Fault):
    """model.eval() was taken for no_grad(): inference saves all activations."""

    def inject(self, target, fixed):
        take = target.take
        at_most(target, size=48)
        if not fixed:
            target.no_grad = contextlib.nullcontext
        target.take = lambda i, outputs: take(i, outputs.detach() if torch.is_tensor(outputs) else outputs)


@fault("r_full_precision", "weights in full precision", "inference", "decoder")
class FullPrecision(Fault):
    """A language model is loaded without a dtype: with 32 bits for each weight."""

    def inject(self, target, fixed):
        target.dtype = torch.bfloat16 if fixed else torch.float32
        target.layers, target.width = self.rng.choice([8, 10, 12]), self.rng.choice([1024, 1536])
        at_most(target, size=self.rng.choice([1, 2]), length=128, prompt=64, new_tokens=6, steps=3)


@fault("r_many_prompts", "KV cache", "generate")
class ManyPrompts(Fault):
    """All prompts at once go to generate(), where a few at a time would do."""

    def inject(self, target, fixed):
        parts, predict = self.rng.choice([4, 8]), target.predict
        target.size, target.prompt = self.rng.choice([32, 64]), self.rng.choice([512, 1024])
        at_most(target, new_tokens=8, steps=2)
        if fixed:
            target.predict = lambda prompts: torch.cat([predict(part) for part in prompts.chunk(parts)])


@fault("r_head_only", "base not frozen", "loop", without=(*WRAPPED, "two optimizers", "pretrained", "peft", "reference"))
class HeadOnly(Fault):
    """The optimizer has the parameters of the head alone; the backbone was not frozen."""

    def inject(self, target, fixed):
        part, kind = self.rng.choice([8, 12, 20]), self.rng.choice(["adamw", "sgd"])

        def new_optimizer():
            parameters = [p for p in target.model.parameters() if p.requires_grad]
            head = parameters[-max(2, len(parameters) // part):]
            if fixed:
                for p in parameters[:-len(head)]:
                    p.requires_grad_(False)
            target.optimizers = [torch.optim.AdamW(head, lr=1e-4) if kind == "adamw" else torch.optim.SGD(head, lr=0.01, momentum=0.9)]
        after_build(target, new_optimizer)


@fault("r_teacher", "reference with a graph", "loop", "eval", without=(*WRAPPED, "two optimizers", "reference", "peft", "pretrained"))
class TeacherInEvalMode(Fault):
    """Distillation: teacher.eval(), and the teacher runs with a graph."""

    def inject(self, target, fixed):
        form, teacher = self.rng.choice(["squares", "absolute", "smooth"]), []
        distance = {"squares": F.mse_loss, "absolute": F.l1_loss, "smooth": F.smooth_l1_loss}[form]

        def predicted_by(model, batch):
            student, target.model = target.model, model
            try:
                return target.predict(batch)
            finally:
                target.model = student

        def distilled(batch):
            with torch.no_grad() if fixed else contextlib.nullcontext():
                wanted = predicted_by(teacher[0], batch)
            return distance(target.predict(batch), wanted)
        after_build(target, lambda: teacher.append(copy.deepcopy(target.model).eval()))
        target.loss = distilled


@fault("r_distances", "one huge temporary", "loop", without=WRAPPED)
class DistancesByBroadcast(Fault):
    """((a[:, None] - b[None]) ** 2).sum(-1), for the nearest neighbours: all differences are there at once."""

    def inject(self, target, fixed):
        share, width, form, forward = self.rng.uniform(0.7, 1.3), self.rng.choice([64, 128, 256]), self.rng.choice(["squares", "absolute"]), target.loss
        number = []

        def nearest():
            if not number:
                number.append(int((share * peak() / (4 * width)) ** 0.5))
            a, b = torch.zeros(number[0], width, device=DEVICE), torch.zeros(number[0], width, device=DEVICE)
            if fixed:
                return torch.cdist(a, b, p=2 if form == "squares" else 1).argmin(1)
            difference = a[:, None] - b[None]
            return (difference ** 2 if form == "squares" else difference.abs()).sum(-1).argmin(1)

        def loss_and_neighbours(batch):
            loss = forward(batch)
            with torch.no_grad():
                target.neighbours = nearest()
            return loss
        target.loss = loss_and_neighbours

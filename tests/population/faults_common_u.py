"""Mistakes with graphs and results: what a logger keeps, no_grad() without effect, metrics with states, teachers, what is not frozen, answers of a model."""
import collections
import contextlib
import copy
import dataclasses

import torch
import torch.nn.functional as F
from transformers import TrainerCallback

from amounts import after_build, largest_tensor, with_output
from core import DEVICE, Fault, fault
from faults_common_r import WRAPPED, at_most, usual

ALONE = (*WRAPPED, "two optimizers", "pretrained", "peft", "reference")


class Logger:
    """Writes means of what was logged, whenever there are enough lines."""

    def __init__(self, every, form):
        self.every, self.form, self.lines, self.written = every, form, [], []

    def log(self, step, **values):
        self.lines.append({"step": step, **values} if self.form == "dicts" else (step, *values.values()))
        if len(self.lines) == self.every:
            last = self.lines[-1].values() if self.form == "dicts" else self.lines[-1]
            self.written.append([float(value) for value in last])
            self.lines.clear()


class PrecisionAndRecall:
    """A metric with the interface of metrics: update() for each batch, compute() at the end. Without thresholds it needs all scores."""

    def __init__(self, thresholds=None, joined=False):
        self.thresholds, self.joined = thresholds, joined
        self.reset()

    def reset(self):
        self.scores, self.above = [], 0

    def update(self, scores):
        if self.thresholds is None:
            self.scores.append(scores)
        else:
            self.above = self.above + torch.stack([(scores.amax(-1) > t).sum() for t in self.thresholds]).cpu()

    def compute(self):
        if self.thresholds is not None:
            return self.above.float().mean().item()
        scores = torch.cat([s.flatten() for s in self.scores]) if self.joined else self.scores[-1]
        return float(scores[:1].max())


@dataclasses.dataclass
class Request:
    """A line in the log of a service."""
    number: int
    prompts: int
    output: object = None
    tokens: int = 0


class Waiting:
    """Requests that have come since the last call are answered together, as many as there are; or `limit` of them at a time."""

    def __init__(self, answer, limit=None):
        self.answer, self.limit = answer, limit

    def __call__(self, prompts):
        return torch.cat([self.answer(part) for part in prompts.split(self.limit or len(prompts))])


def whenever(target, due, do):
    """Calls do() after each step for which due(its number, from 1) is true."""
    after_step = target.after_step

    def and_do(i, loss):
        after_step(i, loss)
        if due(i + 1):
            do()
    target.after_step = and_do


@fault("u_log_lines", "graph kept", "loop", without=ALONE)
class LogLines(Fault):
    """logger.log(step, loss=loss): lines are written after many steps only, and until then have losses with their graphs, which backward() retains."""

    def inject(self, target, fixed):
        logger, target.steps, seen = Logger(self.rng.choice([50, 100]), self.rng.choice(["dicts", "tuples"])), self.rng.randint(4, 6), []
        scale = self.rng.choice([1.0, 100.0])
        usual(target)

        def backward(loss):
            loss.backward(retain_graph=not fixed)
            seen.append(len(seen))
            logger.log(len(seen), loss=loss.item() * scale if fixed else loss * scale, rate=1e-4)
        target.backward = backward


@fault("u_no_grad_alone", "validation with a graph", "loop", without=ALONE)
class NoGradAlone(Fault):
    """torch.no_grad() is a line of its own, without `with`: it makes an object, and the validation whose losses are averaged goes on recording."""

    def inject(self, target, fixed):
        batches, form, every = self.rng.randint(4, 7), self.rng.choice(["stack", "weighted", "worst"]), self.rng.choice([1, 2])
        usual(target)

        def val_loss():
            losses = [target.loss(target.batch(k)) for k in range(batches)]
            if form == "stack":
                return torch.stack(losses).mean().item()
            if form == "weighted":
                return float(sum((k + 1) * loss for k, loss in enumerate(losses)) / batches)
            return max(losses, key=float).item()

        def validate():
            target.model.eval()
            if fixed:
                with torch.no_grad():
                    target.val_loss = val_loss()
            else:
                torch.no_grad()
                target.val_loss = val_loss()
            target.model.train()
        whenever(target, lambda n: n % every == 0, validate)


@fault("u_gradients_on_again", "evaluation with a graph", "loop", "eval", without=ALONE)
class GradientsOnAgain(Fault):
    """An evaluation under no_grad() calls a function that fits a temperature; it needs a gradient, and says set_grad_enabled(True), which nobody takes back."""

    def inject(self, target, fixed):
        batches, every, bins = self.rng.randint(5, 7), self.rng.choice([1, 2]), self.rng.choice([4, 8])
        usual(target)

        def slope_of_temperature(scores):
            if not fixed:
                torch.set_grad_enabled(True)
            with torch.enable_grad() if fixed else contextlib.nullcontext():
                temperature = torch.ones(1, device=DEVICE, requires_grad=True)
                scaled = scores.detach().flatten(1)[:, :bins].float() / temperature
                return torch.autograd.grad(scaled.logsumexp(-1).mean(), temperature)[0].item()

        def evaluate():
            confidences, slopes = [], []
            target.model.eval()
            with torch.no_grad():
                for k in range(batches):
                    scores = target.predict(target.batch(k))
                    confidences.append(scores.float().flatten(1).amax(1))
                    slopes.append(slope_of_temperature(scores))
                target.confidence = torch.cat(confidences).mean().item(), sum(slopes) / batches
            target.model.train()
        whenever(target, lambda n: n % every == 0, evaluate)


@fault("u_metric_without_thresholds", "results kept on the GPU", "loop", "eval", "decoder", without=WRAPPED)
class MetricWithoutThresholds(Fault):
    """A metric of precision and recall without thresholds keeps the scores of all batches until compute(); with thresholds it counts."""

    def inject(self, target, fixed):
        batches, every = self.rng.randint(16, 22), self.rng.choice([1, 2, 3])
        metric = PrecisionAndRecall([0.2, 0.4, 0.6, 0.8] if fixed else None, self.rng.random() < 0.3)
        at_most(target, size=4, length=256)
        target.vocabulary = self.rng.choice([32000, 50304])

        @torch.no_grad()
        def evaluate():
            target.model.eval()
            for k in range(batches):
                metric.update(target.predict(target.batch(k)))
            target.model.train()
            target.score = metric.compute()
            metric.reset()
        whenever(target, lambda n: n % every == 0, evaluate)


@fault("u_statistics_for_fid", "features with a graph", "inference", without=("generate", "decoder"))
class StatisticsForFid(Fault):
    """The mean and the covariance of a network's features are added up over a data set, for a distance of two sets; without no_grad()."""

    def inject(self, target, fixed):
        width, place, centred = self.rng.choice([64, 128]), self.rng.choice(["cpu", DEVICE]), self.rng.random() < 0.5
        target.steps = self.rng.randint(5, 8)
        at_most(target, size=16 if "images" in target.traits else 48)
        sums = {"n": 0, "mu": 0.0, "sigma": 0.0}
        if not fixed:
            target.no_grad = contextlib.nullcontext

        def take(i, outputs):
            features = largest_tensor(outputs).float()
            features = features.reshape(len(features), -1)[:, :width].to(place)
            if centred:
                features = features - features.mean(0, keepdim=True)
            sums["n"] += len(features)
            sums["mu"] = sums["mu"] + features.sum(0)
            sums["sigma"] = sums["sigma"] + features.T @ features
        target.take = take


@fault("u_decorator_of_the_warm_up", "inference with a graph", "inference", without=("generate",))
class DecoratorOfTheWarmUp(Fault):
    """A service has @torch.no_grad() above warm_up(), which calls the model once; handle(), the function below it, has no decorator."""

    def inject(self, target, fixed):
        predict, take, off = target.predict, target.take, self.rng.choice([torch.no_grad, torch.inference_mode])
        at_most(target, size=48)
        target.no_grad = contextlib.nullcontext

        @off()
        def warm_up():
            predict(target.batch(0))

        def handle(batch):
            return predict(batch)
        target.predict = off()(handle) if fixed else handle
        target.take = lambda i, outputs: take(i, outputs.detach() if torch.is_tensor(outputs) else outputs)
        after_build(target, warm_up)


@fault("u_two_teachers", "teacher not frozen", "loop", "eval", without=ALONE)
class TwoTeachers(Fault):
    """The student learns the mean of what several teachers say; they are in evaluation mode, and their parameters require gradients: all is recorded."""

    def inject(self, target, fixed):
        count, temperature, form, teachers = self.rng.choice([2, 3]), self.rng.choice([1.0, 2.0, 4.0]), self.rng.choice(["divergence", "squares"]), []
        at_most(target, size=8, length=512, vocabulary=16000)
        if "checkpointing" in target.traits:
            target.checkpointing = False

        def hire():
            for _ in range(count):
                teachers.append(copy.deepcopy(target.model).eval())
                for part in teachers[-1].modules():
                    if isinstance(part, torch.nn.RNNBase):
                        part.train()  # cuDNN has no backward pass for it otherwise

        def said_by(teacher, batch):
            student, target.model = target.model, teacher
            try:
                return target.predict(batch).float() / temperature
            finally:
                target.model = student

        def distilled(batch):
            with torch.no_grad() if fixed else contextlib.nullcontext():
                wanted = sum(said_by(teacher, batch) for teacher in teachers) / count
            own = target.predict(batch).float() / temperature
            if form == "squares":
                return F.mse_loss(own, wanted)
            return F.kl_div(own.log_softmax(-1), wanted.log_softmax(-1), reduction="batchmean", log_target=True) * temperature ** 2
        after_build(target, hire)
        target.loss = distilled


@fault("u_state_dict_frozen", "base not frozen", "loop", without=ALONE)
class StateDictFrozen(Fault):
    """for name, p in model.state_dict().items(): p.requires_grad = False; these tensors are detached ones, and no parameter is frozen by it."""

    def inject(self, target, fixed):
        count, rate, kind = self.rng.choice([2, 4]), self.rng.choice([1e-3, 1e-4]), self.rng.choice([torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])

        def freeze():
            names = [name for name, p in target.model.named_parameters() if p.requires_grad][-count:]
            for p in [*target.model.parameters()] if fixed else target.model.state_dict().values():
                p.requires_grad = False
            head = [p for name, p in target.model.named_parameters() if name in names]
            for p in head:
                p.requires_grad = True
            target.optimizers = [kind(head, lr=rate)]
        after_build(target, freeze)


@fault("u_evaluate_in_a_callback", "logits of an evaluation", "trainer", "decoder", without=("forward",))
class EvaluateInACallback(Fault):
    """A callback calls trainer.evaluate() every few steps, with compute_metrics for the accuracy of tokens: all logits come to it."""

    def fits(self, target):
        return super().fits(target) and target.name not in ("classifier_with_trainer", "trl_reward", "trl_dpo")  # their results have few numbers

    def inject(self, target, fixed):
        batches, when = self.rng.randint(16, 24), self.rng.choice([1, 2, 3])
        at_most(target, size=2, length=256, vocabulary=50304, layers=4)

        class Accuracy(TrainerCallback):
            def on_step_end(self, args, state, control, **keys):
                if state.global_step == when:
                    target.trainer.evaluate()

        def metrics():
            trainer = target.trainer
            trainer.eval_dataset = torch.utils.data.Subset(trainer.train_dataset, range(min(len(trainer.train_dataset), batches * target.size)))
            trainer.compute_metrics = lambda prediction: {"tokens": float(prediction.predictions[0].size) if len(prediction.predictions) else 0.0}
            if fixed:
                trainer.preprocess_logits_for_metrics = lambda logits, labels: largest_tensor(logits).argmax(-1)
            trainer.add_callback(Accuracy())
        after_build(target, metrics)


@fault("u_burst", "KV cache", "generate")
class Burst(Fault):
    """All requests that wait are answered by one call; at times, many of them wait. Fixed: so many at a time, at most."""

    def inject(self, target, fixed):
        arrivals = self.rng.choice([[4, 6, 48], [2, 40, 4], [8, 64]])
        target.prompt, batch = self.rng.choice([640, 896, 1024]), target.batch
        at_most(target, new_tokens=6)
        target.steps = len(arrivals)

        def arrived(i):
            target.size = arrivals[i % len(arrivals)]
            return batch(i)
        target.size = max(arrivals)
        target.batch, target.predict = arrived, Waiting(target.predict, self.rng.choice([4, 8]) if fixed else None)


@fault("u_outputs_in_the_log", "caches of finished requests", "generate")
class OutputsInTheLog(Fault):
    """The log of requests has what the model returned for each of them, to count tokens for a bill; and that has the keys and values."""

    def inject(self, target, fixed):
        longest, predict = self.rng.choice([100, 1000]), target.predict
        target.prompt, target.steps = self.rng.choice([512, 768, 1024]), self.rng.randint(6, 9)
        at_most(target, size=16, new_tokens=4)
        target.log = collections.deque(maxlen=longest)

        def note(output):
            if target.log and getattr(output, "past_key_values", None) is not None:
                target.log[-1].tokens += target.log[-1].prompts
                target.log[-1].output = None if fixed else output

        def answered(prompts):
            target.log.append(Request(len(target.log), len(prompts)))
            return predict(prompts)
        target.predict = answered
        with_output(target, note)

"""Mistakes of the questions that come back every week: meters and averages of losses, dropout as a measure, features, teachers, probes, answers of a model."""
import contextlib
import copy

import torch
import torch.nn.functional as F
from transformers.trainer_utils import IntervalStrategy

from amounts import after_build, largest_tensor, peak, with_output
from core import Fault, fault
from faults_common_r import WRAPPED, at_most, usual

ALONE = (*WRAPPED, "two optimizers", "pretrained", "peft", "reference")


class AverageMeter:
    """The meter that is copied from one training script to the next."""

    def __init__(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val, self.sum, self.count = val, self.sum + val * n, self.count + n
        self.avg = self.sum / self.count


def recording(fixed):
    """Under no_grad(), as it should be, or without it."""
    return torch.no_grad() if fixed else contextlib.nullcontext()


def after_epochs(target, length, do):
    """Calls do() when an epoch of so many steps is over."""
    after_step = target.after_step

    def and_do(i, loss):
        after_step(i, loss)
        if (i + 1) % length == 0:
            do()
    target.after_step = and_do


@fault("s_smooth_loss", "graph kept", "loop", without=ALONE)
class SmoothLoss(Fault):
    """The loss that the progress bar shows is an average of all before it, of tensors; retain_graph=True once made an error go away."""

    def inject(self, target, fixed):
        form, beta, target.steps = self.rng.choice(["exponential", "meter", "recent"]), self.rng.choice([0.9, 0.98]), self.rng.randint(4, 6)
        target.shown, meter, recent = None, AverageMeter(), []
        usual(target)

        def backward(loss):
            loss.backward(retain_graph=not fixed)
            value = loss.detach().item() if fixed else loss
            if form == "meter":
                meter.update(value, 8)
                target.shown = meter.avg
            elif form == "recent":
                recent.append(value)
                del recent[:-20]
                target.shown = sum(recent) / len(recent)
            else:
                target.shown = value if target.shown is None else beta * target.shown + (1 - beta) * value
        target.backward = backward


@fault("s_meters_of_domains", "validation with a graph", "loop", without=ALONE)
class MetersOfDomains(Fault):
    """A validation on several sets, with an AverageMeter for each, to which the losses are given as they are; there is no no_grad()."""

    def inject(self, target, fixed):
        domains, batches = self.rng.sample(["news", "forum", "books", "code"], self.rng.choice([2, 3])), self.rng.randint(2, 4)
        usual(target)

        def validate():
            meters = {domain: AverageMeter() for domain in domains}
            target.model.eval()
            for d, meter in enumerate(meters.values()):
                for k in range(batches):
                    with recording(fixed):
                        meter.update(target.loss(target.batch(d * batches + k)), n=k + 1)
            target.model.train()
            target.best = min(float(meter.avg) for meter in meters.values())
        after_epochs(target, self.rng.choice([1, 2]), validate)


@fault("s_dropout_samples", "evaluation with a graph", "loop", "eval", without=ALONE)
class DropoutSamples(Fault):
    """How sure is the model? A batch goes through it many times with dropout, and the outputs are stacked; without no_grad()."""

    def inject(self, target, fixed):
        samples, form = self.rng.randint(5, 8), self.rng.choice(["stack", "moments"])
        usual(target)

        def uncertainty():
            batch, seen, first, second = target.batch(0), [], 0.0, 0.0
            with recording(fixed):
                for _ in range(samples):
                    score = target.predict(batch).float().flatten(1).mean(1)
                    if form == "stack":
                        seen.append(score)
                    else:
                        first, second = first + score / samples, second + score ** 2 / samples
                spread = torch.stack(seen).var(0) if seen else second - first ** 2
            target.unsure = float(spread.mean())
        after_epochs(target, self.rng.choice([1, 2]), uncertainty)


@fault("s_scores_by_id", "results kept on the GPU", "loop", "eval", "decoder", without=WRAPPED)
class ScoresById(Fault):
    """{id: scores} for all examples of a validation, to look at the worst ones afterwards; under no_grad(), and on the GPU."""

    def inject(self, target, fixed):
        share, form = self.rng.uniform(0.5, 1.2), self.rng.choice(["rows", "batches", "tuples"])
        at_most(target, size=4, length=256)
        target.vocabulary = self.rng.choice([32000, 50304])
        enough = []

        def put(table, k, scores):
            if fixed:
                table[k] = scores.max(-1).values.cpu()
            elif form == "rows":
                table.update({(k, n): row for n, row in enumerate(scores)})
            else:
                table[k] = scores if form == "batches" else (scores, scores.argmax(-1))

        @torch.no_grad()
        def validate():
            table, k = {}, 0
            enough.append((1 + share) * peak())
            target.model.eval()
            while k < 4 or not fixed and k < 60 and torch.cuda.memory_allocated() < enough[0]:
                put(table, k, target.predict(target.batch(k)))
                k += 1
            target.model.train()
            target.seen = len(table)
        after_epochs(target, self.rng.choice([1, 2]), validate)


@fault("s_perplexity_in_trainer", "logits of an evaluation", "trainer", "decoder", without=("forward",))
class PerplexityInTrainer(Fault):
    """evaluate() of a trainer with compute_metrics for a language model, and without eval_accumulation_steps: all logits stay on the GPU until the end."""

    def fits(self, target):
        return super().fits(target) and target.name not in ("classifier_with_trainer", "trl_reward", "trl_dpo")  # their results have few numbers

    def inject(self, target, fixed):
        batches, when = self.rng.randint(8, 14), self.rng.choice([1, 2, 3])
        at_most(target, size=2, length=256, vocabulary=50304)

        def metrics():
            trainer = target.trainer
            trainer.eval_dataset = torch.utils.data.Subset(trainer.train_dataset, range(min(len(trainer.train_dataset), batches * target.size)))
            trainer.compute_metrics = lambda prediction: {"answers": float(len(prediction.predictions))}
            trainer.args.eval_strategy, trainer.args.eval_steps = IntervalStrategy.STEPS, when
            if fixed:
                trainer.args.eval_accumulation_steps = 1
        after_build(target, metrics)


@fault("s_bank_of_features", "features with a graph", "inference", without=("generate", "decoder"))
class BankOfFeatures(Fault):
    """Features of a data set are written into a tensor on the host, made before the loop; model.eval() stands there, and no_grad() does not."""

    def inject(self, target, fixed):
        form, width, target.steps = self.rng.choice(["bank", "by file", "neighbours"]), self.rng.choice([64, 256]), self.rng.randint(5, 8)
        target.bank, by_file = torch.zeros(target.steps, width), {}
        at_most(target, size=16 if "images" in target.traits else 48)
        if not fixed:
            target.no_grad = contextlib.nullcontext

        def take(i, outputs):
            features = largest_tensor(outputs).float().mean(0).flatten()[:width]
            if form == "by file":
                by_file["%05d.pt" % i] = features.cpu()
            elif form == "bank":
                target.bank[i, :len(features)] = features.cpu()
            else:
                by_file[i] = F.normalize(features, dim=0).to("cpu")
        target.take = take


@fault("s_looked_at_twice", "inference with a graph", "inference", without=("generate",))
class LookedAtTwice(Fault):
    """Predictions are averages of two or three passes of the same inputs, by a model in evaluation mode; nobody wrote no_grad()."""

    def fits(self, target):
        return super().fits(target) and not target.traits & {"scene"}

    def inject(self, target, fixed):
        looks, predict, take = self.rng.choice([2, 3]), target.predict, target.take
        at_most(target, size=24)
        if not fixed:
            target.no_grad = contextlib.nullcontext

        def averaged(batch):
            total = predict(batch)
            if not torch.is_tensor(total):
                return total
            for _ in range(looks - 1):
                total = total + predict(batch)
            return total / looks
        target.predict = averaged
        target.take = lambda i, outputs: take(i, outputs.detach() if torch.is_tensor(outputs) else outputs)


@fault("s_mean_teacher", "teacher not frozen", "loop", "eval", without=ALONE)
class MeanTeacher(Fault):
    """A teacher that is an average of the student: deepcopy() of it, whose parameters require gradients, and whose passes are recorded."""

    def inject(self, target, fixed):
        weight, form, forward, optimize, teachers = self.rng.choice([0.1, 1.0]), self.rng.choice(["squares", "huber"]), target.loss, target.optimize, []
        at_most(target, size=8, length=512, vocabulary=16000)
        if "checkpointing" in target.traits:
            target.checkpointing = False

        def of_teacher(batch):
            student, target.model = target.model, teachers[0]
            try:
                return target.predict(batch)
            finally:
                target.model = student

        def consistent(batch):
            if not torch.is_grad_enabled():
                return forward(batch)
            with recording(fixed):
                wanted = of_teacher(batch)
            distance = (F.mse_loss if form == "squares" else F.huber_loss)(target.predict(batch), wanted)
            return weight * distance

        @torch.no_grad()
        def and_follow():
            optimize()
            for mean, p in zip(teachers[0].parameters(), target.model.parameters()):
                mean.lerp_(p.detach(), 0.01)
        after_build(target, lambda: teachers.append(copy.deepcopy(target.model)))
        target.loss, target.optimize = consistent, and_follow


@fault("s_linear_probe", "base not frozen", "loop", without=ALONE)
class LinearProbe(Fault):
    """A probe on a pretrained model: model.requires_grad = False, which is an attribute that nobody reads; the optimizer has the last parameters."""

    def inject(self, target, fixed):
        count, rate, kind = self.rng.choice([2, 4, 6]), self.rng.choice([1e-3, 1e-2]), self.rng.choice([torch.optim.Adam, torch.optim.SGD])

        def probe():
            own = [p for p in target.model.parameters() if p.requires_grad]
            last = own[-count:]
            if fixed:
                target.model.requires_grad_(False)
            else:
                target.model.requires_grad = False
            for p in last:
                p.requires_grad_(True)
            target.optimizers = [kind([{"params": [p], "lr": rate} for p in last], lr=rate)]
        after_build(target, probe)


@fault("s_many_answers", "KV cache", "generate")
class ManyAnswers(Fault):
    """So many answers to each prompt, for a vote, all from one call; fixed: some of them, call after call."""

    def inject(self, target, fixed):
        answers, predict = self.rng.choice([8, 16]), target.predict
        target.size, target.prompt = self.rng.choice([4, 8]), self.rng.choice([768, 1024])
        at_most(target, new_tokens=6, steps=2)

        def voted(prompts):
            if fixed:
                return torch.cat([predict(part) for part in prompts.repeat_interleave(answers, 0).split(len(prompts))])
            return predict(prompts.repeat_interleave(answers, 0))
        target.predict = voted


@fault("s_sessions", "caches of finished requests", "generate")
class Sessions(Fault):
    """The keys and values of each conversation are kept for its next turn, and nobody ends a conversation."""

    def inject(self, target, fixed):
        form, sessions, turn, predict = self.rng.choice(["dict", "objects"]), {}, [0], target.predict
        target.prompt, target.steps = self.rng.choice([512, 1024]), self.rng.randint(6, 8)
        at_most(target, size=16, new_tokens=4)

        def remember(output):
            cache = getattr(output, "past_key_values", None)
            if cache is not None:
                sessions["user-%d" % turn[0]] = cache if form == "dict" else {"past_key_values": cache, "seen": turn[0]}

        def answered(prompts):
            turn[0] += 1
            answer = predict(prompts)
            if fixed:
                sessions.clear()
            return answer
        target.predict = answered
        with_output(target, remember)

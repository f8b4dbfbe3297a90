"""Mistakes that people tell of most often, of loops: losses and results that are kept, evaluations, loops of trials, answers."""
import contextlib
import copy
import gc

import torch

from amounts import after_build, blocks, largest_tensor, peak, sized, with_output
from core import Fault, Job, fault
from faults_common_j import WRAPPED, enough_rows, other_size, small_batches


@fault("val_loss_summed_with_graph", "validation with a graph", "loop", without=("two optimizers", *WRAPPED))
class ValLossSummedWithGraph(Fault):
    """val_loss += criterion(model(x), y), without no_grad() and without item()."""

    def inject(self, target, fixed):
        count, form, after_step = self.rng.randint(4, 7), self.rng.choice(["sum", "list"]), target.after_step

        def validate():
            total, losses = 0.0, []
            with torch.no_grad() if fixed else contextlib.nullcontext():
                for k in range(count):
                    loss = target.loss(target.batch(k))
                    if form == "sum":
                        total += loss.item() if fixed else loss
                    else:
                        losses.append(loss.item() if fixed else loss)
            return float(total if form == "sum" else sum(losses)) / count

        def after(i, loss):
            after_step(i, loss)
            if i % 2:
                validate()
        target.after_step = after


@fault("retain_graph_and_average", "graph kept", "loop", without=("two optimizers", *WRAPPED))
class RetainGraphAndAverage(Fault):
    """retain_graph=True was the answer to an error once; now the average of the losses keeps every step's graph."""

    def inject(self, target, fixed):
        target.steps, form, state = self.rng.randint(5, 8), self.rng.choice(["total", "list"]), {"total": 0.0, "all": []}

        def backward(loss):
            loss.backward(retain_graph=not fixed)
            if form == "total":
                state["total"] += loss.item() if fixed else loss
            else:
                state["all"].append(loss.item() if fixed else loss)
        target.backward = backward


@fault("train_outputs_for_accuracy", "list of tensors", "loop", "decoder", without=("two optimizers", *WRAPPED))
class TrainOutputsForAccuracy(Fault):
    """all_outputs.append(outputs) in each step, for the accuracy of the epoch; which of the classes is the best would do, on the host."""

    def fits(self, target):
        return super().fits(target) and target.family not in ("several tokens ahead", "groups of answers")  # the model itself is not called

    def inject(self, target, fixed):
        target.steps, outputs = self.rng.randint(9, 12), []

        def collect(output):
            scores = largest_tensor(output)
            if target.model.training and torch.is_grad_enabled() and scores is not None:
                outputs.append(scores.argmax(-1).cpu() if fixed else scores)
        with_output(target, collect)


@fault("validation_with_gradients", "evaluation with a graph", "loop", "eval", without=("two optimizers", "decoder", "pretrained", *WRAPPED))
class ValidationWithGradients(Fault):
    """model.eval() is there, torch.no_grad() is not; the validation's batches are several times as large as those of the training."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        times, after_step = self.rng.choice([4, 6]), target.after_step
        target.size, target.steps = max(4, min(target.size, 16)), 4
        enough_rows(target, target.size * times)
        if not fixed:
            target.no_grad = contextlib.nullcontext

        def after(i, loss):
            after_step(i, loss)
            with other_size(target, target.size * times):
                target.evaluate()
        target.after_step = after


@fault("all_preds_on_gpu", "results kept on the GPU", "loop", "eval", "decoder", without=("two optimizers", *WRAPPED))
class AllPredsOnGpu(Fault):
    """all_preds.append(logits) for each batch of the validation, which is put together when it is over."""

    def inject(self, target, fixed):
        after_step, share = target.after_step, self.rng.uniform(1.0, 1.8)

        def validate():
            preds, size = [], peak()
            for _ in range(24):
                scores = largest_tensor(target.evaluate())
                count = max(6, min(24, int(share * size / scores.nbytes)))
                preds.append(scores.argmax(-1).cpu() if fixed else scores)
                if len(preds) == count:
                    break
            return len(preds)

        def after(i, loss):
            after_step(i, loss)
            if i == 1:
                validate()
        target.after_step = after


@fault("features_of_every_batch", "results kept on the GPU", "inference", without=("generate",))
class FeaturesOfEveryBatch(Fault):
    """features.append(model(x)) over a data set: they stay on the GPU, with a vector for each token."""

    def fits(self, target):
        return super().fits(target) and target.family not in ("drafts", "pictures on request")

    def inject(self, target, fixed):
        features, target.steps = [], self.rng.choice([16, 20, 24])

        def collect(output):
            found = largest_tensor(output)
            if found is not None:
                features.append(found.mean(1).cpu() if fixed else found)

        def last_block():
            layers = blocks(target.model)
            (layers[-1] if layers else target.model).register_forward_hook(lambda module, inputs, output: collect(output))
        if "decoder" in target.traits:
            with_output(target, collect)
        else:
            after_build(target, last_block)


@fault("features_without_no_grad", "features with a graph", "inference", without=("generate",))
class FeaturesWithoutNoGrad(Fault):
    """model.eval(), and then the forward pass: no_grad() is thought to be a part of it."""

    def inject(self, target, fixed):
        target.layers = target.layers * 2 if isinstance(getattr(target, "layers", None), int) else None
        if not fixed:
            target.no_grad = contextlib.nullcontext


@fault("test_loader_batch", "evaluation batch", "loop", "eval", without=("two optimizers", *WRAPPED))
class TestLoaderBatch(Fault):
    """The loader of the tests has a batch size of its own, of several hundred."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        times, after_step = self.rng.choice([24, 32]), target.after_step
        target.size, target.steps = max(4, min(target.size, 8)) // 4 * 4, 3
        enough_rows(target, target.size * times)

        def after(i, loss):
            after_step(i, loss)
            if i != 1:
                return
            if fixed:
                for _ in range(times):
                    target.evaluate()
            else:
                with other_size(target, target.size * times):
                    target.evaluate()
        target.after_step = after


@fault("metrics_over_all_logits", "logits of an evaluation", "trainer", "tokens", without=("forward",))
class MetricsOverAllLogits(Fault):
    """compute_metrics gets the logits of the whole evaluation, which the Trainer puts together on the GPU; preprocess_logits_for_metrics is left out."""

    def fits(self, target):
        return super().fits(target) and target.name in ("trainer", "trl_sft", "adapters_with_trainer", "summaries_with_trainer")

    def inject(self, target, fixed):
        target.steps, target.length, amount, train = 2, min(target.length, 256), self.rng.uniform(2.0, 3.0) * 2 ** 30, target.train
        target.trainer_arguments["per_device_train_batch_size"] = target.trainer_arguments["per_device_eval_batch_size"] = 4

        def prepare():
            trainer, one = target.trainer, 4 * target.length * target.vocabulary * 4
            count = max(6, min(40, int(amount / one)))
            trainer.eval_dataset = torch.utils.data.Subset(trainer.train_dataset, [k % len(trainer.train_dataset) for k in range(4 * count)])
            trainer.compute_metrics = lambda predictions: {"accuracy": 0.5}
            if fixed:
                trainer.preprocess_logits_for_metrics = lambda logits, labels: largest_tensor(logits).argmax(-1)

        def train_and_evaluate():
            train()
            target.trainer.evaluate()
        after_build(target, prepare)
        target.train = train_and_evaluate


@fault("accumulated_by_addition", "losses summed", "loop", without=("two optimizers", *WRAPPED))
class AccumulatedByAddition(Fault):
    """Gradient accumulation as a sum of losses: backward() comes once, after the last of the small batches."""

    def fits(self, target):
        return super().fits(target) and type(target).step is Job.step

    def inject(self, target, fixed):
        target.micro_batches, target.steps = self.rng.choice([4, 6, 8]), 3
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


@fault("distilled_without_no_grad", "teacher not frozen", "loop", without=("two optimizers", "reference", "pretrained", "peft", *WRAPPED))
class DistilledWithoutNoGrad(Fault):
    """A teacher's outputs in the loss: teacher.eval() was called, and its forward pass is recorded as the student's."""

    def fits(self, target):
        return super().fits(target) and "ccelerate" not in target.family + target.name

    def inject(self, target, fixed):
        forward, seen, teachers, weight = target.loss, [], [], self.rng.choice([0.3, 0.5])

        def record(module, arguments, keys, output):
            if module.training and torch.is_grad_enabled():
                seen.append((arguments, keys, largest_tensor(output)))

        def add_teacher():
            teachers.append(copy.deepcopy(target.model).eval())
            for module in teachers[0].modules():
                module.training = isinstance(module, torch.nn.RNNBase)  # of which cuDNN has no backward pass in evaluation
            if fixed:
                teachers[0].requires_grad_(False)
            target.model.register_forward_hook(record, with_kwargs=True)

        def loss_with_teacher(batch):
            loss = forward(batch)
            if not seen:
                return loss
            arguments, keys, student = seen[-1]
            seen.clear()
            with torch.autocast("cuda", torch.bfloat16, enabled=getattr(target, "precision", "") == "autocast"):
                with torch.no_grad() if fixed else contextlib.nullcontext():
                    wanted = largest_tensor(teachers[0](*arguments, **keys))
            return loss + weight * (student.float().mean() - wanted.float().mean()) ** 2
        after_build(target, add_teacher)
        target.loss = loss_with_teacher


@fault("weights_of_each_epoch", "copies of the model kept", "loop", without=("two optimizers", "peft", *WRAPPED))
class WeightsOfEachEpoch(Fault):
    """The weights after each epoch are kept, as deep copies of state_dict(), on the GPU; only the last ones are wanted, on the host."""

    def fits(self, target):
        return super().fits(target) and bool({"tokens", "decoder"} & target.traits)

    def inject(self, target, fixed):
        small_batches(target, self.rng)
        if "layers" in target.traits:
            target.layers *= 2
        target.steps, history, form, after_step = self.rng.randint(8, 11), [], self.rng.choice(["deepcopy", "clone"]), target.after_step

        def after(i, loss):
            after_step(i, loss)
            weights = target.model.state_dict()
            if fixed:
                history[:] = [{k: v.cpu() for k, v in weights.items()}]
            else:
                history.append(copy.deepcopy(weights) if form == "deepcopy" else {k: v.clone() for k, v in weights.items()})
        target.after_step = after


@fault("model_of_each_learning_rate", "earlier runs kept", "loop", "states", without=("two optimizers", "peft", *WRAPPED))
class ModelOfEachLearningRate(Fault):
    """A loop over learning rates: each run's model and optimizer stay in the dict of results."""

    def fits(self, target):
        return super().fits(target) and type(target).run is Job.run and type(target).train is Job.train

    def inject(self, target, fixed):
        small_batches(target, self.rng)
        target.steps, rates, results = 2, [1e-3, 3e-4, 1e-4, 3e-5][:self.rng.choice([3, 4])], {}

        def run():
            for rate in rates:
                target.build()
                target.train()
                results[rate] = {"loss": 0.0} if fixed else {"loss": 0.0, "model": target.model, "optimizer": target.optimizers}
                target.model, target.optimizers = None, []
                gc.collect()
        target.run = run


@fault("all_prompts_at_once", "KV cache", "generate")
class AllPromptsAtOnce(Fault):
    """generate() with all prompts of a test set as one batch."""

    def inject(self, target, fixed):
        times, size = self.rng.choice([6, 8]), max(8, min(target.size, 32))
        target.new_tokens = min(target.new_tokens, 8)
        target.size, target.steps = (size, times) if fixed else (size * times, 1)

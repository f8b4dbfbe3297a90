"""Mistakes of sizes and states: views in one batch, data padded in advance, pictures, leftovers, modes, batches in a list, snapshots, averages, neighbours."""
import collections
import dataclasses
import gc
import io

import torch
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers.trainer_utils import IntervalStrategy

from amounts import after_build, light, mapped, peak, sized
from core import DEVICE, Fault, fault
from faults_common_r import WRAPPED, at_most
from faults_common_s_more import number, whole_activations, whole_weights

ALONE = (*WRAPPED, "two optimizers", "pretrained", "peft", "reference")


@dataclasses.dataclass
class Fold:
    """What a fold of a cross-validation leaves."""
    number: int
    score: float
    model: object = None
    schedulers: tuple = ()


@fault("t_views_in_a_batch", "batch too large", "loop", "layers", without=ALONE)
class ViewsInABatch(Fault):
    """Each example is in the batch with all of its augmentations, where one after the other, and gradients accumulated, would do."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        views, each = self.rng.choice([6, 8, 10]), self.rng.choice([6, 8]) if "images" in target.traits else self.rng.choice([2, 3])
        whole_activations(target, views * each, 384)
        target.steps = 3
        if fixed:
            target.size, target.micro_batches = each, views


@fault("t_padded_in_advance", "padding", "loop", "tokens", "layers", without=WRAPPED)
class PaddedInAdvance(Fault):
    """The data were tokenized once, all of them padded to the longest text of the whole set; each batch's own longest text has a part of that."""

    def fits(self, target):
        return super().fits(target) and number(target, "length") and number(target, "size")

    def inject(self, target, fixed):
        longest, batch = self.rng.choice([768, 1024]), target.batch
        own = [longest // self.rng.choice([4, 6, 8]) // 16 * 16 for _ in range(16)]
        whole_activations(target, self.rng.choice([8, 12]), longest, 32000)
        target.length = longest

        def collated(i):
            end = own[i % len(own)]
            return mapped(batch(i), lambda t: t[:, :end].contiguous() if t.dim() > 1 and t.shape[1] == longest else t)
        if fixed:
            target.batch = collated


@fault("t_crop_of_the_large_model", "pictures too large", "loop", "images", without=(*WRAPPED, "two optimizers"))
class CropOfTheLargeModel(Fault):
    """The transform is that of the next larger model of a family, whose crops have twice the side."""

    def fits(self, target):
        return super().fits(target) and number(target, "pixels") and target.pixels % 64 == 0

    def inject(self, target, fixed):
        crops, chosen = {"base": target.pixels // 2, "large": target.pixels}, "base" if fixed else "large"
        at_most(target, size=self.rng.choice([12, 20, 28]))
        if "checkpointing" in target.traits:
            target.checkpointing = False
        target.pixels = crops[chosen]


@fault("t_leftovers", "larger batch", "loop", "dataset", without=ALONE)
class Leftovers(Fault):
    """The sampler puts what is left of an epoch into its last batch, which has several times as many examples as all others."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        epoch, times, batch = self.rng.choice([3, 4]), self.rng.choice([4, 5, 6]), target.batch
        whole_activations(target, self.rng.choice([4, 6, 8]), 384)
        target.steps = epoch + self.rng.choice([0, 1])
        if number(target, "rows"):
            target.rows = max(target.rows, 2 * times * target.size)

        def sampled(i):
            each = target.size
            if i == epoch - 1 and not fixed:
                target.size = times * each
            try:
                return batch(i)
            finally:
                target.size = each
        target.batch = sampled


@fault("t_eval_batch_in_arguments", "evaluation batch", "trainer", "decoder", "tokens", without=("forward",))
class EvalBatchInArguments(Fault):
    """per_device_eval_batch_size is many times the training's; an evaluation has no gradients, but it has logits."""

    def fits(self, target):
        return super().fits(target) and target.name != "classifier_with_trainer" and "trl" not in target.name  # of which the former has no logits of words

    def inject(self, target, fixed):
        times, when = self.rng.choice([24, 32]), self.rng.choice([1, 2, 3])
        at_most(target, size=2, length=256, layers=4)
        target.vocabulary = self.rng.choice([32000, 50304])

        def arguments():
            trainer = target.trainer
            trainer.args.eval_strategy, trainer.args.eval_steps = IntervalStrategy.STEPS, when
            trainer.args.per_device_eval_batch_size = (1 if fixed else times) * target.size
            trainer.eval_dataset = torch.utils.data.Subset(trainer.train_dataset, range(min(len(trainer.train_dataset), times * target.size)))
        after_build(target, arguments)


@fault("t_left_in_eval_mode", "recomputation off", "loop", "layers", "checkpointing", without=WRAPPED)
class LeftInEvalMode(Fault):
    """After a first validation the model stays in evaluation mode, in which its layers do not use checkpointing; it was asked for."""

    def inject(self, target, fixed):
        step, first = target.step, self.rng.choice([0, 1])
        target.layers, target.checkpointing, target.micro_batches = self.rng.choice([8, 10]), True, 1
        at_most(target, width=768, vocabulary=8000, length=512, size=self.rng.choice([12, 16]))

        def in_mode(i):
            target.model.train(fixed or i < first)
            for part in target.model.modules():
                if isinstance(part, torch.nn.RNNBase):
                    part.train()  # cuDNN has no backward pass for it otherwise
            return step(i)
        target.step = in_mode


@fault("t_autocast_of_the_host", "no mixed precision", "loop", "layers", without=ALONE)
class AutocastOfTheHost(Fault):
    """with torch.autocast("cpu", torch.bfloat16), as an example for the host has it: on the GPU everything stays in 32 bits."""

    def fits(self, target):
        return super().fits(target) and sized(target) and "autocast" in getattr(target, "precisions", ()) and "accelerate" not in target.name

    def inject(self, target, fixed):
        whole_activations(target, self.rng.choice([56, 64]) if "images" in target.traits else self.rng.choice([40, 48]), 512, 4000)
        at_most(target, width=512, layers=4)
        target.precision, kind = "autocast", DEVICE if fixed else "cpu"
        target.autocast = lambda: torch.autocast(kind, dtype=torch.bfloat16)


@fault("t_batches_in_a_list", "data moved to the GPU", "loop", "images", without=(*WRAPPED, "two optimizers"))
class BatchesInAList(Fault):
    """batches = [to_device(b) for b in loader], so that reading does not cost time in each epoch: all data are on the GPU."""

    def inject(self, target, fixed):
        amount, form = self.rng.uniform(2.0, 3.5), self.rng.choice(["list", "dict"])
        at_most(target, size=self.rng.choice([8, 16]))

        def read_all():
            batch, sizes = target.batch, []
            mapped(batch(0), lambda t: sizes.append(t.numel() * t.element_size()))
            count = min(400, int(amount * 2 ** 30 / sum(sizes)) + 1)
            batches = [batch(k) for k in range(count)] if form == "list" else {k: batch(k) for k in range(count)}
            target.batch = lambda i: batches[i % count]
        if not fixed:
            after_build(target, read_all)


@fault("t_soup", "loaded checkpoint", "loop", "tokens", "layers", without=ALONE)
class Soup(Fault):
    """The training starts from the mean of several checkpoints, each read onto the GPU; their list stays as long as the program."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        ingredients, where = self.rng.choice([3, 4, 5]), "cpu" if fixed else self.rng.choice([DEVICE, "cuda:0"])
        whole_weights(target, self.rng)

        def read(name, weights):
            file = io.BytesIO()
            torch.save({"name": name, "state_dict": weights}, file)
            file.seek(0)
            return torch.load(file, map_location=where)

        def cook():
            own = {k: torch.zeros(v.shape, dtype=v.dtype) for k, v in target.model.state_dict().items()}
            target.ingredients = [read("run-%d" % n, own) for n in range(ingredients)]
            mean = {}
            for key, value in own.items():
                parts = [read_one["state_dict"][key] for read_one in target.ingredients]
                mean[key] = sum(part / ingredients for part in parts) if value.is_floating_point() else parts[0]
            target.model.load_state_dict(mean)
        after_build(target, cook)


@fault("t_rollback", "copies of the model kept", "loop", "layers", without=(*WRAPPED, "two optimizers", "images"))
class Rollback(Fault):
    """The weights of the last steps wait in a deque, to go back if the loss explodes; on the GPU, where the host has room."""

    def inject(self, target, fixed):
        back, form, every, after_step = self.rng.choice([4, 5, 6]), self.rng.choice(["clones", "list"]), self.rng.choice([1, 2]), target.after_step
        target.steps, snapshots = every * self.rng.randint(5, 7), collections.deque(maxlen=back)
        light(target, self.rng)

        @torch.no_grad()
        def snapshot(i, loss):
            after_step(i, loss)
            if i % every:
                return
            if fixed:
                snapshots.append([p.to("cpu", copy=True) for p in target.model.parameters()])
            elif form == "list":
                snapshots.append([p.clone() for p in target.model.parameters()])
            else:
                snapshots.append({"step": i, "weights": {name: value.clone() for name, value in target.model.state_dict().items()}})
        target.after_step = snapshot


@fault("t_folds", "earlier runs kept", "loop", "layers", without=(*WRAPPED, "two optimizers"))
class Folds(Fault):
    """Cross-validation: what is kept of each fold, for a vote at the end, has its model, and a scheduler, which has the optimizer."""

    def inject(self, target, fixed):
        count, with_schedulers, folds = self.rng.choice([3, 4, 5]), self.rng.random() < 0.6, []
        light(target, self.rng)
        target.steps = 2

        def cross_validate():
            for k in range(count):
                target.build()
                schedulers = tuple(torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.9 ** epoch) for optimizer in target.optimizers)
                target.train()
                folds.append(Fold(k, 0.1 * k) if fixed else Fold(k, 0.1 * k, target.model, schedulers if with_schedulers else ()))
                target.model, target.optimizers, schedulers = None, [], ()
                gc.collect()
            target.mean_score = sum(fold.score for fold in folds) / count
        target.run = cross_validate


@fault("t_groups_of_decay", "optimizer states", "loop", "tokens", "layers", without=ALONE)
class GroupsOfDecay(Fault):
    """AdamW with a group of parameters that decay and one of those that do not: two states for each; there is room for an optimizer without states."""

    def fits(self, target):
        return super().fits(target) and sized(target) and hasattr(target, "kinds")

    def inject(self, target, fixed):
        whole_weights(target, self.rng)
        target.clip, target.micro_batches = 0, 1
        kind, each = self.rng.choice([torch.optim.AdamW, torch.optim.NAdam]), self.rng.random() < 0.5

        def configure():
            own = [p for p in target.model.parameters() if p.requires_grad]
            decayed, others = [p for p in own if p.dim() > 1], [p for p in own if p.dim() < 2]
            groups = [{"params": part, "weight_decay": decay} for part, decay in ((decayed, 0.1), (others, 0.0)) if part]
            target.optimizers = [torch.optim.SGD(groups, lr=0.02, foreach=False) if fixed else kind(groups, lr=3e-4, foreach=False if each else None)]
        after_build(target, configure)


@fault("t_two_averages", "second model", "loop", "tokens", "layers", without=ALONE)
class TwoAverages(Fault):
    """AveragedModel of torch.optim.swa_utils, of two decays to compare them: two more models on the GPU, where device="cpu" would do."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        decays, averages, optimize = self.rng.choice([(0.99, 0.999), (0.999, 0.9999)]), [], target.optimize
        whole_weights(target, self.rng)

        def start():
            for decay in decays:
                averages.append(AveragedModel(target.model, device="cpu" if fixed else DEVICE, multi_avg_fn=get_ema_multi_avg_fn(decay)))

        def and_average():
            optimize()
            for average in averages:
                average.update_parameters(target.model)
        after_build(target, start)
        target.optimize = and_average


@fault("t_double_as_advised", "double precision", "loop", "images", without=ALONE)
class DoubleAsAdvised(Fault):
    """"expected scalar type Float but found Double": the data came from numpy, and model.double() made the error go away."""

    def fits(self, target):
        return super().fits(target) and "fp32" in getattr(target, "precisions", ())

    def inject(self, target, fixed):
        target.precision, form, batch = "fp32", self.rng.choice(["double", "to"]), target.batch
        at_most(target, size=self.rng.choice([12, 16]))

        def advised():
            torch.set_default_dtype(torch.float64)
            if form == "double":
                target.model.double()
            else:
                target.model.to(dtype=torch.float64)
        if not fixed:
            after_build(target, advised)
            target.batch = lambda i: mapped(batch(i), lambda t: t.double() if t.is_floating_point() else t)


@fault("t_all_neighbours", "one huge temporary", "loop", without=WRAPPED)
class AllNeighbours(Fault):
    """The nearest neighbours of all features in a bank: similarities of all pairs in one matrix; fixed: some rows of it at a time."""

    def inject(self, target, fixed):
        share, width, k, form, forward = self.rng.uniform(0.7, 1.3), self.rng.choice([64, 128]), 5, self.rng.choice(["similar", "weighted"]), target.loss
        banks = []

        def neighbours(some, bank):
            similar = some @ bank.T
            return similar.div(0.07).exp().topk(k) if form == "weighted" else similar.topk(k)

        @torch.no_grad()
        def mine():
            if not banks:
                banks.append(F.normalize(torch.ones(int((share * peak() / 4) ** 0.5), width, device=DEVICE), dim=1))
            bank = banks[0]
            parts = bank.chunk(32) if fixed else [bank]
            return torch.cat([neighbours(part, bank).indices for part in parts])

        def loss_and_mining(batch):
            loss = forward(batch)
            target.hardest = mine()
            return loss
        target.loss = loss_and_mining

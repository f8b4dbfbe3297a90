"""Mistakes of sizes and states: what a batch size means, buckets, one user, crops, sections of a config, defaults, rewinding, shadows, anchors."""
import io

import torch

from amounts import after_build, light, mapped, peak, sized
from core import DEVICE, Fault, fault
from faults_common_r import WRAPPED, at_most
from faults_common_s_more import number, whole_activations, whole_weights

ALONE = (*WRAPPED, "two optimizers", "pretrained", "peft", "reference")


class Resumed:
    """What is needed to go on with a training: it is read when this is made, and asked for one part after the other."""

    def __init__(self, file, where):
        self.checkpoint = torch.load(file, map_location=where)

    def into(self, model):
        model.load_state_dict(self.checkpoint["state_dict"])

    @property
    def first_epoch(self):
        return self.checkpoint["epoch"] + 1


class Shadow:
    """Moving averages of all weights, by their names; apply() and restore() exchange them with those that are trained."""

    def __init__(self, model, decay, where):
        self.model, self.decay, self.where, self.values, self.backup = model, decay, where, {}, {}

    def register(self):
        self.values = {name: p.detach().to(self.where, copy=True) for name, p in self.model.named_parameters() if p.requires_grad}

    @torch.no_grad()
    def update(self):
        for name, p in self.model.named_parameters():
            if name in self.values:
                self.values[name].mul_(self.decay).add_(p.detach().to(self.where), alpha=1 - self.decay)

    @torch.no_grad()
    def apply(self):
        for name, p in self.model.named_parameters():
            if name in self.values:
                self.backup[name] = p.detach().to(self.where, copy=True)
                p.copy_(self.values[name])

    @torch.no_grad()
    def restore(self):
        for name, p in self.model.named_parameters():
            if name in self.backup:
                p.copy_(self.backup[name])
        self.backup = {}


@fault("v_two_meanings_of_a_batch", "batch too large", "loop", "layers", without=ALONE)
class TwoMeaningsOfABatch(Fault):
    """train_batch_size of a config is that of a step of the optimizer; the loader takes it for that of one pass, and gradients are not accumulated."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        each = self.rng.choice([6, 8, 10]) if "images" in target.traits else self.rng.choice([2, 3])
        config = {"gradient_accumulation_steps": self.rng.choice([4, 6, 8]), "micro_batch_size": each}
        config["train_batch_size"] = each * config["gradient_accumulation_steps"]
        whole_activations(target, config["train_batch_size"], 384)
        target.steps = 3
        if fixed:
            target.size, target.micro_batches = config["micro_batch_size"], config["train_batch_size"] // config["micro_batch_size"]


@fault("v_coarse_buckets", "padding", "loop", "tokens", "layers", without=WRAPPED)
class CoarseBuckets(Fault):
    """Rows are padded to the next of two lengths, so that a compiler sees few shapes; most texts are a little too long for the short one."""

    def fits(self, target):
        return super().fits(target) and number(target, "length") and number(target, "size") and target.name != "ppo"  # whose answers have a length of their own

    def inject(self, target, fixed):
        longest, batch = self.rng.choice([768, 1024]), target.batch
        short = longest // 8
        texts = [short + self.rng.randint(4, short) for _ in range(10)]
        whole_activations(target, self.rng.choice([10, 14]), longest, 32000)
        target.length, buckets = longest, range(short, longest + 1, short // 2) if fixed else (short, longest)

        def padded(i):
            end = min(bucket for bucket in buckets if bucket >= texts[i % len(texts)])
            return mapped(batch(i), lambda t: t[:, :end].contiguous() if t.dim() > 1 and t.shape[1] == longest else t)
        target.batch = padded


@fault("v_one_user", "larger batch", "loop", "dataset", without=ALONE)
class OneUser(Fault):
    """A batch has all examples of a user, whatever their number is; one user has many times as many as the others."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        usual_number, most = self.rng.choice([4, 6]), self.rng.choice([24, 32, 40])
        where, batch = self.rng.choice([2, 3]), target.batch
        whole_activations(target, usual_number, 384)
        users = [self.rng.randint(usual_number - 2, usual_number) for _ in range(8)]
        users[where], target.steps = most, where + self.rng.choice([1, 2])
        if number(target, "rows"):
            target.rows = max(target.rows, 2 * most)

        def of_user(i):
            own, target.size = target.size, min(users[i % len(users)], usual_number if fixed else most)
            try:
                return batch(i)
            finally:
                target.size = own
        target.batch = of_user


@fault("v_many_crops", "evaluation batch", "loop", "eval", "images", without=(*WRAPPED, "two optimizers"))
class ManyCrops(Fault):
    """TenCrop() in the evaluation: all crops of all its pictures are one batch, where the training has a few pictures; fixed: one crop after the other."""

    def fits(self, target):
        return super().fits(target) and number(target, "size")

    def inject(self, target, fixed):
        crops, pictures, evaluate = self.rng.choice([9, 10, 12]), self.rng.choice([12, 16]), target.evaluate
        at_most(target, size=4)
        target.micro_batches, target.evaluated = 1, self.rng.choice([1, 2])
        if number(target, "rows"):
            target.rows = max(target.rows, crops * pictures)

        def of_all_crops():
            trained, outputs = target.size, None
            for _ in range(3 if fixed else 1):
                target.size = pictures if fixed else crops * pictures
                try:
                    outputs = evaluate()
                finally:
                    target.size = trained
            return outputs
        target.evaluate = of_all_crops


@fault("v_section_of_a_config", "recomputation off", "loop", "layers", "checkpointing", without=WRAPPED)
class SectionOfAConfig(Fault):
    """gradient_checkpointing: true stands in the section of the trainer, and the code that builds the model asks its own section, with False as a default."""

    def inject(self, target, fixed):
        config = {"trainer": {"accumulate": 1}, "model": {"layers": self.rng.choice([8, 10])}}
        config["model" if fixed else "trainer"]["gradient_checkpointing"] = True
        target.layers, target.micro_batches = config["model"]["layers"], config["trainer"]["accumulate"]
        at_most(target, width=768, vocabulary=4000, length=512, size=self.rng.choice([12, 16]))
        target.checkpointing = config["model"].get("gradient_checkpointing", False)


@fault("v_autocast_like_the_scaler", "no mixed precision", "loop", "layers", without=(*ALONE, "decoder"))
class AutocastLikeTheScaler(Fault):
    """torch.autocast(..., enabled=scaler.is_enabled()): bfloat16 needs no scaler, which was therefore switched off, and autocast with it."""

    def fits(self, target):
        return super().fits(target) and sized(target) and "autocast" in getattr(target, "precisions", ()) and "accelerate" not in target.name

    def inject(self, target, fixed):
        whole_activations(target, self.rng.choice([40, 56]) if "images" in target.traits else self.rng.choice([28, 40]), 512, 4000)
        at_most(target, width=512, layers=4)
        target.precision, optimize = "autocast", target.optimize
        scaler = torch.amp.GradScaler(DEVICE, enabled=False)

        def unscaled():
            for optimizer in target.optimizers:
                scaler.unscale_(optimizer)
            optimize()
            scaler.update()
        target.autocast = lambda: torch.autocast(DEVICE, torch.bfloat16, enabled=fixed or scaler.is_enabled())
        target.backward, target.optimize = lambda loss: scaler.scale(loss).backward(), unscaled


@fault("v_default_device", "data moved to the GPU", "loop", "dataset", without=(*WRAPPED, "two optimizers"))
class DefaultDevice(Fault):
    """torch.set_default_device("cuda") at the top of a script, for the model; the tensors of the data set, which are made later, are there as well."""

    def inject(self, target, fixed):
        amount, form = self.rng.uniform(2.0, 3.5), self.rng.choice(["whole", "shards"])
        at_most(target, size=8)

        def read():
            row = sum(t[0].numel() * t.element_size() for t in target.dataset)
            rows = max(int(amount * 2 ** 30 / row) + 1, len(target.dataset[0]))
            torch.set_default_device("cpu" if fixed else DEVICE)
            if form == "whole":
                target.dataset = tuple(torch.zeros(rows, *t.shape[1:], dtype=t.dtype) for t in target.dataset)
            else:
                shards = [tuple(torch.zeros(rows // 4 + 1, *t.shape[1:], dtype=t.dtype) for t in target.dataset) for _ in range(4)]
                target.shards, target.dataset = shards, shards[0]
            torch.set_default_device(None)
        after_build(target, read)


@fault("v_resumed", "loaded checkpoint", "loop", "tokens", "layers", without=ALONE)
class ResumedAndKept(Fault):
    """An object reads a checkpoint, to the GPU where it was saved; it is asked for its epoch in every step, and so has the weights and states all the time."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        where, moments, after_step = "cpu" if fixed else self.rng.choice([DEVICE, "cuda:0"]), self.rng.choice([1, 2]), target.after_step
        whole_weights(target, self.rng)

        def resume():
            own = {k: torch.zeros(v.shape, dtype=v.dtype) for k, v in target.model.state_dict().items()}
            states = [{k: v.clone() for k, v in own.items()} for _ in range(moments)]
            file = io.BytesIO()
            torch.save({"state_dict": own, "moments": states, "epoch": 3}, file)
            file.seek(0)
            target.resumed = Resumed(file, where)
            target.resumed.into(target.model)

        def note(i, loss):
            after_step(i, loss)
            target.epoch = target.resumed.first_epoch + i
        after_build(target, resume)
        target.after_step = note


@fault("v_rewinding", "copies of the model kept", "loop", "layers", without=(*WRAPPED, "two optimizers", "images"))
class Rewinding(Fault):
    """Weights at many points of a training, to rewind to the best of them after pruning: clones in a dict, where the model is."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        points, form, after_step = self.rng.randint(4, 6), self.rng.choice(["state_dict", "trained"]), target.after_step
        target.steps, target.rewind = points + self.rng.choice([0, 1]), {}
        light(target, self.rng)

        def remember(i, loss):
            after_step(i, loss)
            if i >= points:
                return
            named = target.model.state_dict() if form == "state_dict" else dict(target.model.named_parameters())
            target.rewind["step %d" % i] = {name: value.detach().cpu() if fixed else value.detach().clone() for name, value in named.items()}
        target.after_step = remember


@fault("v_shadow", "second model", "loop", "eval", "tokens", "layers", without=ALONE)
class ShadowAndBackup(Fault):
    """Averages of all weights by the class that everybody copies: a shadow on the GPU, and a backup beside it during each evaluation; the host has room."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        decay, often, shadows = self.rng.choice([0.99, 0.999, 0.9999]), self.rng.choice([1, 2]), []
        optimize, after_step = target.optimize, target.after_step
        whole_weights(target, self.rng)
        target.layers = max(target.layers, 10)

        def start():
            shadows.append(Shadow(target.model, decay, "cpu" if fixed else DEVICE))
            shadows[0].register()

        def and_update():
            optimize()
            shadows[0].update()

        def evaluated(i, loss):
            after_step(i, loss)
            if (i + 1) % often == 0:
                shadows[0].apply()
                target.score = target.evaluate().float().mean().item()
                shadows[0].restore()
        after_build(target, start)
        target.optimize, target.after_step = and_update, evaluated


@fault("v_boxes_and_anchors", "one huge temporary", "loop", without=WRAPPED)
class BoxesAndAnchors(Fault):
    """Which anchor is nearest to each box, by the overlap of all pairs at once; corners of all overlaps are in one tensor. Fixed: some boxes at a time."""

    def inject(self, target, fixed):
        share, form, forward, sets = self.rng.uniform(0.7, 1.3), self.rng.choice(["corners", "generalized"]), target.loss, []

        def overlaps(some, anchors):
            left, right = torch.maximum(some[:, None, :2], anchors[:, :2]), torch.minimum(some[:, None, 2:], anchors[:, 2:])
            common = (right - left).clamp(min=0).prod(-1)
            areas = [(b[:, 2:] - b[:, :2]).prod(-1) for b in (some, anchors)]
            whole = areas[0][:, None] + areas[1] - common
            if form == "corners":
                return common / whole
            hull = (torch.maximum(some[:, None, 2:], anchors[:, 2:]) - torch.minimum(some[:, None, :2], anchors[:, :2])).prod(-1)
            return common / whole - (hull - whole) / hull

        @torch.no_grad()
        def matched():
            if not sets:
                sets.append(torch.ones(max(64, int((share * peak() / 16) ** 0.5)), 4, device=DEVICE))
            boxes = sets[0]
            return torch.cat([overlaps(part, boxes).argmax(1) for part in (boxes.chunk(32) if fixed else [boxes])])

        def loss_and_match(batch):
            loss = forward(batch)
            target.nearest = matched()
            return loss
        target.loss = loss_and_match

"""More of what is told often: data and models that stay on the GPU, what a trainer collects, attention by hand, types that are too large."""
import copy
import gc
import os
import tempfile

import torch
import torch.nn as nn
from transformers.trainer_utils import IntervalStrategy

from amounts import after_build, largest_tensor, light, peak
from core import DEVICE, Fault, fault
from faults_common_p import WRAPPED, whole
from jobs_images import ImageLoop
from parts import Loop


def few_rows(target, rng):
    """Small batches, of two rows at least, which norms over a batch need."""
    light(target, rng)
    if whole(target, "size"):
        target.size = max(2, target.size)


@fault("p_data_to_gpu", "data moved to the GPU", "loop", "dataset", without=WRAPPED)
class DataToGpu(Fault):
    """The whole training set is moved to the GPU before the first epoch."""

    def fits(self, target):
        return super().fits(target) and whole(target, "size")

    def inject(self, target, fixed):
        few_rows(target, self.rng)
        much = self.rng.uniform(1.0, 1.6) * (1 << 30)

        def move():
            rows = target.dataset
            amount = int((much + 1.5 * peak()) / sum(t[:1].nbytes for t in rows))
            device = "cpu" if fixed else DEVICE
            target.dataset = tuple(t[:1].expand(amount, *t.shape[1:]).to(device) for t in rows)
        after_build(target, move)


@fault("p_checkpoint_stays", "loaded checkpoint", "loop", "tokens", "layers", without=(*WRAPPED, "peft", "pretrained"))
class CheckpointStays(Fault):
    """checkpoint = torch.load(path, map_location="cuda"), with the model and its average, and the name stays; fixed: on the CPU, and deleted."""

    def inject(self, target, fixed):
        few_rows(target, self.rng)
        target.layers *= 2
        if whole(target, "vocabulary"):
            target.vocabulary = min(target.vocabulary, 16000)
        form = self.rng.choice(["attribute", "dict"])
        self.kept = {}

        def resume():
            weights = target.model.state_dict()
            with tempfile.TemporaryDirectory() as directory:
                path = os.path.join(directory, "last.pt")
                torch.save({"model": weights, "ema": copy.deepcopy({k: v.cpu() for k, v in weights.items()}), "epoch": 3}, path)
                del weights
                checkpoint = torch.load(path, map_location="cpu" if fixed else DEVICE)
            target.model.load_state_dict(checkpoint["model"])
            if fixed:
                return
            if form == "attribute":
                target.checkpoint = checkpoint
            else:
                self.kept["checkpoint"] = checkpoint
        after_build(target, resume)


@fault("p_models_of_folds", "earlier runs kept", "loop", "tokens", "layers", "states", without=(*WRAPPED, "reference"))
class ModelsOfFolds(Fault):
    """Cross-validation: a list of the models of all folds; fixed: their weights on the host."""

    def inject(self, target, fixed):
        few_rows(target, self.rng)
        target.layers *= 2
        target.steps, folds = 2, self.rng.randint(3, 5)
        form, models = self.rng.choice(["models", "models", "results"]), []

        def run():
            for fold in range(folds):
                target.build()
                target.train()
                if fixed:
                    models[:] = [{k: v.cpu() for k, v in target.model.state_dict().items()}]
                    target.model, target.optimizers = None, []
                    gc.collect()
                elif form == "models":
                    models.append(target.model)
                else:
                    models.append({"fold": fold, "model": target.model, "optimizer": target.optimizers})
        target.run = run


@fault("p_cell_run_twice", "earlier runs kept", "loop", "tokens", "layers", "states", without=(*WRAPPED, "reference"))
class CellRunTwice(Fault):
    """The cell of a notebook that makes a model and trains it is run again under another name; the first one is still there."""

    def inject(self, target, fixed):
        few_rows(target, self.rng)
        target.layers *= 2
        target.steps, namespace = self.rng.randint(2, 4), {}

        def run():
            target.build()
            target.train()
            if not fixed:
                namespace["model"], namespace["optimizer"] = target.model, target.optimizers
            target.model, target.optimizers = None, []
            gc.collect()
            target.build()
            target.train()
        target.run = run


@fault("p_best_models", "copies of the model kept", "loop", "tokens", "layers", without=(*WRAPPED, "reference"))
class BestModels(Fault):
    """best_models.append(copy.deepcopy(model)) after each epoch; fixed: the last one's weights, on the host."""

    def inject(self, target, fixed):
        few_rows(target, self.rng)
        target.steps, form = self.rng.randint(5, 7), self.rng.choice(["model", "state_dict", "by epoch"])
        best, by_epoch, after_step = [], {}, target.after_step

        def keep(i, loss):
            after_step(i, loss)
            if fixed:
                best[:] = [{k: v.cpu() for k, v in target.model.state_dict().items()}]
            elif form == "model":
                best.append(copy.deepcopy(target.model))
            elif form == "state_dict":
                best.append(copy.deepcopy(target.model.state_dict()))
            else:
                by_epoch[i] = {k: v.clone() for k, v in target.model.state_dict().items()}
        target.after_step = keep


@fault("p_attention_by_hand", "attention scores", "loop", "attention", "tokens", without=WRAPPED)
class AttentionByHand(Fault):
    """Long texts, and attention that writes all scores down; fixed: scaled_dot_product_attention()."""

    def fits(self, target):
        return super().fits(target) and whole(target, "length") and whole(target, "size")

    def inject(self, target, fixed):
        target.length, target.size = self.rng.choice([1024, 1536, 2048]), 2 if target.layers <= 6 else 1
        target.steps = self.rng.randint(2, 4)
        target.attention = "sdpa" if fixed else "eager"
        if "checkpointing" in target.traits:
            target.checkpointing = False


@fault("p_trainer_logits", "logits of an evaluation", "trainer", "decoder", without=("forward", "reference"))
class TrainerLogits(Fault):
    """compute_metrics makes the trainer keep the logits of the whole evaluation; fixed: preprocess_logits_for_metrics keeps the best token."""

    def fits(self, target):
        return super().fits(target) and target.name not in ("classifier_with_trainer", "trl_dpo", "trl_reward")  # which have other outputs

    def inject(self, target, fixed):
        batches = self.rng.randint(24, 32)
        target.length, target.steps = self.rng.choice([128, 256]), 4
        target.trainer_arguments.update(per_device_train_batch_size=2, per_device_eval_batch_size=2, gradient_accumulation_steps=1)

        def accuracy(prediction):
            predictions = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
            return {"rows": float(len(predictions))}

        def largest(logits, labels):
            return (logits[0] if isinstance(logits, tuple) else logits).argmax(-1)

        def collect():
            target.trainer.compute_metrics = accuracy
            if fixed:
                target.trainer.preprocess_logits_for_metrics = largest
            target.trainer.args.eval_strategy, target.trainer.args.eval_steps = IntervalStrategy.STEPS, 2
            data = target.trainer.train_dataset
            target.trainer.eval_dataset = torch.utils.data.Subset(data, [k % len(data) for k in range(2 * batches)])
        after_build(target, collect)


@fault("p_validation_step_outputs", "list of tensors", "lightning", "tokens")
class ValidationStepOutputs(Fault):
    """self.validation_step_outputs.append(logits), and nothing clears the list when the epoch is over."""

    def inject(self, target, fixed):
        target.steps = self.rng.randint(10, 14)
        target.trainer_arguments.update(val_check_interval=1, accumulate_grad_batches=1, max_steps=target.steps)

        def collect():
            module, last = target.module, []
            module.validation_step_outputs = []
            step = module.validation_step
            target.model.register_forward_hook(lambda m, inputs, output: last.__setitem__(slice(None), [largest_tensor(output)]))

            def validation_step(batch, batch_idx):
                result = step(batch, batch_idx)
                logits = last.pop()
                module.validation_step_outputs.append(logits.argmax(-1).cpu() if fixed else logits)
                return result
            module.validation_step = validation_step
        after_build(target, collect)


@fault("p_head_in_optimizer", "base not frozen", "loop", "layers", without=(*WRAPPED, "pretrained", "peft", "reference"))
class HeadInOptimizer(Fault):
    """Only the last layers are given to the optimizer, and requires_grad of the others is not touched; fixed: it is False."""

    def inject(self, target, fixed):
        last = self.rng.choice([1, 2, 4])

        def choose():
            named = [(n, p) for n, p in target.model.named_parameters() if p.requires_grad]
            head = [p for _, p in named[-last:]]
            if fixed:
                for _, p in named[:-last]:
                    p.requires_grad = False
            target.optimizers = [torch.optim.Adam(head, lr=1e-3)]
        after_build(target, choose)


@fault("p_all_pairs", "one huge temporary", "loop", without=WRAPPED)
class AllPairs(Fault):
    """((x[:, None] - x[None]) ** 2).sum(-1), of the vectors of a memory bank; fixed: torch.cdist()."""

    def inject(self, target, fixed):
        width, share, first = self.rng.choice([64, 128, 256]), self.rng.uniform(0.8, 1.5), self.rng.randint(1, 2)
        forward, state, step = target.loss, {}, target.step
        target.steps = self.rng.randint(4, 6)
        form = self.rng.choice(["power", "norm"])

        def spread(x):
            if fixed:
                return torch.cdist(x, x).mean()
            if form == "power":
                return ((x[:, None] - x[None]) ** 2).sum(-1).mean()
            return (x.unsqueeze(1) - x.unsqueeze(0)).norm(dim=-1).mean()

        def loss_with_pairs(batch):
            loss = forward(batch)
            if "bank" not in state:
                return loss
            return loss + 0.01 * spread(state["project"](state["bank"]))

        def step_with_pairs(i):
            if i == first:
                count = min(5000, max(64, int((share * peak() / (4 * width)) ** 0.5)))
                state["project"], state["bank"] = nn.Linear(width, width, device=DEVICE), torch.zeros(count, width, device=DEVICE)
            return step(i)
        target.loss, target.step = loss_with_pairs, step_with_pairs


@fault("p_flattened_layer", "one layer too large", "loop", "images", without=(*WRAPPED, "pretrained", "peft"))
class FlattenedLayer(Fault):
    """nn.Flatten() and nn.Linear() after a convolution that left the pictures large; fixed: pooling before them."""

    def fits(self, target):
        return super().fits(target) and isinstance(target, ImageLoop) and whole(target, "pixels") and whole(target, "size")

    def inject(self, target, fixed):
        few_rows(target, self.rng)
        much, channels, forward, head = self.rng.uniform(0.35, 0.6) * (1 << 30), self.rng.choice([32, 64]), target.loss, []

        def make():
            rest = target.pixels // 4
            width = max(32, int(much / (4 * channels * rest * rest)))
            pool, flat = (nn.AdaptiveAvgPool2d(4), channels * 16) if fixed else (nn.Identity(), channels * rest * rest)
            head.append(nn.Sequential(nn.Conv2d(target.channels, channels, 3, 4, 1), nn.ReLU(), pool, nn.Flatten(), nn.Linear(flat, width), nn.ReLU(),
                                      nn.Linear(width, 10)).to(DEVICE))
            target.optimizers[0].add_param_group({"params": list(head[0].parameters())})

        def loss_with_head(batch):
            loss = forward(batch)
            pictures = batch[0].float()
            pictures = nn.functional.interpolate(pictures, (target.pixels // 4 * 4,) * 2) if pictures.shape[-1] % 4 else pictures
            return loss + head[0](pictures).float().logsumexp(-1).mean()
        after_build(target, make)
        target.loss = loss_with_head


@fault("p_model_double", "double precision", "loop", "decoder", "layers", without=(*WRAPPED, "peft"))
class ModelDouble(Fault):
    """model.double(), which made an error about types go away."""

    def fits(self, target):
        return super().fits(target) and isinstance(target, Loop) and "fp32" in target.precisions

    def inject(self, target, fixed):
        target.precision = "fp32"
        if not fixed:
            after_build(target, lambda: target.model.double())


@fault("p_weights_in_fp32", "weights in full precision", "inference", "layers", without=("generate",))
class WeightsInFp32(Fault):
    """from_pretrained() without a dtype: 32 bits for each weight; fixed: bfloat16."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "dtype", None), torch.dtype)

    def inject(self, target, fixed):
        target.layers, target.size = self.rng.choice([12, 18, 24]), self.rng.choice([1, 2])
        if whole(target, "length"):
            target.length = min(target.length, 128)
        target.dtype = torch.bfloat16 if fixed else torch.float32


@fault("p_prompts_at_once", "KV cache", "generate")
class PromptsAtOnce(Fault):
    """All prompts of a list go into one generate(); fixed: a few at a time."""

    def fits(self, target):
        return super().fits(target) and whole(target, "size")

    def inject(self, target, fixed):
        times, small = self.rng.choice([4, 5, 6]), max(1, target.size // 2)
        target.size, target.steps = (small, times) if fixed else (small * times, 1)


@fault("p_one_long_example", "larger batch", "loop", "crop", without=WRAPPED)
class OneLongExample(Fault):
    """One example of the data is much longer than the others, and nothing truncates it."""

    def fits(self, target):
        return super().fits(target) and whole(target, "length") and whole(target, "longest") and target.name != "tokens_ahead"  # which goes piece by piece

    def inject(self, target, fixed):
        target.steps, usual = self.rng.randint(4, 6), min(target.length, target.longest // self.rng.choice([3, 4]))
        target.length, long_one, step, longest = usual, self.rng.randint(2, 3), target.step, self.rng.uniform(0.9, 1.0)

        def step_of_one(i):
            target.length = int(longest * target.longest) // usual * usual if i == long_one and not fixed else usual
            return step(i)
        target.step = step_of_one

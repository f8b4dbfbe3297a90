"""Faults by habit, as threads about out-of-memory errors tell them: padding, budgets of tokens, precision, large pictures, adapters, optimizers, norms,
frozen layers that save, references that stay."""
import copy

import torch
import torch.nn.functional as F

from amounts import after_build, deep, light, mapped, sized
from core import DEVICE, Fault, fault
from faults_fields_b import WRAPPED
from faults_habits_d import OWN
from faults_optimizer import again


@fault("padded_to_the_longest_allowed", "padding", "loop", "tokens", without=("trainer", "lightning"))
class PaddedToTheLongestAllowed(Fault):
    """padding="max_length": every row is filled up to what the model can take, though texts are short; the fixed form pads to the longest of the batch."""

    def inject(self, target, fixed):
        batch, share = target.batch, self.rng.choice([0.2, 0.3, 0.4])

        def make_batch(i):
            made = batch(i)
            if not fixed:
                return made
            used = 1 - 0.15 * (i % 3)
            return mapped(made, lambda t: t[:, :max(16, int(t.shape[1] * share * used))].contiguous() if t.dim() == 2 and not t.is_floating_point() else t)
        target.batch = make_batch


@fault("tokens_counted_without_padding", "larger batch", "loop", "tokens", without=("two optimizers", "reference", *WRAPPED))
class TokensCountedWithoutPadding(Fault):
    """Batches have a number of tokens, which counts no padding: many short texts with a long one are padded to its length. The fixed form counts what is there after padding.

    Threads of fairseq and of bucketing samplers.
    """

    def inject(self, target, fixed):
        batch, when, times, short = target.batch, self.rng.randint(2, 4), self.rng.choice([3, 4, 6]), self.rng.choice([0.5, 0.6])
        target.steps = when + 2

        def make_batch(i):
            made = batch(i)
            if i // target.micro_batches == when and not fixed:
                return mapped(made, lambda t: torch.cat([t] * times) if t.dim() else t)
            return mapped(made, lambda t: t[:, :max(16, int(t.shape[1] * (short + 0.1 * (i % 3))))].contiguous() if t.dim() == 2 and not t.is_floating_point() else t)
        target.batch = make_batch


@fault("no_mixed_precision", "no mixed precision", "loop", without=("pretrained", "reference", "fsdp", "deepspeed", "megatron"))
class NoMixedPrecision(Fault):
    """The training is in 32 bits throughout, where bf16=True, or autocast(), would halve what is saved for the backward pass."""

    def fits(self, target):
        return super().fits(target) and "autocast" in getattr(target, "precisions", ()) and target.name != "accelerate"

    def inject(self, target, fixed):
        target.precision = "autocast" if fixed else "fp32"
        if sized(target):
            target.size *= 2
        if isinstance(getattr(target, "vocabulary", None), int):
            target.vocabulary = min(target.vocabulary, 8000)
        if "checkpointing" in target.traits:
            target.checkpointing = False


@fault("pictures_not_resized", "pictures too large", "images", without=("two optimizers",))
class PicturesNotResized(Fault):
    """Pictures go in at twice the side that the recipe has; what attends over patches has four times as many."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "pixels", None), int) and target.pixels % 64 == 0

    def inject(self, target, fixed):
        if not fixed:
            target.pixels *= 2


FLEXIBLE = "resnet", "segmentation", "larger_images", "diffusers_unet", "scene_classes", "depth_of_a_view"


def larger(batch, scale):
    """Images, and labels of each pixel, of a larger side."""
    def one(t):
        if t.dim() == 4:
            return F.interpolate(t.float(), scale_factor=scale).to(t.dtype)
        return t
    return mapped(batch, one)


@fault("one_picture_is_large", "larger batch", "loop", "images")
class OnePictureIsLarge(Fault):
    """Pictures keep their size, within a limit that is far too high, and one batch has large ones; the fixed form makes them smaller.

    Threads of Qwen-VL about max_pixels, and of detection about training at several scales.
    """

    def fits(self, target):
        return super().fits(target) and target.name in FLEXIBLE

    def inject(self, target, fixed):
        batch, when, scale = target.batch, self.rng.randint(2, 4), self.rng.choice([2, 3])
        target.steps = when + 2

        def make_batch(i):
            made = batch(i)
            return larger(made, scale) if i // target.micro_batches >= when and not fixed else made
        target.batch = make_batch


@fault("evaluated_at_full_size", "evaluation batch", "loop", "images", "eval")
class EvaluatedAtFullSize(Fault):
    """The training has crops, and the evaluation whole pictures, as many at a time."""

    def fits(self, target):
        return super().fits(target) and target.name in FLEXIBLE

    def inject(self, target, fixed):
        predict, scale = target.predict, self.rng.choice([3, 4])
        target.evaluated, target.size = 2, min(target.size, 16)

        def of_whole_pictures(batch):
            if torch.is_grad_enabled():
                return predict(batch)
            whole = larger(mapped(batch, lambda t: t[:4] if t.dim() == 4 else t), scale)
            parts = [mapped(whole, lambda t, k=k: t[k:k + 1] if t.dim() == 4 else t) for k in range(4)] if fixed else [larger(batch, scale)]
            return [predict(p) for p in parts][-1]
        target.predict = of_whole_pictures


@fault("base_in_full_precision", "base in full precision", "peft", "loop", "layers")
class BaseInFullPrecision(Fault):
    """The frozen base is in 32 bits: no dtype was said, or a preparation made every 16-bit parameter larger.

    Threads of PEFT about prepare_model_for_kbit_training() and about torch_dtype.
    """

    def fits(self, target):
        return super().fits(target) and target.name not in ("qlora", "lora_int8", "visual_instructions")

    def inject(self, target, fixed):
        light(target, self.rng)
        form = self.rng.choice(["prepared", "loaded"])
        target.layers *= 2
        target.precision = "bf16"

        def prepare():
            for p in target.model.parameters():
                if p.dtype == torch.bfloat16:
                    p.data = p.data.to(torch.float32)
        if not fixed:
            if form == "loaded":
                target.precision = "fp32"
            else:
                after_build(target, prepare)


@fault("merged_for_an_evaluation", "weights saved aside", "peft", "loop", "eval")
class MergedForAnEvaluation(Fault):
    """For each evaluation the adapters are merged into a copy of the model, which stays for the next one's comparison; the fixed form evaluates with adapters."""

    def fits(self, target):
        return super().fits(target) and target.name not in ("qlora", "lora_int8")

    def inject(self, target, fixed):
        light(target, self.rng)
        evaluate, target.evaluated, form = target.evaluate, 1, self.rng.choice(["stays", "dropped"])

        def merged():
            if fixed:
                return evaluate()
            own, target.model = target.model, copy.deepcopy(target.model).merge_and_unload()
            try:
                return evaluate()
            finally:
                if form == "stays":
                    target.merged = target.model
                target.model = own
        target.evaluate = merged


@fault("amsgrad", "optimizer states", "loop", "states", without=("images", *WRAPPED))
class AmsGrad(Fault):
    """amsgrad=True keeps a third tensor for each parameter."""

    def inject(self, target, fixed):
        deep(target, self.rng)

        def choose():
            target.optimizers = [again(o, torch.optim.AdamW, amsgrad=not fixed, foreach=False) for o in target.optimizers]
        after_build(target, choose)


@fault("parameters_in_two_optimizers", "first optimizer kept", "loop", "states", without=OWN)
class ParametersInTwoOptimizers(Fault):
    """One optimizer is for the body and one for the head, but the body's was made of all parameters, or the head's: most have states twice."""

    def inject(self, target, fixed):
        deep(target, self.rng)
        form = self.rng.choice(["all", "body"])

        def split():
            parameters = [p for p in target.model.parameters() if p.requires_grad]
            head = parameters[-2:]
            body = parameters[:-2]
            if fixed:
                groups = body, head
            else:
                groups = (parameters, parameters) if form == "all" else (body, parameters)
            target.optimizers = [torch.optim.AdamW(g, lr=1e-4, foreach=False) for g in groups if g]
        after_build(target, split)


class BothSides(torch.optim.Optimizer):
    """Each matrix has a matrix for its rows and one for its columns, as second-order optimizers keep; `largest`: no such matrix for a side beyond that."""

    def __init__(self, parameters, largest):
        super().__init__(parameters, {"lr": 1e-4, "largest": largest})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                    if p.dim() == 2:
                        for side, n in ("left", p.shape[0]), ("right", p.shape[1]):
                            if n <= group["largest"]:
                                state[side] = torch.eye(n, device=p.device)
                state["momentum"].lerp_(p.grad, 0.1)
                update = state["momentum"].float()
                if "left" in state:
                    state["left"].addmm_(p.grad.float(), p.grad.float().T, beta=0.95, alpha=0.05)
                    update = state["left"] @ update
                if "right" in state:
                    state["right"].addmm_(p.grad.float().T, p.grad.float(), beta=0.95, alpha=0.05)
                    update = update @ state["right"]
                p.add_(update.to(p.dtype), alpha=-group["lr"])


@fault("preconditioners_of_both_sides", "preconditioners", "loop", "tokens", without=OWN)
class PreconditionersOfBothSides(Fault):
    """An optimizer of second order has a matrix for each side of a weight, and the embedding's longer side is the vocabulary.

    Threads about Shampoo and SOAP: max_precond_dim.
    """

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "vocabulary", None), int)

    def inject(self, target, fixed):
        light(target, self.rng)
        target.vocabulary, target.micro_batches = self.rng.choice([12000, 16000, 24000]), 1
        after_build(target, lambda: setattr(target, "optimizers", [BothSides([p for p in target.model.parameters() if p.requires_grad], 8192 if fixed else 1 << 20)]))


class ByHand(torch.nn.Module):
    """A norm as it is written in papers: each line leaves a tensor of fp32 for the backward pass."""

    def __init__(self, norm):
        super().__init__()
        self.weight, self.bias, self.mean = norm.weight, getattr(norm, "bias", None), isinstance(norm, torch.nn.LayerNorm)

    def forward(self, x):
        h = x.float()
        if self.mean:
            h = h - h.mean(-1, keepdim=True)
        h = h / torch.sqrt((h ** 2).mean(-1, keepdim=True) + 1e-6)
        h = h * self.weight.float() if self.weight is not None else h
        return (h + self.bias.float() if self.bias is not None else h).to(x.dtype)


@fault("norms_by_hand", "norms by hand", "loop", "layers", without=OWN)
class NormsByHand(Fault):
    """The norms of all layers are written out in fp32, line by line; the fixed form has F.layer_norm() or F.rms_norm()."""

    def inject(self, target, fixed):
        if "checkpointing" in target.traits:
            target.checkpointing = False
        if isinstance(getattr(target, "vocabulary", None), int):
            target.vocabulary = min(target.vocabulary, 8000)
        target.layers *= 2

        def replace():
            for parent in list(target.model.modules()):
                for name, child in list(parent.named_children()):
                    if isinstance(child, torch.nn.LayerNorm) or type(child).__name__.endswith("RMSNorm"):
                        setattr(parent, name, ByHand(child))
            target.model.train()
        if not fixed:
            after_build(target, replace)


@fault("frozen_front_with_graph", "frozen front with a graph", "pretrained", "loop", without=("peft", "reference"))
class FrozenFrontWithGraph(Fault):
    """What comes first is frozen, but its input was made to require gradients, as for adapters with recomputation; so its layers save everything."""

    def inject(self, target, fixed):
        def want():
            state = {}

            def first(module, inputs, output):
                if torch.is_tensor(output) and output.is_floating_point() and output.is_leaf and not output.requires_grad and torch.is_grad_enabled() and not state:
                    state["done"] = True
                    output.requires_grad_(True)

            def anew(module, inputs):
                state.clear()
            target.model.register_forward_pre_hook(anew)
            for module in target.model.modules():
                if not list(module.children()):
                    module.register_forward_hook(first)
        if not fixed:
            after_build(target, want)


@fault("reference_after_its_use", "idle model", "reference", "loop")
class ReferenceAfterItsUse(Fault):
    """What the reference says was computed before the training, and the reference stays on the GPU all the same.

    Threads of TRL about precompute_ref_log_probs.
    """

    def fits(self, target):
        return super().fits(target) and target.name in ("dpo", "group_rollouts", "hint_distillation", "policy_and_critic", "own_answers_distilled", "text_to_image")

    def inject(self, target, fixed):
        light(target, self.rng)
        outputs, told = target.reference_outputs, {}

        def known(*arguments):
            if not told:
                told["host"] = mapped(outputs(*arguments), lambda t: t.cpu())
                if fixed:
                    target.reference.cpu()
            return mapped(told["host"], lambda t: t.to(DEVICE))
        target.reference_outputs = known

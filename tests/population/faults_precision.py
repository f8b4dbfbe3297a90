"""Faults of the precision in which something is kept or computed."""
import torch

from amounts import after_build, light, rows
from core import DEVICE, Fault, fault


@fault("double_model", "double precision", "loop", "tokens", without=("reference", "ddp", "fsdp", "deepspeed", "megatron", "peft"))
class DoubleModel(Fault):
    """The model is in float64, by .double(), .to(torch.float64) or the weights that were read."""

    def fits(self, target):
        return super().fits(target) and getattr(target, "precision", None) in ("fp32", "bf16")

    def inject(self, target, fixed):
        form = self.rng.choice(["double", "to", "data"])
        target.precision = "fp32"

        def widen():
            if form == "double":
                target.model.double()
            elif form == "to":
                target.model.to(torch.float64)
            else:
                for p in target.model.parameters():
                    p.data = p.data.to(torch.float64)
        if not fixed:
            after_build(target, widen)


@fault("double_weights_of_samples", "double precision", "forward")
class DoubleWeightsOfSamples(Fault):
    """Weights, or a mask, from NumPy are float64, and what they are multiplied with becomes float64."""

    def inject(self, target, fixed):
        share, forward, state = self.rng.uniform(0.4, 0.8), target.loss, {}
        width, form = self.rng.choice([256, 1024]), self.rng.choice(["numpy", "tensor", "dtype"])

        def weights(count):
            if form == "numpy":
                import numpy
                w = torch.from_numpy(numpy.ones((count, 1))).to(DEVICE)
            else:
                w = torch.tensor([[1.0]], dtype=torch.float64).expand(count, 1).to(DEVICE) if form == "tensor" else torch.ones(count, 1).double().to(DEVICE)
            return w.float() if fixed else w

        def weighted_loss(batch):
            loss = forward(batch)
            state.setdefault("count", rows(share, width))
            features = torch.zeros(state["count"], width, device=DEVICE, requires_grad=True)
            weighted = features * weights(state["count"])
            return loss + 0.1 * torch.tanh(weighted).pow(2).mean().to(loss.dtype)
        target.loss = weighted_loss


@fault("weights_kept_in_fp32", "second copy of the weights", "loop", "states")
class WeightsKeptInFp32(Fault):
    """A model in bf16, and its weights in fp32, which nothing reads any more: those it was made from, or of a conversion."""

    def inject(self, target, fixed):
        light(target, self.rng)
        form, build = self.rng.choice(["list", "dict", "groups"]), target.build
        target.originals = {}

        def build_and_convert():
            build()
            originals = {n: p.detach().float().clone() for n, p in target.model.named_parameters()}
            grouped = {n: p.clone() for n, p in originals.items() if p.dim() > 1}
            if fixed:
                return
            target.originals = originals if form == "dict" else list(originals.values()) + list(grouped.values())
            if form == "groups":
                target.originals = [{"decay": grouped}, {"all": originals}]
        target.build = build_and_convert


@fault("activations_upcast", "upcast activations", "forward")
class ActivationsUpcast(Fault):
    """bf16 features go through several operations in fp32, and each copy is saved for backward."""

    def inject(self, target, fixed):
        share, forward, state = self.rng.uniform(0.15, 0.3), target.loss, {}
        width, form, depth = self.rng.choice([512, 2048]), self.rng.choice(["float", "to", "type"]), self.rng.choice([3, 4, 6])

        def widened(x):
            if fixed:
                return x
            return x.float() if form == "float" else x.to(torch.float32) if form == "to" else x.type(torch.float32)

        def loss_with_features(batch):
            loss = forward(batch)
            state.setdefault("count", rows(share, width))
            x = torch.zeros(state["count"], width, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
            for _ in range(depth):
                x = torch.tanh(widened(x)) * widened(x).sigmoid()
                x = x.to(torch.bfloat16)
            return loss + 0.01 * x.float().mean()
        target.loss = loss_with_features

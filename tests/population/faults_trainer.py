"""Faults of those who use transformers' Trainer or Lightning's: arguments and callbacks."""
import torch

from core import Fault, fault


def snapshot(model, fixed):
    return {k: v.detach().cpu() if fixed else v.detach().clone() for k, v in model.state_dict().items()}


@fault("trainer_batch", "batch too large", "trainer")
class TrainerBatch(Fault):
    """per_device_train_batch_size, where gradient_accumulation_steps does the same."""

    def __init__(self, seed):
        super().__init__(seed)
        self.parts = self.rng.choice([2, 4])

    def inject(self, target, fixed):
        arguments = target.trainer_arguments
        key = "gradient_accumulation_steps" if fixed else "per_device_train_batch_size"
        arguments[key] = arguments.get(key, 1 if fixed else 8) * self.parts


@fault("trainer_recomputes_nothing", "activations", "trainer")
class TrainerRecomputesNothing(Fault):
    """gradient_checkpointing=False."""

    def inject(self, target, fixed):
        if isinstance(getattr(target, "layers", None), int):
            target.layers *= self.rng.choice([2, 3])
        target.trainer_arguments["gradient_checkpointing"] = fixed
        if fixed:
            target.trainer_arguments["gradient_checkpointing_kwargs"] = {"use_reentrant": False}


@fault("trainer_states", "optimizer states", "trainer")
class TrainerStates(Fault):
    """optim="adamw_torch", where Adafactor's states would do."""

    def inject(self, target, fixed):
        arguments = target.trainer_arguments
        arguments["per_device_train_batch_size"] = self.rng.choice([1, 2])
        arguments["optim"] = "adafactor" if fixed else self.rng.choice(["adamw_torch", "adamw_torch_fused"])


@fault("trainer_callback_copies", "copies of the model kept", "trainer")
class TrainerCallbackCopies(Fault):
    """A callback keeps a copy of the weights after each step, for an average or to go back."""

    def inject(self, target, fixed):
        from transformers import TrainerCallback
        copies, form = [], self.rng.choice(["list", "dict"])

        class KeepWeights(TrainerCallback):
            def on_step_end(self, args, state, control, model=None, **keys):
                weights = snapshot(model, fixed)
                copies.append(weights if form == "list" else {"step": state.global_step, "weights": weights})
        target.callbacks.append(KeepWeights())


@fault("trainer_outputs_kept", "list of tensors", "trainer")
class TrainerOutputsKept(Fault):
    """A callback registers a hook that keeps the logits, or the gradients, of each step."""

    def inject(self, target, fixed):
        from transformers import TrainerCallback
        kept, form = [], self.rng.choice(["logits", "gradients"])

        class Watch(TrainerCallback):
            def on_train_begin(self, args, state, control, model=None, **keys):
                def hook(module, inputs, output):
                    logits = output.logits.detach() if hasattr(output, "logits") else output[1].detach()
                    kept.append(logits.cpu() if fixed else logits)
                if form == "logits":
                    model.register_forward_hook(hook)

            def on_pre_optimizer_step(self, args, state, control, model=None, **keys):
                if form == "gradients":
                    kept.append([p.grad.norm().item() if fixed else p.grad.clone() for p in model.parameters() if p.grad is not None])
        target.callbacks.append(Watch())


@fault("lightning_outputs_kept", "copies of the model kept", "lightning")
class LightningOutputsKept(Fault):
    """A callback keeps what each step had: gradients or weights for a plot."""

    def inject(self, target, fixed):
        from lightning.pytorch import Callback
        kept, form = [], self.rng.choice(["weights", "gradients"])

        class Watch(Callback):
            def on_before_optimizer_step(self, trainer, module, optimizer):
                if form == "gradients":
                    kept.append([p.grad.norm().item() if fixed else p.grad.clone() for p in module.parameters() if p.grad is not None])

            def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
                if form == "weights":
                    kept.append(snapshot(module, fixed))
        target.callbacks.append(Watch())


@fault("lightning_features_kept", "list of tensors", "lightning")
class LightningFeaturesKept(Fault):
    """The features of each step are kept, detached, until the epoch ends, where all are logged."""

    def inject(self, target, fixed):
        from lightning.pytorch import Callback
        outputs, form = [], self.rng.choice(["largest", "all"])

        class Watch(Callback):
            def on_train_start(self, trainer, module):
                def hook(layer, inputs, output):
                    if torch.is_tensor(output) and torch.is_grad_enabled():
                        outputs.append(output.detach().float().mean().item() if fixed else output.detach())
                layers = [m for m in module.modules() if isinstance(m, (torch.nn.Linear, torch.nn.Conv2d, torch.nn.LayerNorm))]
                for layer in layers if form == "all" else layers[:len(layers) // 2 + 1]:
                    layer.register_forward_hook(hook)
        target.callbacks.append(Watch())

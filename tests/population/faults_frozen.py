"""Faults where something that should be frozen, or run without a graph, is not."""
import contextlib
import copy

import torch

from amounts import after_build
from core import Fault, fault


@fault("base_not_frozen", "base not frozen", "loop", without=("two optimizers", "pretrained", "peft", "ddp", "fsdp", "deepspeed", "megatron"))
class BaseNotFrozen(Fault):
    """A small part is trained; the optimizer knows, and the other parameters get gradients all the same."""

    def inject(self, target, fixed):
        form, zero = self.rng.choice(["last", "norms", "biases"]), self.rng.choice(["optimizer", "model"])

        def choose():
            named = [(n, p) for n, p in target.model.named_parameters() if p.requires_grad]
            if form == "last":
                small = named[-max(1, len(named) // 10):]
            else:
                small = [(n, p) for n, p in named if p.dim() < 2 and (form == "norms" or n.endswith("bias"))] or named[-2:]
            names = {n for n, _ in small}
            if fixed:
                for n, p in named:
                    p.requires_grad_(n in names)
            target.optimizers = [torch.optim.AdamW([p for _, p in small], lr=1e-4)]
        after_build(target, choose)
        if zero == "model":
            target.zero_grad = lambda: target.model.zero_grad()


class Unfrozen(Fault):
    """All parameters are set to be trained again, after the base was frozen and the optimizer was made."""

    def inject(self, target, fixed):
        form = self.rng.choice(["model", "parameters", "modules"])

        def unfreeze():
            if form == "modules":
                for module in target.model.modules():
                    for p in module.parameters(recurse=False):
                        if p.is_floating_point():
                            p.requires_grad = True
            else:
                for p in target.model.parameters():
                    if p.is_floating_point():
                        p.requires_grad_(True)
        if not fixed:
            after_build(target, unfreeze)


@fault("unfrozen_again", "base not frozen", "pretrained", "loop")
class UnfrozenAgain(Unfrozen):
    pass


@fault("adapters_base_trainable", "base not frozen", "peft", "loop")
class AdaptersBaseTrainable(Unfrozen):
    pass


@fault("never_frozen", "base not frozen", "pretrained", "loop")
class NeverFrozen(Fault):
    """freeze() is never called, and the optimizer gets every parameter."""

    def inject(self, target, fixed):
        if not fixed:
            target.freeze = lambda *args, **keys: None


@fault("teacher_with_graph", "reference with a graph", "loop", without=("two optimizers", "reference", "ddp", "fsdp", "deepspeed", "megatron"))
class TeacherWithGraph(Fault):
    """A teacher, or reference, runs with a graph, because its parameters require gradients and nothing says no_grad()."""

    def inject(self, target, fixed):
        form, forward, teacher = self.rng.choice(["difference", "detached", "squared"]), target.loss, []

        def make_teacher():
            teacher.append(copy.deepcopy(target.model))
            if fixed:
                teacher[0].requires_grad_(False)

        def teacher_loss(batch):
            student, target.model = target.model, teacher[0]
            try:
                with torch.no_grad() if fixed else contextlib.nullcontext():
                    return forward(batch)
            finally:
                target.model = student

        def loss_with_teacher(batch):
            wanted = teacher_loss(batch)
            loss = forward(batch)
            if form == "difference":
                return loss + 0.1 * (loss - wanted).clamp(min=0)
            if form == "squared":
                return loss + 0.1 * (loss - wanted) ** 2
            return loss - 0.1 * wanted.detach()
        after_build(target, make_teacher)
        target.loss = loss_with_teacher


@fault("reference_with_graph", "reference with a graph", "reference", "loop")
class ReferenceWithGraph(Fault):
    """The job's reference model is run without no_grad(), and its parameters require gradients."""

    def inject(self, target, fixed):
        if fixed:
            return
        target.no_grad = contextlib.nullcontext
        after_build(target, lambda: target.reference.requires_grad_(True))

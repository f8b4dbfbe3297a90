"""Jobs to inject faults into, and the faults.

A job is a training, or generating, program in parts that a fault can replace. A fault makes a job need more memory than it has to; its fixed form
is the job as an attentive person writes it. Both are registered by decorators, and everything else (draw.py, table.py) goes over the registers.

| trait | what the job offers |
|---|---|
| loop | step(), loss(), zero_grad(), backward(), optimize(), batch() and micro_batches as Job has them; each may be wrapped or replaced |
| steps | train() calls step(i) and after_step(i, loss); both may be wrapped (every job with "loop" has it) |
| forward | loss(batch) is the forward pass of each step and may be wrapped (every job with "loop" has it) |
| tokens | batches are token ids; length and size may be changed before build() |
| images | batches are images; size may be changed before build() |
| decoder | a causal language model; vocabulary may be changed before build() |
| layers | layers, a number, may be changed before build() |
| attention | attention is "sdpa" and may be changed to "eager" before build() |
| eval | evaluate() runs predict(batch) under no_grad() and returns its outputs, of which after_step() keeps nothing |
| checkpointing | checkpointing, True or False, may be changed before build() |
| pretrained | freeze() is called by build() and freezes the base, of which a small part is trained |
| reference | reference is a second, frozen model, which the loss calls through reference_outputs(batch) under no_grad() |
| two optimizers | two models with an optimizer each |
| trainer | transformers' Trainer: trainer_arguments (a dict) and callbacks (a list) may be changed before run() |
| lightning | Lightning's Trainer: trainer_arguments and callbacks, as above |
| peft | PEFT: lora (a dict of LoraConfig's arguments) may be changed before build() |
| ddp, fsdp, deepspeed, megatron | the model is wrapped by it, as one rank |
| generate | transformers' generate(): new_tokens, prompt and size may be changed before run(); there are no optimizers |
| inference | no training: train() calls predict(batch(i)) under no_grad(), and take(i, outputs), which keeps nothing of the GPU |
| dataset | dataset is a tuple of tensors on the host, from whose rows batch() cuts; it may be moved or replaced after build(), and rows changed before |
| scene | scene(i) yields the parts of what an evaluation shows as a whole; predict((part, None)) takes a part, or parts that are concatenated |
| crop | batch() cuts its examples to length, which may be changed between batches, up to longest |
| states | the optimizer has states |

no_grad is a function that returns a context manager; a fault may replace it (by contextlib.nullcontext).
"""
import importlib
import random
import sys

import torch

JOBS, FAULTS = {}, {}
DEVICE = "cuda"


def load(modules):
    """Imports the modules of jobs and faults; one whose package is not installed is left out."""
    for name in modules:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as e:
            print("population: without %s.py: %s" % (name, e), file=sys.stderr)


def job(name, family, *traits):
    """Registers a class of jobs. `family`: jobs that are left out together. `traits`: what faults ask for."""
    def register(cls):
        cls.name, cls.family = name, family
        cls.traits = {*traits}.union(*(base.__dict__.get("traits", ()) for base in cls.__mro__))
        if "loop" in cls.traits:
            cls.traits |= {"steps", "forward"}
        JOBS[name] = cls
        return cls
    return register


def fault(name, cause, *needs, without=()):
    """Registers a class of faults. `cause`: a key of CAUSES in causes.py. `needs`, `without`: traits that a job must, or must not, have.

    Faults of one file, faults_GROUP.py, are a group, and are left out together.
    """
    def register(cls):
        cls.name, cls.cause, cls.needs, cls.without = name, cause, set(needs), set(without)
        cls.group = cls.__module__.removeprefix("faults_")
        FAULTS[name] = cls
        return cls
    return register


class Job:
    """A loop of steps. A subclass defines build() and loss(); everything may be replaced, in a subclass or by a fault.

    Sizes are drawn in __init__ from self.rng, so that a seed gives the same job in every process. Peaks should be 0.3 to 8 GiB on the simulated
    device, where kernels take no time: what costs is the number of operations and of tensors, not their size.
    """
    traits = set()
    steps = 6  # which a fault may change, to die later or earlier

    def __init__(self, seed):
        self.rng = random.Random("%s %s" % (self.name, seed))
        self.model, self.optimizers = None, []
        self.micro_batches = 1
        self.no_grad = torch.no_grad
        self.draw()

    def draw(self):
        """Draws the sizes."""

    def build(self):
        """Makes self.model and self.optimizers on the device."""
        raise NotImplementedError

    def batch(self, i):
        """The inputs of micro-batch i, on the device."""
        raise NotImplementedError

    def loss(self, batch):
        """The forward pass."""
        raise NotImplementedError

    def adamw(self, parameters):
        return torch.optim.AdamW([p for p in parameters if p.requires_grad], lr=1e-4)

    def zero_grad(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def backward(self, loss):
        loss.backward()

    def optimize(self):
        for optimizer in self.optimizers:
            optimizer.step()

    def after_step(self, i, loss):
        """What follows a step: logging, evaluation, a checkpoint."""

    def step(self, i):
        self.zero_grad()
        for k in range(self.micro_batches):
            loss = self.loss(self.batch(i * self.micro_batches + k))
            self.backward(loss / self.micro_batches)
        self.optimize()
        return loss.detach()

    def train(self):
        for i in range(self.steps):
            loss = self.step(i)
            self.after_step(i, loss)

    def run(self):
        self.build()
        self.train()


class Fault:
    """Changes a job before it is built. `rng` draws how much."""
    own_limit = False  # whether the fault limits the process on a card of the usual size, instead of needing more memory

    def __init__(self, seed):
        self.rng = random.Random("%s %s" % (self.name, seed))

    def fits(self, target):
        """Whether the job can have this fault; `target` is drawn and not built."""
        return self.needs <= target.traits and not self.without & target.traits

    def inject(self, target, fixed):
        """Puts the fault in, or its fixed form, which does the same work as it should be done."""
        raise NotImplementedError


def made(job_name, fault_name, seed, fixed):
    target = JOBS[job_name](seed)
    FAULTS[fault_name](seed).inject(target, fixed)
    return target

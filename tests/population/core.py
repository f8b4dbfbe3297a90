"""Jobs to inject faults into, and the faults.

A job is a training, or generating, program in parts that a fault can replace. A fault makes a job need more memory than it has to; its fixed form
is the job as an attentive person writes it. Both are registered by decorators, and everything else (draw.py, table.py) goes over the registers.
"""
import random

import torch

JOBS, FAULTS = {}, {}
DEVICE = "cuda"


def job(name, family, *traits):
    """Registers a class of jobs. `family`: jobs that are left out together. `traits`: what faults ask for."""
    def register(cls):
        cls.name, cls.family, cls.traits = name, family, {*cls.traits, *traits}
        JOBS[name] = cls
        return cls
    return register


def fault(name, cause, *needs, without=()):
    """Registers a class of faults. `cause`: a key of CAUSES in causes.py. `needs`, `without`: traits that a job must, or must not, have."""
    def register(cls):
        cls.name, cls.cause, cls.needs, cls.without = name, cause, set(needs), set(without)
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

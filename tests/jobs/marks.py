"""Marks of a training loop that the loop itself makes: Marks.forward(), backward(), optimizer(), evaluation() begin a phase of a step.

Each mark has PyTorch's own count of allocations, which is the number of the next allocation in the trace. Inputs are noted as well. What the
job's tensors are, with_categories.py writes.
"""
import torch
import with_categories


class Marks:
    def __init__(self):
        self.list, self.inputs, self.step = [], [], 1

    def add(self, phase):
        self.list.append([with_categories.allocations(), self.step, phase])

    def forward(self):
        self.add("forward")

    def backward(self):
        self.add("backward")

    def optimizer(self):
        with_categories.mark("optimizer begin")
        self.add("optimizer")

    def evaluation(self):
        self.add("evaluation")

    def silence(self):
        """What follows is of no phase that the job could name."""
        self.add(None)

    def next(self):
        self.step += 1

    def input(self, *sizes):
        x = torch.randn(*sizes, device="cuda")
        self.inputs.append([x.data_ptr(), with_categories.allocations()])
        return x

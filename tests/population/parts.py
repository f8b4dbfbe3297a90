"""What people choose for a loop, whatever the model is: the optimizer, the precision, clipping, accumulation, evaluation between steps."""
import torch
import torch.nn as nn

from core import DEVICE, Job

OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-4),
    "adamw_fused": lambda p: torch.optim.AdamW(p, lr=1e-4, fused=True),
    "adamw_loop": lambda p: torch.optim.AdamW(p, lr=1e-4, foreach=False),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-4),
    "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=1e-3),
}
SMALL_STATES = "sgd", "adafactor"


def _quick(name, original):
    def fill(self, *args, **keys):
        return original(self, *args, **keys) if self.is_cuda else self
    fill.__name__ = name
    return fill


# The values of parameters do not matter, and the host would draw them one by one.
for _name in "normal_", "uniform_", "trunc_normal_", "erfinv_":
    if hasattr(torch.Tensor, _name):
        setattr(torch.Tensor, _name, _quick(_name, getattr(torch.Tensor, _name)))


class Loop(Job):
    """A loop with drawn choices. A subclass calls choose() in draw(), and its build() ends with finish(model)."""
    traits = {"loop"}
    kinds = "adamw", "adamw", "adamw_fused", "adamw_loop", "adam", "sgd_momentum", "adafactor"
    precisions = "fp32", "autocast", "autocast", "bf16"
    clips = 0, 0, 1.0
    accumulated = 1, 1, 1, 2, 4

    def choose(self):
        r = self.rng
        self.kind, self.precision, self.clip = r.choice(self.kinds), r.choice(self.precisions), r.choice(self.clips)
        self.micro_batches, self.steps = r.choice(self.accumulated), r.choice([4, 5, 6])
        self.evaluated = r.choice([1, 2, 3]) if "eval" in self.traits else 0
        if self.kind not in SMALL_STATES:
            self.traits = self.traits | {"states"}

    @property
    def dtype(self):
        return torch.bfloat16 if self.precision == "bf16" else torch.float32

    def autocast(self):
        return torch.autocast(DEVICE, torch.bfloat16, enabled=self.precision == "autocast")

    def optimizer(self, parameters):
        return OPTIMIZERS[self.kind]([p for p in parameters if p.requires_grad])

    def finish(self, model):
        """The model on the device, with its optimizer."""
        self.model = model.to(DEVICE, self.dtype)
        self.optimizers = [self.optimizer(self.model.parameters())]

    def optimize(self):
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        super().optimize()

    def predict(self, batch):
        """The forward pass without a loss."""
        with self.autocast():
            return self.model(batch)

    def evaluate(self):
        self.model.eval()
        with self.no_grad():
            outputs = self.predict(self.batch(0))
        self.model.train()
        return outputs

    def after_step(self, i, loss):
        if self.evaluated and i % self.evaluated == self.evaluated - 1:
            self.evaluate().float().mean().item()


class TextLoop(Loop):
    """A loop over tokens that a dataset on the host holds."""
    traits = {"tokens", "dataset"}
    rows = 64

    def make_dataset(self):
        """The tokens as they were tokenized, once, before the training."""
        return torch.randint(self.vocabulary, (1, self.length)).expand(self.rows, -1).clone(),

    def finish(self, model):
        super().finish(model)
        self.dataset = self.make_dataset()

    def batch(self, i):
        return cut(self.dataset, i, self.size)


def cut(dataset, i, size):
    """Rows of each tensor, on the device; the last one alone if there is only one."""
    start = i * size % max(1, len(dataset[0]) - size + 1)
    rows = [tensor[start:start + size].to(DEVICE, non_blocking=True) for tensor in dataset]
    return rows[0] if len(rows) == 1 else rows


def strided_convolutions(base):
    """A backbone of images, each of its four stages with half the resolution of the one before; and the channels of the last one."""
    layers, cin = [], 3
    for k in range(4):
        layers += [nn.Conv2d(cin, base << k, 3, 2, 1, bias=False), nn.BatchNorm2d(base << k), nn.ReLU(True), nn.Conv2d(base << k, base << k, 3, 1, 1), nn.ReLU(True)]
        cin = base << k
    return nn.Sequential(*layers), cin

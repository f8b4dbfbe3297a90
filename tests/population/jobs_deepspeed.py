"""DeepSpeed's ZeRO, with one rank."""
import os

import torch.nn.functional as F

from core import job
from jobs_parallel import Parallel
from parts import OPTIMIZERS

os.environ.update(DS_ACCELERATOR="cuda", DEEPSPEED_LOG_LEVEL="error")  # read by its import, which asks no device then
import deepspeed  # noqa: E402


class ZeRO(Parallel):
    """The engine clips, accumulates and steps: step() is its loop, and there are no optimizers to wrap."""
    traits = {"deepspeed", "steps", "forward"}
    kinds = "adamw", "adamw_loop", "adam"
    precisions = "bf16", "bf16", "fp32"
    stages = 1, 2

    def draw(self):
        super().draw()
        self.traits = self.traits - {"loop"}
        self.stage = self.rng.choice(self.stages)
        self.bucket = self.rng.choice([5_000_000, 50_000_000])

    def build(self):
        os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
        super().build()

    def wrapped(self, net):
        zero = {"stage": self.stage, "reduce_bucket_size": self.bucket, "allgather_bucket_size": self.bucket}
        if self.stage == 3:
            zero.update(stage3_prefetch_bucket_size=self.bucket, stage3_param_persistence_threshold=10000)
        self.model, *_ = deepspeed.initialize(model=net, optimizer=OPTIMIZERS[self.kind](net.parameters()), config={
            "train_micro_batch_size_per_gpu": self.size, "gradient_accumulation_steps": self.micro_batches, "zero_optimization": zero,
            "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False, "gradient_clipping": self.clip,
            "bf16": {"enabled": self.precision == "bf16"}})

    def optimizer(self, parameters):
        return self.model.optimizer

    def loss(self, tokens):
        logits = self.model(tokens)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())

    def step(self, i):
        for k in range(self.micro_batches):
            loss = self.loss(self.batch(i * self.micro_batches + k))
            self.model.backward(loss)
            self.model.step()
        return loss.detach()


@job("zero", "sharded states", "deepspeed")
class ZeROStates(ZeRO):
    pass


@job("zero_parameters", "sharded states", "deepspeed")
class ZeROParameters(ZeRO):
    stages = 3,

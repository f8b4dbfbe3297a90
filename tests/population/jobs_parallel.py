"""What wraps a model for several GPUs, with one rank."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DistributedDataParallel

from core import DEVICE, job
from jobs_hand import Block, Decoder
from parts import TextLoop


def one_rank():
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", rank=0, world_size=1, store=dist.HashStore())


class Parallel(TextLoop):
    traits = {"decoder", "layers", "eval"}
    kinds = "adamw", "adamw_fused", "adamw_loop", "adam"

    def draw(self):
        r = self.rng
        self.layers, self.width = r.choice([3, 4, 6]), r.choice([512, 768, 1024])
        self.vocabulary, self.length, self.size = r.choice([8000, 16000, 32000]), r.choice([256, 512, 1024]), r.choice([4, 8])
        self.choose()

    def net(self):
        with torch.device(DEVICE):
            return Decoder(self.layers, self.width, 8, self.vocabulary).to(self.dtype)

    def build(self):
        one_rank()
        self.wrapped(self.net())
        self.optimizers = [self.optimizer(self.model.parameters())]
        self.dataset = self.make_dataset()

    def loss(self, tokens):
        with self.autocast():
            logits = self.model(tokens)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


@job("ddp", "data parallel", "loop", "ddp")
class DDP(Parallel):
    def wrapped(self, net):
        self.model = DistributedDataParallel(net, device_ids=[0], gradient_as_bucket_view=self.rng.random() < 0.5)


@job("fsdp1", "data parallel", "loop", "fsdp")
class FSDP1(Parallel):
    precisions = "fp32", "bf16", "mixed", "mixed"
    kinds = "adamw", "adamw_loop", "adam"

    def wrapped(self, net):
        mixed = MixedPrecision(torch.bfloat16, torch.float32, torch.bfloat16) if self.precision == "mixed" else None
        self.model = FullyShardedDataParallel(net, auto_wrap_policy=ModuleWrapPolicy({Block}), mixed_precision=mixed, device_id=0, use_orig_params=True)

    def optimize(self):
        if self.clip:
            self.model.clip_grad_norm_(self.clip)
        for optimizer in self.optimizers:
            optimizer.step()


@job("fsdp2", "data parallel", "loop", "fsdp")
class FSDP2(Parallel):
    precisions = "fp32", "bf16", "mixed", "mixed"
    kinds = "adamw", "adamw_loop", "adam"

    def wrapped(self, net):
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if self.precision == "mixed" else MixedPrecisionPolicy()
        for layer in net.layers:
            fully_shard(layer, mp_policy=policy)
        self.model = fully_shard(net, mp_policy=policy)

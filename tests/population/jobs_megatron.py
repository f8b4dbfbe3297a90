"""Megatron-core's GPT, with one rank."""
import warnings

import torch

warnings.filterwarnings("ignore", message=".*Apex (is|are) not installed.*")
from megatron.core import parallel_state  # noqa: E402
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.models.gpt.gpt_model import GPTModel  # noqa: E402
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer  # noqa: E402
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func  # noqa: E402
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402

from core import DEVICE, Job, job  # noqa: E402
from jobs_parallel import one_rank  # noqa: E402


@job("megatron", "megatron", "megatron", "steps", "forward", "tokens", "decoder", "layers", "checkpointing", "states")
class Megatron(Job):
    def draw(self):
        r = self.rng
        self.layers, self.width = r.choice([2, 3, 4, 6]), r.choice([512, 768, 1024])
        self.vocabulary, self.length, self.size = r.choice([8192, 16384, 32768]), r.choice([256, 512, 1024]), r.choice([2, 4])
        self.checkpointing, self.micro_batches, self.steps = r.random() < 0.25, r.choice([1, 2, 4]), r.choice([4, 5])
        self.distributed, self.fp32_gradients, self.clip = r.random() < 0.5, r.random() < 0.7, r.choice([0.0, 1.0])

    def config(self):
        recompute = {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1} if self.checkpointing else {}
        return TransformerConfig(num_layers=self.layers, hidden_size=self.width, num_attention_heads=8, params_dtype=torch.bfloat16,
                                 pipeline_dtype=torch.bfloat16, bf16=True, hidden_dropout=0.0, attention_dropout=0.0,
                                 gradient_accumulation_fusion=False, finalize_model_grads_func=finalize_model_grads, **recompute)

    def build(self):
        one_rank()
        parallel_state.initialize_model_parallel()
        model_parallel_cuda_manual_seed(1)
        config = self.config()
        net = GPTModel(config, get_gpt_layer_local_spec(), self.vocabulary, self.length, share_embeddings_and_output_weights=False).cuda().bfloat16()
        self.model = DistributedDataParallel(config, DistributedDataParallelConfig(grad_reduce_in_fp32=self.fp32_gradients,
                                                                                   use_distributed_optimizer=self.distributed), net)
        self.optimizers = [get_megatron_optimizer(OptimizerConfig(lr=1e-4, bf16=True, params_dtype=torch.bfloat16, clip_grad=self.clip,
                                                                  use_distributed_optimizer=self.distributed), [self.model])]
        self.schedule = get_forward_backward_func()

    def batch(self, i):
        return torch.zeros(self.size, self.length, dtype=torch.long, device=DEVICE)

    def loss(self, tokens):
        positions = torch.arange(self.length, device=DEVICE).unsqueeze(0)
        mask = torch.ones(1, 1, self.length, self.length, dtype=torch.bool, device=DEVICE).triu(1)
        return self.model(tokens, positions, mask, labels=tokens)

    def forward_step(self, batches, model):
        output = self.loss(next(batches))
        return output, lambda losses: (losses.float().mean(), {"loss": losses.detach().float().mean()})

    def step(self, i):
        self.model.zero_grad_buffer()
        self.optimizers[0].zero_grad()
        batches = (self.batch(i * self.micro_batches + k) for k in range(self.micro_batches))
        losses = self.schedule(forward_step_func=self.forward_step, data_iterator=batches, model=self.model, num_microbatches=self.micro_batches,
                               seq_length=self.length, micro_batch_size=self.size, forward_only=False)
        self.optimizers[0].step()
        return losses[-1]["loss"]

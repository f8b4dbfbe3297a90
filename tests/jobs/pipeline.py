"""Residual blocks between an embedding and a head, a stage a rank: PyTorch's own pipeline, whose stages tell each other their shapes as objects, or
DeepSpeed's, in which they do so as integers.

    pipeline.py --engine torch|deepspeed ...
"""
import torch
import torch.distributed as dist
import torch.nn as nn

from common import OPTIMIZERS, WORLD, LOCAL_RANK, RANK, Block, Truth, finish, options, tensors_of

p = options(layers=4, hidden=256, vocab=8192, seq=256)
p.add_argument("--engine", default="torch", choices=("torch", "deepspeed"))
o = p.parse_args()
MICRO_BATCHES = 4


def loss_of(logits, targets):
    return nn.functional.cross_entropy(logits.view(-1, o.vocab), targets.view(-1))


def tokens(micro_batches):
    return torch.randint(0, o.vocab, (micro_batches * o.micro_batch, o.seq))


def by_torch():
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    dist.init_process_group("nccl")
    each = o.layers // WORLD
    layers = [nn.Embedding(o.vocab, o.hidden)] * (RANK == 0) + [Block(o.hidden) for _ in range(each)] + [nn.Linear(o.hidden, o.vocab)] * (RANK == WORLD - 1)
    model = nn.Sequential(*layers).cuda()
    optimizer = OPTIMIZERS[o.optimizer](model.parameters())
    schedule = Schedule1F1B(PipelineStage(model, RANK, WORLD, torch.device("cuda")), MICRO_BATCHES, loss_fn=loss_of)

    def step():
        first = [tokens(MICRO_BATCHES).cuda()] if RANK == 0 else []
        schedule.step(*first, **({"target": tokens(MICRO_BATCHES).cuda()} if RANK == WORLD - 1 else {}))
        optimizer.step()
        truth.after_optimizer()
        optimizer.zero_grad()
    truth = Truth("pipelining", tensors_of(model, optimizer))
    return truth, step


def by_deepspeed():
    import deepspeed
    from deepspeed.pipe import LayerSpec, PipelineModule
    deepspeed.init_distributed("nccl")
    layers = [LayerSpec(nn.Embedding, o.vocab, o.hidden), *(LayerSpec(Block, o.hidden) for _ in range(o.layers)), LayerSpec(nn.Linear, o.hidden, o.vocab)]
    model = PipelineModule(layers=layers, num_stages=WORLD, loss_fn=loss_of)
    optimizer = OPTIMIZERS[o.optimizer](model.parameters())
    configuration = {"train_micro_batch_size_per_gpu": o.micro_batch, "gradient_accumulation_steps": MICRO_BATCHES, "zero_allow_untested_optimizer": True}
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=configuration)
    data = iter(lambda: (tokens(1), tokens(1)), None)

    def step():
        engine.train_batch(data_iter=data)
        truth.after_optimizer()
    truth = Truth("deepspeed_pipeline", tensors_of(engine.module, optimizer))
    return truth, step


torch.cuda.set_device(LOCAL_RANK)
truth, step = by_torch() if o.engine == "torch" else by_deepspeed()
for _ in range(o.steps):
    truth.before_step()
    step()
    truth.after_step()
truth.print()
finish()

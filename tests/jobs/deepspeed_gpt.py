"""GPT-2 under DeepSpeed's ZeRO, on one GPU, torchrun or the deepspeed launcher.

    deepspeed_gpt.py --zero 0|1|2|3 [--offload] [--bucket N] ...
"""
import torch

from common import OPTIMIZERS, Truth, batch, finish, options, start, LOCAL_RANK
from gpt import Recomputed, RecomputedAttention
from train_gpt2 import GPT


def arguments():
    p = options(layers=12, hidden=768, heads=12, vocab=50304, seq=1024)
    p.add_argument("--zero", type=int, default=1, choices=(0, 1, 2, 3))
    p.add_argument("--offload", action="store_true", help="the optimizer, and with ZeRO-3 the parameters, in host memory")
    p.add_argument("--bucket", type=int, default=50_000_000, help="elements of reduce and gather buckets")
    p.add_argument("--persistence", type=int, default=100_000, help="ZeRO-3: parameters up to this size stay gathered")
    p.add_argument("--no-overlap", action="store_true")
    p.add_argument("--no-contiguous", action="store_true")
    p.add_argument("--local_rank", type=int, default=0, help="given by the deepspeed launcher")
    return p.parse_args()


def configuration(o):
    zero = {"stage": o.zero, "overlap_comm": not o.no_overlap, "contiguous_gradients": not o.no_contiguous,
            "reduce_bucket_size": o.bucket, "allgather_bucket_size": o.bucket}
    if o.zero == 3:
        zero.update(stage3_prefetch_bucket_size=o.bucket, stage3_param_persistence_threshold=o.persistence)
    if o.offload:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
        if o.zero == 3:
            zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    return {"train_micro_batch_size_per_gpu": o.micro_batch, "gradient_accumulation_steps": o.accumulate, "zero_optimization": zero,
            "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False, "gradient_clipping": o.clip,
            "bf16": {"enabled": o.dtype in ("bf16", "bf16_pure")}, "fp16": {"enabled": o.dtype == "fp16"}}


def tensors_of(engine):
    """ZeRO's own storages: partitions of ZeRO-3, the flat fp32 partitions and gradient buffers of its optimizer."""
    def collect():
        zero = engine.optimizer
        parameters = [p for q in engine.module.parameters() for p in (q, getattr(q, "ds_tensor", None)) if p is not None]
        held = getattr(zero, "single_partition_of_fp32_groups", None) or getattr(zero, "fp32_partitioned_groups_flat", None) or []
        base = getattr(zero, "optimizer", zero)
        states = [v for s in base.state.values() for v in s.values() if torch.is_tensor(v)]
        gradients = [p.grad for p in engine.module.parameters()] + [t.grad for t in held]
        averaged = getattr(zero, "averaged_gradients", None)
        gradients += [g for group in (averaged or {}).values() if group for g in group]
        gradients += [getattr(zero, "_DeepSpeedZeroOptimizer_Stage3__param_id_to_grad_partition", None)]
        gradients = [g for entry in gradients for g in (entry.values() if isinstance(entry, dict) else [entry])]
        return {"parameters": parameters, "gradients": gradients, "optimizer_states": states + list(held),
                "buffers": list(engine.module.buffers())}
    return collect


def main():
    import deepspeed
    o = arguments()
    torch.cuda.set_device(LOCAL_RANK)
    deepspeed.init_distributed("nccl")
    model = GPT(o.layers, o.hidden, o.heads, o.vocab, o.seq, o.attention == "sdpa")
    if o.recompute != "none":
        for block in model.h:
            block.__class__ = Recomputed if o.recompute == "full" else RecomputedAttention
    elements = sum(p.numel() for p in model.parameters())
    optimizer = OPTIMIZERS[o.optimizer](model.parameters())
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=configuration(o))
    truth = Truth(f"zero{o.zero}", tensors_of(engine), elements=elements)
    for _ in range(o.steps):
        truth.before_step()
        for _ in range(o.accumulate):
            tokens, targets = batch(o)
            loss = engine(tokens, targets)[1]
            engine.backward(loss)
            if engine.is_gradient_accumulation_boundary():
                truth.after_optimizer()
            engine.step()
        truth.after_step()
    if o.save:
        engine.save_checkpoint(o.save)
    truth.print()
    finish()
    return engine


if __name__ == "__main__":
    kept = main()

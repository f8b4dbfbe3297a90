"""Runs a training script and writes its tensors by category: with_categories.py OUT SCRIPT [ARG...]

OUT.RANK gets, as JSON, marks of the training loop (before and after the model's forward, backward, the optimizer's step, torch.save and
torch.load), each with PyTorch's own count of allocations, and which storages were parameters, buffers, gradients and optimizer states there; and each storage
that autograd saved for a backward pass, with the count at that time. Nothing here allocates on the GPU.
"""
import gc
import json
import os
import runpy
import sys

import torch
from torch.autograd.graph import saved_tensors_hooks

marks, saved, optimizers = [], [], []
state = {"backward": 0, "depth": 0}


def allocations():
    if not torch.cuda.is_initialized():
        return 0
    return torch._C._cuda_memoryStats(torch.cuda.current_device())["allocation"]["all"]["allocated"]


def addresses(tensors):
    found = set()
    for tensor in tensors:
        tensor = getattr(tensor, "_local_tensor", tensor)
        if torch.is_tensor(tensor) and tensor.device.type == "cuda" and tensor.untyped_storage().nbytes():
            found.add(tensor.untyped_storage().data_ptr())
    return sorted(found)


def modules():
    return [m for m in gc.get_objects() if issubclass(type(m), torch.nn.Module)]  # a proxy's type may be asked for, not its object


def partition(p):
    """The part of a parameter that ZeRO-3 keeps on this rank; a quantised parameter (bitsandbytes) and its scales"""
    if hasattr(p, "ds_tensor"):
        return [p.ds_tensor]
    scales, found = getattr(p, "quant_state", None), [p]
    while scales is not None:
        found += [scales.absmax, scales.code] + ([scales.offset] if getattr(scales, "offset", None) is not None else [])
        scales = getattr(scales, "state2", None)
    return found


def gradients_of_deepspeed():
    """ZeRO keeps a rank's part of them outside the parameters."""
    if "zero" not in state and "deepspeed" in sys.modules:
        state["zero"] = [o for o in gc.get_objects() if type(o).__name__ in ("DeepSpeedZeroOptimizer", "DeepSpeedZeroOptimizer_Stage3")]
    found = []
    for o in state.get("zero", ()):
        found += [g for group in (getattr(o, "averaged_gradients", None) or {}).values() for g in group or ()]
        found += getattr(o, "_DeepSpeedZeroOptimizer_Stage3__param_id_to_grad_partition", {}).values()
    return found


def tensors_of_optimizers():
    groups = [p for o in optimizers for g in o.param_groups for p in g["params"]]
    states = [t for o in optimizers for s in o.state.values() for t in s.values()]
    return groups, states


def mark(kind):
    entry = {"kind": kind, "allocations": allocations()}
    owned = {}
    if kind in ("optimizer begin", "optimizer end"):
        mods = modules()
        parameters = [p for m in mods for p in m._parameters.values() if p is not None]
        groups, states = tensors_of_optimizers()
        gradients = [getattr(p, name, None) for p in parameters + groups for name in ("grad", "main_grad", "decoupled_grad")]
        owned["gradients"] = addresses(gradients + gradients_of_deepspeed())
        owned["buffers"] = addresses(b for m in mods for b in m._buffers.values())
        owned["parameters"] = addresses(t for p in parameters for t in partition(p))
        owned["optimizer_states"] = addresses(states + groups)
    entry["owned"] = owned
    marks.append(entry)


def gathered():
    """FSDP1's gathered parameters at this time"""
    if "handles" not in state:
        state["handles"] = [m._handle for m in modules() if getattr(m, "_handle", None) is not None]
    return addresses(getattr(h.flat_param, "_full_param_padded", None) for h in state["handles"])


def note(tensor):
    if tensor.device.type == "cuda" and not isinstance(tensor, torch.nn.Parameter):
        found = addresses([tensor])
        if found and found[0] not in gathered():
            saved.append([found[0], allocations()])


def pack(tensor):
    note(tensor)
    return tensor if tensor.is_leaf else tensor.detach()


def watch_saved():
    """Tensors saved by hooks of others, too: those of recomputation. The first run of a checkpoint saves nothing."""
    original = saved_tensors_hooks.__init__

    def __init__(self, pack_hook, unpack_hook):
        def noting(tensor):
            note(tensor)
            return pack_hook(tensor)
        keeps = pack_hook is not pack and type(self).__name__ != "_checkpoint_hook"
        original(self, noting if keeps else pack_hook, unpack_hook)
    saved_tensors_hooks.__init__ = __init__


def watch_backward():
    original = torch.autograd.backward

    def backward(*args, **keys):
        state["backward"] += 1
        if state["backward"] == 1:
            mark("backward begin")
        try:
            return original(*args, **keys)
        finally:
            state["backward"] -= 1
            if not state["backward"]:
                mark("backward end")
    torch.autograd.backward = backward
    if "megatron.core" in sys.modules:
        from megatron.core.pipeline_parallel import schedules
        custom = schedules.custom_backward

        def custom_backward(*args):
            state["backward"] += 1
            mark("backward begin")
            custom(*args)
            state["backward"] -= 1
            mark("backward end")
        schedules.custom_backward = custom_backward


def watch_modules():
    from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

    def before(module, args):
        if not state["backward"]:
            state["depth"] += 1
            if state["depth"] == 1:
                mark("forward begin" if torch.is_grad_enabled() else "evaluation begin")

    def after(module, args, out):
        if not state["backward"]:
            state["depth"] -= 1
            if not state["depth"]:
                mark("forward end" if torch.is_grad_enabled() else "evaluation end")
    register_module_forward_pre_hook(before)
    register_module_forward_hook(after)


def watch_checkpoints():
    for name in ("save", "load"):
        def wrapped(*args, original=getattr(torch, name), **keys):
            mark("checkpoint begin")
            done = original(*args, **keys)
            mark("checkpoint end")
            return done
        setattr(torch, name, wrapped)


def watch_optimizers():
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    def before(optimizer, args, keys):
        if optimizer not in optimizers:
            optimizers.append(optimizer)
        mark("optimizer begin")
    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(lambda optimizer, args, keys: mark("optimizer end"))


if __name__ == "__main__":
    out, script = sys.argv[1:3]
    sys.argv = sys.argv[2:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    if "megatron" in script:
        import megatron.core.pipeline_parallel.schedules  # noqa: F401
    for watch in (watch_saved, watch_backward, watch_checkpoints, watch_optimizers):
        watch()
    if not os.environ.get("WITHOUT_MODULE_MARKS"):
        watch_modules()
    with saved_tensors_hooks(pack, lambda t: t):
        kept = runpy.run_path(script, run_name="__main__")
    with open(f"{out}.{os.environ.get('RANK', 0)}", "w") as f:
        json.dump({"marks": marks, "saved": saved}, f)
    os._exit(0)

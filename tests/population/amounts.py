"""How much a fault takes, relative to what the job needs; and where it gets into a job."""
import torch

LEAST = 64 << 20  # bytes: a job that has hardly begun


def peak():
    """Bytes that the job has needed until now. Faults ask once, before they take effect, so that their fixed form gets the same answer."""
    return max(torch.cuda.max_memory_allocated(), LEAST)


def rows(share, width, item=4):
    """Rows of `width` items that take this share of the peak."""
    return max(2, int(share * peak() / (width * item)))


def side(share, item=4):
    """The side of a square matrix that takes this share of the peak."""
    return max(2, int((share * peak() / item) ** 0.5))


def after_build(target, do):
    """Calls do() after target.build()."""
    build = target.build

    def build_all():
        build()
        do()
    target.build = build_all


def with_output(target, do):
    """Calls do(output) after each forward pass of the job's model."""
    after_build(target, lambda: target.model.register_forward_hook(lambda module, inputs, output: do(output)))


def light(target, rng):
    """Makes batches small, so that parameters weigh more than activations. Jobs without these sizes stay as they are."""
    for name, largest in ("size", 2), ("length", 128):
        if isinstance(getattr(target, name, None), int):
            setattr(target, name, min(getattr(target, name), rng.choice([largest // 2, largest])))


def deep(target, rng):
    """Makes parameters many and each of them small: more layers, a small vocabulary, a batch of one short row."""
    light(target, rng)
    for name, largest in ("size", 1), ("length", 64):
        if isinstance(getattr(target, name, None), int):
            setattr(target, name, min(getattr(target, name), largest))
    if "layers" in target.traits:
        target.layers *= rng.choice([2, 3])
    if isinstance(getattr(target, "vocabulary", None), int):
        target.vocabulary = min(target.vocabulary, 4000)


def blocks(model):
    """The repeated blocks of a model: the children of its largest list of modules."""
    lists = [m for m in model.modules() if isinstance(m, (torch.nn.ModuleList, torch.nn.Sequential)) and len(m) > 2]
    return list(max(lists, key=lambda m: sum(p.numel() for p in m.parameters()))) if lists else []


def largest_tensor(output):
    """The largest tensor of floating numbers in what a model returned."""
    if torch.is_tensor(output):
        return output if output.is_floating_point() else None
    values = output.values() if hasattr(output, "values") else output if isinstance(output, (tuple, list)) else ()
    return max((t for t in map(largest_tensor, values) if t is not None), key=lambda t: t.numel(), default=None)


def mapped(batch, do):
    """A batch of any form, with do(tensor) in place of each tensor."""
    if torch.is_tensor(batch):
        return do(batch)
    if hasattr(batch, "items"):
        return type(batch)({k: mapped(v, do) for k, v in batch.items()})
    return type(batch)(mapped(v, do) for v in batch) if isinstance(batch, (tuple, list)) else batch


def sized(target):
    """Whether the batches' size may be changed."""
    return isinstance(getattr(target, "size", None), int) and bool(target.traits & {"tokens", "images"})

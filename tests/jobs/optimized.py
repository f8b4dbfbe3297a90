"""Graphs that lead to a parameter which an optimizer has, and graphs that do not, each in a function of its name. optimized.py FILE: writes, by function,
whether a parameter of an optimizer is behind its result, as the graph says; and the bytes of the parameters that optimizers have."""
import json
import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

LAYERS, WIDTH = 12, 512
rows = torch.randn(256, WIDTH, device="cuda")


def layers():
    return nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]).cuda()


model, base, teacher, frozen, head = layers(), layers(), layers(), layers().requires_grad_(False), nn.Linear(WIDTH, WIDTH).cuda()
prompt = nn.Parameter(torch.zeros(256, WIDTH, device="cuda"))
optimizers = [torch.optim.AdamW(model.parameters()), torch.optim.SGD([{"params": head.parameters()}, {"params": [prompt]}], lr=0.1)]
with torch.device("cuda"):  # its mode stands between the optimizer and the parameter
    of_a_device = layers()
    optimizers.append(torch.optim.Adam(of_a_device.parameters()))
replaced = layers()
first = torch.optim.AdamW(replaced.parameters())
optimizers.append(torch.optim.AdamW(replaced[-1].parameters()))
kept = layers()
optimizers.append(torch.optim.SGD(kept.parameters(), lr=0.1))  # it steps beside the next one
optimizers.append(torch.optim.SGD(kept[-1].parameters(), lr=0.1))
added = layers()
optimizers[0].add_param_group({"params": added.parameters()})


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * 0.5

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


def trained():
    return model(rows)


def behind_a_base():
    return head(not_frozen())


def not_frozen():
    return base(rows)


def taught():
    return teacher(rows)


def judged():
    """A network in the loss: gradients go through it."""
    return teacher(trained())


def behind_a_prompt():
    return base(rows + prompt)


def of_frozen_layers():
    return frozen(rows + prompt)


def made_under_a_device():
    return of_a_device(rows)


def of_a_replaced_optimizer():
    return replaced[:-1](rows)


def of_an_added_group():
    return added(rows)


def recomputed_later():
    x = rows
    for layer in base:
        x = checkpoint(layer, x, use_reentrant=False)
    return x


def of_an_input():
    """An attack: the gradient of the input is what it wants, and no optimizer has that."""
    return base(rows.clone().requires_grad_())


def behind_a_function():
    """What a function with a backward pass of its own leads to is not followed."""
    x = Square.apply(base[0](rows))
    for layer in base[1:]:
        x = layer(x)
    return x


def of_a_changed_part():
    """What the part is set to comes into the graph beside the tensor."""
    x = base[0](rows)
    x[:20] = prompt[:20]
    return base[1:](x)


def handed_on():
    """The gradient of what is detached is handed on to the graph before it, as a cache of gradients does."""
    x = trained().detach().requires_grad_()
    for k in range(LAYERS):
        x = x * x
    return x


def of_two_optimizers():
    return kept[:-1](rows)


def summed():
    """Blocks of operations that have one input of either kind."""
    return sum(base[k](rows) * model[k](rows) for k in range(LAYERS))


def leaves_of(tensor):
    """The tensors whose gradients a backward pass from this one adds up."""
    seen, todo, found = set(), [tensor.grad_fn], []
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        todo += [n for n, _ in node.next_functions]
    return found


parameters = {id(p): p.numel() * p.element_size() for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
truth = {f.__name__: any(id(leaf) in parameters for leaf in leaves_of(f()))
         for f in (trained, not_frozen, taught, judged, behind_a_base, behind_a_prompt, of_frozen_layers, made_under_a_device, of_a_replaced_optimizer,
                   of_an_added_group, recomputed_later, of_an_input, behind_a_function, of_a_changed_part, handed_on, of_two_optimizers, summed)}
assert all(leaves_of(globals()[name]()) for name in truth)
with torch.no_grad():  # an average of weights, and a step
    for parameter in [*teacher.parameters(), *kept.parameters()]:
        parameter.mul_(0.9)
for function in taught, trained, of_two_optimizers:
    function()
with open(sys.argv[1], "w") as f:
    json.dump({"needed": truth, "bytes": sum(parameters.values())}, f)

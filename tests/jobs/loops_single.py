"""Loops with one optimizer: for loops.py."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from loop_parts import BATCH, STEPS, adamw, batch, loop, m, net, train


# ---- gradients set to zero, in all the ways there are ----

@loop
def plain():
    model = net()
    train(model, adamw(model), after=lambda model, o: o.zero_grad())


@loop
def zero_before_forward():
    model = net()
    train(model, adamw(model), before=lambda model, o: o.zero_grad())


@loop
def zero_in_place():
    model = net()
    train(model, adamw(model), before=lambda model, o: o.zero_grad(set_to_none=False))


@loop
def zero_in_place_fused():
    model = net()
    train(model, adamw(model, fused=True), after=lambda model, o: o.zero_grad(set_to_none=False))


@loop
def zero_in_place_dies():
    """Out of memory in the forward pass of the second step"""
    model = net()

    def before(model, optimizer):
        optimizer.zero_grad(set_to_none=False)
        model.trap = BATCH if m.step == 2 else None
    train(model, adamw(model), before=before)


@loop
def module_zero_grad():
    model = net()
    train(model, adamw(model, fused=True), after=lambda model, o: model.zero_grad())


@loop
def grad_is_none():
    model = net()

    def forget(model, optimizer):
        for p in model.parameters():
            p.grad = None
    train(model, adamw(model, foreach=False), after=forget)


@loop
def never_zeroed():
    model = net()
    train(model, adamw(model, fused=True))


# ---- optimizers ----

@loop
def sgd():
    """No states, and nothing allocated by the optimizer"""
    model = net()
    train(model, torch.optim.SGD(model.parameters(), lr=1e-3), before=lambda model, o: o.zero_grad())


@loop
def sgd_in_place():
    model = net()
    train(model, torch.optim.SGD(model.parameters(), lr=1e-3), after=lambda model, o: o.zero_grad(set_to_none=False))


@loop
def sgd_by_hand():
    """parameters changed by the job's own code"""
    model = net()
    for _ in range(STEPS):
        m.forward()
        loss = F.mse_loss(model(batch()), batch())
        m.backward()
        loss.backward()
        m.optimizer()
        with torch.no_grad():
            for p in model.parameters():
                p -= 1e-3 * p.grad
                p.grad = None
        m.next()


@loop
def lbfgs():
    """Several forward and backward passes in a step, inside of it"""
    model = net(layers=1)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3, history_size=2, tolerance_grad=0, tolerance_change=0)
    for _ in range(STEPS):
        m.forward()
        x, y = batch(), batch()

        def closure():
            m.forward()
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            m.backward()
            loss.backward()
            m.optimizer()
            return loss
        optimizer.step(closure)
        m.next()


@loop
def closure():
    """The optimizer's step calls the training step, as Lightning does."""
    model = net()
    optimizer = adamw(model)
    for _ in range(STEPS):
        m.forward()
        x, y = batch(), batch()

        def training_step():
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad()
            m.backward()
            loss.backward()
            m.optimizer()
            return loss
        optimizer.step(training_step)
        m.next()


@loop
def in_backward():
    """Each parameter's own optimizer, in a hook of the backward pass"""
    model = net()
    each = {p: torch.optim.Adam([p], lr=1e-4, foreach=False) for p in model.parameters()}

    def hook(p):
        each[p].step()
        each[p].zero_grad()
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(hook)
    for _ in range(STEPS):
        m.forward()
        loss = F.mse_loss(model(batch()), batch())
        m.backward()
        loss.backward()
        m.optimizer()
        m.next()


@loop
def scaler():
    model = net()
    optimizer = adamw(model)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(STEPS):
        m.forward()
        x, y = batch(), batch()
        with torch.autocast("cuda", torch.float16):
            loss = F.mse_loss(model(x).float(), y)
        optimizer.zero_grad()
        m.backward()
        scaler.scale(loss).backward()
        m.optimizer()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        m.next()


@loop
def clipped():
    model = net()
    train(model, adamw(model, fused=True), clip=1.0, before=lambda model, o: o.zero_grad())


@loop
def autocast():
    model = net()

    def loss_of(out, y):
        return F.mse_loss(out.float(), y)
    with torch.autocast("cuda", torch.bfloat16):
        train(model, adamw(model, fused=True), loss_of=loss_of, after=lambda model, o: o.zero_grad())


@loop
def scheduled_with_ema():
    model = net()
    optimizer = adamw(model)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    ema = {k: v.detach().clone() for k, v in model.state_dict().items()}

    def after(model, optimizer):
        schedule.step()
        with torch.no_grad():
            for k, v in model.state_dict().items():
                ema[k].copy_(0.99 * ema[k] + 0.01 * v)
        optimizer.zero_grad()
    train(model, optimizer, after=after)


# ---- accumulation ----

@loop
def accumulated():
    model = net()
    optimizer = adamw(model, fused=True)
    for _ in range(STEPS):
        for _ in range(4):
            m.forward()
            loss = F.mse_loss(model(batch()), batch()) / 4
            m.backward()
            loss.backward()
        m.optimizer()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        m.next()


@loop
def accumulated_by_index():
    """`if i % 4 == 3` in a loop over micro-batches, the number of which is no multiple of 4"""
    model = net()
    optimizer = adamw(model)
    for i in range(14):
        m.forward()
        x, y = batch(), batch()
        loss = F.mse_loss(model(x), y) / 4
        m.backward()
        loss.backward()
        if i % 4 == 3:
            m.optimizer()
            optimizer.step()
            optimizer.zero_grad()
            m.next()


@loop
def losses_summed():
    """Micro-batches whose losses are added; one backward pass for all"""
    model = net()
    optimizer = adamw(model)
    for _ in range(STEPS):
        m.forward()
        total = 0
        for _ in range(4):
            total = total + F.mse_loss(model(batch()), batch())
        optimizer.zero_grad()
        m.backward()
        total.backward()
        m.optimizer()
        optimizer.step()
        m.next()


@loop
def losses_summed_dies():
    model = net()
    optimizer = adamw(model, fused=True)
    for step in range(STEPS):
        m.forward()
        total = 0
        for i in range(4):
            model.trap = BATCH if (step, i) == (1, 3) else None
            total = total + F.mse_loss(model(batch()), batch())
        m.backward()
        total.backward()
        m.optimizer()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        m.next()


@loop
def losses_backward_one_by_one():
    """Two forward passes, then two backward passes"""
    model = net()
    optimizer = adamw(model)
    for _ in range(STEPS):
        m.forward()
        first, second = F.mse_loss(model(batch()), batch()), F.mse_loss(model(batch()), batch())
        m.backward()
        first.backward()
        second.backward()
        m.optimizer()
        optimizer.step()
        optimizer.zero_grad()
        m.next()

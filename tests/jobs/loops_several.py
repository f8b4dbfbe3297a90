"""Loops with several optimizers, with forward passes that no backward pass follows, and others: for loops.py."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import with_categories
from loop_parts import BATCH, STEPS, WIDTH, adamw, batch, loop, m, models, net, train


# ---- several optimizers ----

@loop
def two_optimizers():
    """Both step after one backward pass."""
    body, head = net(), net(layers=1)
    first, second = adamw(body), torch.optim.SGD(head.parameters(), lr=1e-3, momentum=0.9)
    for _ in range(STEPS):
        m.forward()
        x, y = batch(), batch()
        loss = F.mse_loss(head(body(x)), y)
        first.zero_grad()
        second.zero_grad()
        m.backward()
        loss.backward()
        m.optimizer()
        first.step()
        second.step()
        m.next()


def gan_round(g, d, og, od, turns=1):
    """The discriminator learns `turns` times, then the generator once."""
    for _ in range(turns):
        m.forward()
        real, noise = batch(), batch()
        fake = g(noise)
        loss = F.softplus(-d(real)).mean() + F.softplus(d(fake.detach())).mean()
        od.zero_grad()
        m.backward()
        loss.backward()
        m.optimizer()
        od.step()
    m.forward()
    loss = F.softplus(-d(g(batch()))).mean()
    og.zero_grad()
    m.backward()
    loss.backward()
    m.optimizer()
    og.step()
    m.next()


@loop
def gan():
    g, d = net(), net(out=1)
    og, od = adamw(g), adamw(d)
    for _ in range(STEPS):
        gan_round(g, d, og, od)


@loop
def gan_twice():
    g, d = net(), net(out=1)
    og, od = adamw(g, fused=True), adamw(d, fused=True)
    for _ in range(STEPS):
        gan_round(g, d, og, od, turns=2)


@loop
def gan_sgd():
    g, d = net(), net(out=1)
    og, od = torch.optim.SGD(g.parameters(), lr=1e-3), torch.optim.SGD(d.parameters(), lr=1e-3)
    for _ in range(STEPS):
        gan_round(g, d, og, od)


@loop
def gan_of_the_tutorial():
    """DCGAN of PyTorch's tutorials: three backward passes, the fake images are made once"""
    g, d = net(), net(out=1)
    og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
    for _ in range(STEPS):
        m.forward()
        d.zero_grad()
        real = batch()
        error_real = F.softplus(-d(real)).mean()
        m.backward()
        error_real.backward()
        m.forward()
        fake = g(batch())
        error_fake = F.softplus(d(fake.detach())).mean()
        m.backward()
        error_fake.backward()
        m.optimizer()
        od.step()
        g.zero_grad()
        m.forward()
        error = F.softplus(-d(fake)).mean()
        m.backward()
        error.backward()
        m.optimizer()
        og.step()
        m.next()


@loop
def actor_critic():
    """Two losses of one batch, two networks, two optimizers, each with its own backward pass"""
    actor, critic = net(out=8), net(out=1)
    oa, oc = adamw(actor), adamw(critic)
    for _ in range(STEPS):
        m.forward()
        x, returns = batch(), batch()[:, :1]
        value = critic(x)
        critic_loss = F.mse_loss(value, returns)
        log = F.log_softmax(actor(x), -1)[:, 0]
        actor_loss = -(log * (returns - value.detach())[:, 0]).mean()
        oa.zero_grad()
        m.backward()
        actor_loss.backward()
        m.optimizer()
        oa.step()
        oc.zero_grad()
        m.backward()
        critic_loss.backward()
        m.optimizer()
        oc.step()
        m.next()


@loop
def actor_critic_summed():
    actor, critic = net(out=8), net(out=1)
    both = torch.optim.AdamW([*actor.parameters(), *critic.parameters()], lr=1e-4)
    for _ in range(STEPS):
        m.forward()
        x, returns = batch(), batch()[:, :1]
        value = critic(x)
        log = F.log_softmax(actor(x), -1)[:, 0]
        loss = F.mse_loss(value, returns) - (log * (returns - value.detach())[:, 0]).mean()
        m.backward()
        loss.backward()
        m.optimizer()
        both.step()
        both.zero_grad()
        m.next()


# ---- forward passes without a backward pass ----

@loop
def reference_after():
    """A frozen model looks at the batch after the trained one."""
    model, reference = net(), net().requires_grad_(False)
    optimizer = adamw(model)
    for _ in range(STEPS):
        m.forward()
        x = batch()
        out = model(x)
        m.evaluation()
        with torch.no_grad():
            other = reference(x)
        m.forward()
        loss = F.kl_div(F.log_softmax(out, -1), F.log_softmax(other, -1), log_target=True)
        m.backward()
        loss.backward()
        m.optimizer()
        optimizer.step()
        optimizer.zero_grad()
        m.next()


@loop
def reference_before():
    model, reference = net(), net().requires_grad_(False)
    optimizer = adamw(model)
    for _ in range(STEPS):
        m.forward()
        x = batch()
        m.evaluation()
        with torch.no_grad():
            other = reference(x)
        m.forward()
        loss = F.mse_loss(model(x), other)
        m.backward()
        loss.backward()
        m.optimizer()
        optimizer.step()
        optimizer.zero_grad()
        m.next()


@loop
def policy_gradient():
    """A rollout of several passes, then two updates from it"""
    policy = net(out=8)
    optimizer = adamw(policy)
    for turn in range(3):
        m.evaluation() if turn else m.silence()  # of the step before
        seen = []
        for _ in range(5):
            x = batch()
            with torch.no_grad():
                seen.append((x, torch.distributions.Categorical(logits=policy(x)).sample()))
        for x, action in seen[:2]:
            m.next() if m.list[-1][2] else None
            m.forward()
            loss = F.cross_entropy(policy(x), action)
            m.backward()
            loss.backward()
            m.optimizer()
            optimizer.step()
            optimizer.zero_grad()


@loop
def evaluated():
    """Every second step, with torch.no_grad() around the loop's own lines"""
    model = net()
    optimizer = adamw(model, fused=True)
    for step in range(6):
        m.forward()
        x, y = batch(), batch()
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad(set_to_none=False)
        m.backward()
        loss.backward()
        m.optimizer()
        optimizer.step()
        if step % 2:
            m.evaluation()
            model.eval()
            with torch.no_grad():
                for _ in range(3):
                    F.mse_loss(model(batch()), batch())
            model.train()
        m.next()


def quality(model):
    with torch.inference_mode():
        return sum(F.mse_loss(model(batch()), batch()) for _ in range(2))


@loop
def evaluated_first():
    """Before the first step, and after each epoch"""
    model = net()
    optimizer = adamw(model)
    m.silence()
    quality(model)
    for epoch in range(2):
        for _ in range(3):
            m.forward()
            loss = F.mse_loss(model(batch()), batch())
            m.backward()
            loss.backward()
            m.optimizer()
            optimizer.step()
            optimizer.zero_grad()
            m.next()
        m.step -= 1
        m.evaluation()
        quality(model)
        m.step += 1


@loop
def inference():
    """Without training, all is one step's forward pass."""
    model = net()
    with_categories.mark("optimizer begin")
    for _ in range(12):
        m.forward()
        with torch.no_grad():
            model(batch())


# ---- others ----

@loop
def recomputed():
    model = net(recompute=True)
    train(model, adamw(model, fused=True), after=lambda model, o: o.zero_grad(set_to_none=False))


@loop
def twice_forward():
    """The same model twice a step, two views of one batch; one loss"""
    model = net()
    optimizer = adamw(model, fused=True)
    for _ in range(STEPS):
        m.forward()
        one, two = model(batch()), model(batch())
        loss = F.mse_loss(one, two) + F.cross_entropy(one @ two.T, torch.arange(BATCH, device="cuda"))
        m.backward()
        loss.backward()
        m.optimizer()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        m.next()


def fit(model, optimizer, rows):
    m.forward()
    loss = F.mse_loss(model(batch(rows)), batch(rows))
    m.backward()
    loss.backward()
    m.optimizer()
    optimizer.step()
    optimizer.zero_grad()


@loop
def retried():
    """Out of memory in the third step; half the batch inside `except`"""
    model = net()
    optimizer = adamw(model)
    for step in range(STEPS):
        model.trap = BATCH if step == 2 else None
        try:
            fit(model, optimizer, BATCH)
        except torch.cuda.OutOfMemoryError:
            fit(model, optimizer, BATCH // 2)
        m.next()


@loop
def skipped():
    """Out of memory in the second step; the loop goes on with the next batch"""
    model = net()
    optimizer = adamw(model, fused=True)
    for step in range(STEPS):
        model.trap = BATCH if step == 1 else None
        try:
            fit(model, optimizer, BATCH)
        except torch.cuda.OutOfMemoryError:
            continue
        m.next()


@loop
def gradient_penalty():
    """torch.autograd.grad with create_graph: a backward pass inside of the loss"""
    d = net(out=1)
    optimizer = adamw(d)
    for _ in range(STEPS):
        m.forward()
        x = batch().requires_grad_()
        out = d(x).sum()
        m.backward()
        slope, = torch.autograd.grad(out, x, create_graph=True)
        m.forward()
        loss = (slope.norm(dim=1) - 1).square().mean() + F.softplus(-d(batch())).mean()
        m.backward()
        loss.backward()
        m.optimizer()
        optimizer.step()
        optimizer.zero_grad()
        m.next()


@loop
def truncated():
    """A hidden state is carried on; its graph is cut each step"""
    cell, head = nn.LSTM(WIDTH, WIDTH).cuda(), net(layers=1)
    models.append(cell)
    optimizer = torch.optim.AdamW([*cell.parameters(), *head.parameters()], lr=1e-4)
    hidden = None
    for _ in range(STEPS):
        m.forward()
        out, hidden = cell(m.input(16, 64, WIDTH), hidden)
        hidden = tuple(h.detach() for h in hidden)
        loss = head(out).square().mean()
        m.backward()
        loss.backward()
        m.optimizer()
        optimizer.step()
        optimizer.zero_grad()
        m.next()


@loop
def compiled():
    model = net()
    fast = torch.compile(model, backend="aot_eager")
    optimizer = adamw(model, fused=True)
    for _ in range(STEPS):
        m.forward()
        loss = F.mse_loss(fast(batch()), batch())
        m.backward()
        loss.backward()
        m.optimizer()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        m.next()

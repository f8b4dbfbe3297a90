"""Loops that were written when those of loops_single.py and loops_several.py were right: for loops.py."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from loop_parts import BATCH, STEPS, WIDTH, Net, adamw, batch, loop, m, models, net


def learn(loss, *optimizers, clear=True):
    m.backward()
    loss.backward()
    m.optimizer()
    for optimizer in optimizers:
        optimizer.step()
        if clear:
            optimizer.zero_grad()


@loop
def wgan_of_five():
    """Five turns of the critic, whose weights are then clipped"""
    g, d = net(), net(out=1)
    og, od = torch.optim.RMSprop(g.parameters()), torch.optim.RMSprop(d.parameters())
    for _ in range(3):
        for _ in range(5):
            m.forward()
            noise = batch()
            m.evaluation()
            with torch.no_grad():
                fake = g(noise)
            m.forward()
            learn(d(fake).mean() - d(batch()).mean(), od)
            for p in d.parameters():
                p.data.clamp_(-0.01, 0.01)
        m.forward()
        learn(-d(g(batch())).mean(), og)
        m.next()


@loop
def gan_accumulated():
    """Two micro-batches for each optimizer"""
    g, d = net(), net(out=1)
    og, od = adamw(g, fused=True), adamw(d, fused=True)
    for _ in range(STEPS):
        for _ in range(2):
            m.forward()
            loss = (F.softplus(-d(batch())) + F.softplus(d(g(batch()).detach()))).mean()
            m.backward()
            loss.backward()
        m.optimizer()
        od.step()
        od.zero_grad(set_to_none=False)
        for _ in range(2):
            m.forward()
            loss = F.softplus(-d(g(batch()))).mean()
            m.backward()
            loss.backward()
        m.optimizer()
        og.step()
        og.zero_grad(set_to_none=False)
        m.next()


@loop
def gan_dies():
    """In the generator's turn of the third step"""
    g, d = net(), net(out=1)
    og, od = adamw(g), adamw(d)
    for step in range(STEPS):
        m.forward()
        learn((F.softplus(-d(batch())) + F.softplus(d(g(batch()).detach()))).mean(), od)
        m.forward()
        g.trap = BATCH if step == 2 else None
        learn(F.softplus(-d(g(batch()))).mean(), og)
        m.next()


@loop
def target_network():
    """Q-learning: the target network looks at the next state before the loss"""
    online, target = net(out=8), net(out=8).requires_grad_(False)
    optimizer = adamw(online, fused=True)
    for step in range(6):
        m.forward()
        state, after = batch(), batch()
        q = online(state).amax(1)
        m.evaluation()
        with torch.no_grad():
            goal = target(after).amax(1)
        m.forward()
        learn(F.smooth_l1_loss(q, goal), optimizer)
        if step % 2:
            target.load_state_dict(online.state_dict())
        m.next()


@loop
def momentum_encoder():
    query, key = net(), net().requires_grad_(False)
    optimizer = torch.optim.SGD(query.parameters(), lr=0.1, momentum=0.9)
    for _ in range(STEPS):
        m.forward()
        x = batch()
        q = F.normalize(query(x), dim=1)
        with torch.no_grad():
            for a, b in zip(query.parameters(), key.parameters()):
                b.mul_(0.9).add_(a, alpha=0.1)
            m.evaluation()
            k = key(x)
        m.forward()
        loss = -(q * F.normalize(k, dim=1)).sum(1).mean()
        learn(loss, optimizer)
        m.next()


@loop
def head_first():
    """Two steps with one optimizer, then two with another"""
    body, head = net(), net(layers=1)
    first, second = adamw(head), torch.optim.AdamW([*body.parameters(), *head.parameters()], lr=1e-5)
    for _ in range(2):
        m.forward()
        learn(head(body(batch()).detach()).square().mean(), first)
        m.next()
    for _ in range(2):
        m.forward()
        learn(head(body(batch())).square().mean(), second)
        m.next()


@loop
def two_tasks():
    """A backward pass for each task's batch, one optimizer"""
    model = net()
    optimizer = adamw(model)
    for _ in range(STEPS):
        m.forward()
        loss = model(batch()).square().mean()
        m.backward()
        loss.backward()
        m.forward()
        loss = model(batch()).abs().mean()
        learn(loss, optimizer)
        m.next()


@loop
def amp_accumulated():
    model = net()
    optimizer, scaler = adamw(model, fused=True), torch.amp.GradScaler("cuda")
    for _ in range(STEPS):
        for _ in range(3):
            m.forward()
            x, y = batch(), batch()
            with torch.autocast("cuda", torch.bfloat16):
                out = model(x)
                loss = F.mse_loss(out.float(), y)
            m.backward()
            scaler.scale(loss / 3).backward()
        m.optimizer()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        m.next()


@loop
def functions_only():
    """No modules: tensors and functions"""
    weights = [torch.randn(WIDTH, WIDTH, device="cuda", requires_grad=True) for _ in range(6)]
    models.append(nn.ParameterList(weights))
    optimizer = torch.optim.Adam(models[-1].parameters(), lr=1e-4)
    for _ in range(STEPS):
        m.forward()
        x = batch()
        for w in models[-1]:
            x = torch.tanh(x @ w)
        learn(x.square().mean(), optimizer)
        m.next()


class Sharpness(torch.optim.Optimizer):
    """SAM: two forward and backward passes a step"""

    def __init__(self, params, base):
        super().__init__(params, {})
        self.base = base

    @torch.no_grad()
    def climb(self):
        for p in self.param_groups[0]["params"]:
            self.state[p]["e"] = p.grad * 0.05
            p.add_(self.state[p]["e"])
        self.zero_grad()

    @torch.no_grad()
    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            p.sub_(self.state[p]["e"])
        self.base.step()
        self.zero_grad()


@loop
def sharpness_aware():
    model = net()
    optimizer = Sharpness(model.parameters(), adamw(model))
    for _ in range(STEPS):
        x = None
        m.forward()
        x = batch()
        loss = model(x).square().mean()
        m.backward()
        loss.backward()
        m.optimizer()
        optimizer.climb()
        m.forward()
        loss = model(x).square().mean()
        m.backward()
        loss.backward()
        m.optimizer()
        optimizer.step()
        m.next()


class Sign(torch.optim.Optimizer):
    """The job's own optimizer, with a momentum"""

    def __init__(self, params):
        super().__init__(params, {})

    @torch.no_grad()
    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            momentum = self.state[p].setdefault("momentum", torch.zeros_like(p))
            p.sub_(momentum.mul(0.9).add(p.grad, alpha=0.1).sign_().mul_(1e-4))
            momentum.mul_(0.99).add_(p.grad, alpha=0.01)


@loop
def own_optimizer():
    model = net()
    optimizer = Sign(model.parameters())
    for _ in range(STEPS):
        m.forward()
        learn(model(batch()).square().mean(), optimizer)
        m.next()


@loop
def dies_in_backward():
    model = net()
    optimizer = adamw(model)

    def hook(grad):
        if m.step == 3:
            torch.empty(1 << 40, device="cuda")
    for _ in range(STEPS):
        m.forward()
        x = model.blocks[0](batch())
        x.register_hook(hook)
        learn(model(x).square().mean(), optimizer)
        m.next()


@loop
def dies_in_optimizer():
    """The states of the first step do not fit."""
    model = net(width=2 * WIDTH)
    optimizer = adamw(model)
    m.forward()
    loss = model(m.input(BATCH, 2 * WIDTH)).square().mean()
    m.backward()
    loss.backward()
    m.optimizer()
    held = torch.cuda.memory_allocated() / torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(held * 1.4)
    optimizer.step()


@loop
def evaluated_each_step():
    model = net()
    optimizer = adamw(model, fused=True)
    for _ in range(STEPS):
        m.forward()
        learn(model(batch()).square().mean(), optimizer)
        m.evaluation()
        with torch.no_grad():
            model(batch()).square().mean()
        m.next()


@loop
def averaged_model():
    """PyTorch's own average of the parameters, evaluated after each second step"""
    model = net()
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    models.append(average)
    optimizer = adamw(model)
    for step in range(STEPS):
        m.forward()
        learn(model(batch()).square().mean(), optimizer)
        average.update_parameters(model)
        if step % 2:
            m.evaluation()
            with torch.no_grad():
                average(batch())
        m.next()


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = Net(), Net(layers=2)

    def forward(self, x):
        with torch.no_grad():
            seen = self.one(x)
        return self.two(seen)


@loop
def frozen_inside():
    """A part of the model runs under no_grad."""
    model = Encoder().cuda()
    models.append(model)
    optimizer = adamw(model.two)
    for _ in range(STEPS):
        m.forward()
        learn(model(batch()).square().mean(), optimizer)
        m.next()

"""Jobs without a defect, of kinds that look as if they had one: see diagnose_causes.py."""
import os

import torch
from diagnose_model import adam, batch, build, loss_of, train


def healthy():
    model = build(layers=4)
    train(model, adam(model, fused=True), 6, 4, 512)


def healthy_tight():
    """Uses nearly all of its card; every step is the same."""
    model = build(layers=8, width=512)
    train(model, adam(model, fused=True), 8, 4, 1024)


def healthy_big():
    model = build(layers=8, width=1024)
    train(model, adam(model, fused=True), 4, 8, 1024)


def healthy_warm_up():
    """The first steps are smaller than the rest."""
    model = build(layers=4)
    optimizer = adam(model, fused=True)
    for step in range(12):
        loss_of(model, batch(4, 256 if step < 3 else 512)).backward()
        optimizer.step()
        optimizer.zero_grad()


def healthy_eval():
    model = build(layers=4)
    optimizer = adam(model, fused=True)
    for _ in range(3):
        train(model, optimizer, 4, 4, 512)
        with torch.no_grad():
            for _ in range(5):
                loss_of(model, batch(4, 512))


def healthy_accumulation():
    model = build(layers=4)
    optimizer = adam(model, fused=True)
    for _ in range(5):
        for _ in range(4):
            (loss_of(model, batch(2, 512)) / 4).backward()
        optimizer.step()
        optimizer.zero_grad()


def healthy_bf16():
    model = build(layers=4)
    optimizer = adam(model, fused=True)
    for _ in range(6):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = loss_of(model, batch(4, 512))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def healthy_checkpointed():
    model = build(layers=6, checkpoint="layer")
    train(model, adam(model, fused=True), 5, 4, 512)


def healthy_saving():
    model = build(layers=4)
    optimizer = adam(model, fused=True)
    for _ in range(3):
        train(model, optimizer, 3, 4, 512)
        torch.save({k: v.cpu() for k, v in model.state_dict().items()}, os.devnull)


def healthy_lengths():
    """Lengths vary, and all of them fit."""
    model = build(layers=4)
    optimizer = adam(model, fused=True)
    for step in range(20):
        loss_of(model, batch(4, (512, 300, 470, 512, 128)[step % 5])).backward()
        optimizer.step()
        optimizer.zero_grad()


def healthy_retry():
    """Catches one out-of-memory error, halves its batch and continues."""
    model = build(layers=8, width=512)
    optimizer = adam(model, fused=True)
    b, done = 32, 0
    while done < 8:
        try:
            loss_of(model, batch(b, 1024)).backward()
            optimizer.step()
            done += 1
        except torch.OutOfMemoryError:
            b //= 4
        optimizer.zero_grad()

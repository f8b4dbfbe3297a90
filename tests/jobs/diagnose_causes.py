"""Fails, or wastes memory, from one known cause: diagnose_causes.py CAUSE [--fix] [--flag-of-the-job...]. --fix is the same job after the
remedy. Sizes are chosen so that nothing else comes near."""
import ctypes
import gc
import os
import subprocess
import sys
import tempfile

import diagnose_allocator
import diagnose_healthy
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.checkpoint
from diagnose_allocator import FIX, STEPS, MiB, block
from diagnose_model import adam, batch, build, chunked_loss, loss_of, train


def sgd(model, **keys):
    return torch.optim.SGD(model.parameters(), **{"lr": 0.1, "momentum": float(os.environ.get("MOMENTUM", 0)), **keys})


# Activations, attention, logits

def logits():
    model = build(layers=2, width=128, vocabulary=50304)
    train(model, adam(model, fused=True), 3, 4, 1024, loss=chunked_loss if FIX else loss_of)


def logits_upcast():
    def loss(model, tokens):
        out = model(tokens)[:, :-1].float().contiguous()
        return F.cross_entropy(out.view(-1, out.size(-1)), tokens[:, 1:].reshape(-1))

    model = build(layers=2, width=128, vocabulary=128256).bfloat16()
    train(model, adam(model, fused=True), 3, 2, 1024, loss=chunked_loss if FIX else loss)


def logits_transformers():
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(hidden_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, intermediate_size=512,
                         vocab_size=128256, use_cache=False)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config)
    optimizer = adam(model, fused=True)
    for _ in range(3):
        tokens = batch(2, 1024)
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def attention():
    model = build(layers=4, heads=8, eager=not FIX)
    train(model, adam(model, fused=True), 3, 2, 2048)


def attention_bf16():
    model = build(layers=6, heads=16, eager=not FIX).bfloat16()
    train(model, adam(model, fused=True), 3, 4, 1536)


def attention_transformers():
    from transformers import GPT2Config, GPT2LMHeadModel
    with torch.device("cuda"):
        model = GPT2LMHeadModel(GPT2Config(n_embd=256, n_layer=4, n_head=8, n_positions=2048, vocab_size=1024, use_cache=False,
                                           attn_implementation="sdpa" if FIX else "eager"))
    optimizer = adam(model, fused=True)
    for _ in range(3):
        tokens = batch(2, 2048)
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def activations():
    model = build(layers=12, width=512)
    train(model, adam(model, fused=True), 3, 4 if FIX else 8, 1024)


def activations_conv():
    with torch.device("cuda"):
        model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), *[nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())
                                                               for _ in range(12)], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    optimizer = sgd(model)
    for _ in range(3):
        F.cross_entropy(model(torch.randn(16, 3, 224, 224, device="cuda")), torch.zeros(16, dtype=torch.long, device="cuda")).backward()
        optimizer.step()
        optimizer.zero_grad()


def recompute_whole_model():
    model = build(layers=12, width=512, checkpoint="layer" if FIX else "model")
    train(model, adam(model, fused=True), 3, 8, 1024)


def recompute_flag_ignored():
    """Has the option --gradient_checkpointing, which has no effect."""
    model = build(layers=12, width=512, checkpoint="layer" if FIX else None)
    train(model, adam(model, fused=True), 3, 8, 1024)


def batch_outlier():
    model = build(layers=8, width=512)
    optimizer = adam(model, fused=True)
    for step in range(10):
        loss_of(model, batch(4, 1024 if step == 6 and not FIX else 512)).backward()
        optimizer.step()
        optimizer.zero_grad()


def batch_outlier_size():
    model = build(layers=8, width=512)
    optimizer = adam(model, fused=True)
    for step in range(8):
        loss_of(model, batch(12 if step == 5 and not FIX else 4, 512)).backward()
        optimizer.step()
        optimizer.zero_grad()


# Gradients and the optimizer

def big():
    """67 M parameters, 256 MiB in fp32, and almost no activations."""
    with torch.device("cuda"):
        return nn.Sequential(*[nn.Linear(2048, 2048, bias=False) for _ in range(16)])


def steps_of(model, optimizer, steps, rows=64, after=None, zero=True):
    for step in range(steps):
        loss = model(torch.randn(rows, 2048, device="cuda")).sum()
        loss.backward()
        if after:
            after(step)
        optimizer.step()
        if zero:
            optimizer.zero_grad(set_to_none=True)


def gradients_kept():
    model = big()
    steps_of(model, sgd(model, foreach=False), 4, rows=8192, zero=FIX)


def gradients_zeroed_in_place():
    model = big()
    optimizer = sgd(model, foreach=False)
    for _ in range(4):
        model(torch.randn(8192, 2048, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=FIX)


def first_step():
    model = big()
    steps_of(model, sgd(model) if FIX else adam(model, fused=True), 3)


def first_step_then_forward():
    model = big()
    steps_of(model, sgd(model) if FIX else adam(model, fused=True), 3, rows=8192)


def foreach():
    model = big()
    steps_of(model, adam(model, foreach=not FIX), 3)


def foreach_decay():
    model = big()
    steps_of(model, sgd(model, foreach=not FIX, momentum=0.9, weight_decay=0.1), 3)


def clip_cat():
    def clip_grad_norm(_):
        grads = [p.grad for p in model.parameters()]
        norm = torch._foreach_norm(grads) if FIX else torch.cat([g.flatten() for g in grads]).norm()
        del norm

    model = big()
    steps_of(model, sgd(model, foreach=False), 3, after=clip_grad_norm)


def clip_float():
    def clip_grad_norm(_):
        grads = [p.grad if FIX else p.grad.float() for p in model.parameters()]
        torch._foreach_norm(grads)

    model = big().bfloat16()
    optimizer = sgd(model, foreach=False)
    for step in range(3):
        model(torch.randn(64, 2048, device="cuda", dtype=torch.bfloat16)).sum().backward()
        clip_grad_norm(step)
        optimizer.step()
        optimizer.zero_grad()


def static():
    """More weights than memory."""
    with torch.device("cuda"):
        nn.Sequential(*[nn.Linear(4096, 4096, bias=False) for _ in range(64)])


def static_moved():
    nn.Sequential(*[nn.Linear(4096, 4096, bias=False, device="meta") for _ in range(64)]).to_empty(device="cuda")


class Snapshots:
    """A data set whose constructor moves all of it to the GPU, before the model is called."""

    def __init__(self, number):
        self.items = [tuple(t.cuda() for t in (torch.empty(20000, 128), torch.zeros(2, 100000, dtype=torch.int64))) for _ in range(number)]


def data_in_setup():
    model = nn.Linear(128, 8).cuda()
    for x, _ in Snapshots(200).items:
        model(x).sum().backward()


def model_made_again():
    """Each trial of a search makes a model; a list of callbacks keeps those before."""
    callbacks = []
    for rate in (1e-2, 3e-3, 1e-3, 3e-4):
        model = build(layers=8, width=512)
        optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
        if FIX:
            callbacks.clear()
        callbacks.append(model)
        for _ in range(3):
            loss_of(model, batch(1, 128)).backward()
            optimizer.step()
            optimizer.zero_grad()


# Leaks

def leak_retained():
    model, total = build(layers=4), 0
    optimizer = adam(model, fused=True)
    for _ in range(STEPS or 40):
        loss = loss_of(model, batch(4, 512))
        loss.backward(retain_graph=not FIX)
        optimizer.step()
        optimizer.zero_grad()
        total = total + (loss.item() if FIX else loss)


def leak_outputs():
    model, kept = build(layers=4), []
    optimizer = adam(model, fused=True)
    for _ in range(STEPS or 60):
        out = model(batch(8, 1024))
        F.cross_entropy(out.view(-1, 1024), batch(8, 1024).view(-1)).backward()
        optimizer.step()
        optimizer.zero_grad()
        kept.append(out.cpu() if FIX else out)


def leak_detached():
    model, history = build(layers=2), []

    def remember(step, loss):
        if not FIX:
            history.append(model.embedding(batch(8, 2048)).detach())

    train(model, adam(model, fused=True), STEPS or 60, 4, 512, after=remember)


def leak_slow():
    """Memory grows for a long time before the job fails: it has not failed yet."""
    model, history = build(layers=2), []

    def remember(step, loss):
        if not FIX:
            history.append(torch.empty(4 * MiB, device="cuda"))

    train(model, adam(model, fused=True), STEPS or 30, 4, 512, after=remember)


def ref_cycle():
    class Holder:
        pass

    gc.disable()
    model = build(layers=2)

    def cycle(step, loss):
        h = Holder()
        h.me, h.tensor = h, block(24)
        if FIX:
            h.me = None
        if step in (8, 13, 21, 30):
            del h
            gc.collect()

    train(model, adam(model, fused=True), 34, 4, 512, after=cycle)


def runtime():
    """A library of the process allocates from CUDA itself, outside PyTorch."""
    return ctypes.CDLL(None)


def leak_outside():
    pointer = ctypes.c_void_p()
    model = build(layers=2)

    def grow(step, loss):
        if not FIX:
            runtime().cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(48 * MiB))

    train(model, adam(model, fused=True), STEPS or 60, 16, 1024, after=grow)


# Evaluation, checkpoints

def eval_graph():
    def evaluate():
        for _ in range(3):
            with torch.set_grad_enabled(not FIX):
                loss_of(model, batch(16, 1024))

    model = build(layers=8, width=512)
    train(model, adam(model, fused=True), 2, 2, 1024)
    evaluate()
    train(model, adam(model, fused=True), 2, 2, 1024)


def eval_accumulation():
    def evaluate():
        kept = []
        with torch.no_grad():
            for _ in range(STEPS or 60):
                out = model(batch(8, 1024))
                kept.append(out.cpu() if FIX else out)
        return len(kept)

    model = build(layers=4)
    train(model, adam(model, fused=True), 3, 2, 512)
    evaluate()


def predict_accumulation():
    model, predictions = build(layers=4, vocabulary=4096), []
    train(model, adam(model, fused=True), 3, 2, 256)
    with torch.inference_mode():
        for _ in range(STEPS or 60):
            x = model(batch(4, 1024)).softmax(-1)
            predictions.append(x.cpu() if FIX else x)


def saved_elsewhere():
    """A checkpoint that another process wrote, so this process's trace has no part of it."""
    path = os.path.join(tempfile.gettempdir(), "memtrace-diagnose-%d.pt" % os.getpid())
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LD_PRELOAD", "MEMTRACE_", "CUDASIM_"))}
    code = ("import sys, torch, torch.nn as nn\n"
            "m = nn.Sequential(*[nn.Linear(2048, 2048, bias=False) for _ in range(16)])\n"
            "state = {i: {'step': torch.tensor(1.0), 'exp_avg': torch.zeros(2048, 2048), 'exp_avg_sq': torch.zeros(2048, 2048)} for i in range(16)}\n"
            "groups = torch.optim.AdamW(m.parameters()).state_dict()['param_groups']\n"
            "torch.save({'model': m.state_dict(), 'optimizer': {'state': state, 'param_groups': groups}}, sys.argv[1])\n")
    subprocess.run([sys.executable, "-c", code, path], env=env, check=True)
    return path


def resume_duplicate():
    path = saved_elsewhere()
    model = big()
    optimizer = adam(model, fused=True)
    checkpoint = torch.load(path, map_location="cpu" if FIX else "cuda")
    os.unlink(path)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    steps_of(model, optimizer, 3, rows=4096)
    del checkpoint


def resume_states():
    path = saved_elsewhere()
    model = big()
    optimizer = adam(model, fused=True)
    checkpoint = torch.load(path, map_location="cpu")
    os.unlink(path)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    del checkpoint
    steps_of(model, optimizer, 3, rows=16384)


def save_on_gpu():
    def save_checkpoint(step):
        if step == 2:
            state = {k: v.detach().cpu() if FIX else v.detach().clone() for k, v in model.state_dict().items()}
            torch.save(state, os.devnull)

    model = big()
    steps_of(model, sgd(model, foreach=False), 4, after=save_checkpoint)


# Outside of PyTorch

def library_starved():
    model = build(layers=8, width=512)
    train(model, adam(model, fused=True), 2, 8, 1024)
    if FIX:
        torch.cuda.empty_cache()
    pointer = ctypes.c_void_p()
    status = runtime().cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(400 * MiB))
    if status:
        raise RuntimeError("NCCL error: unhandled cuda error, Failed to CUDA calloc 419430400 bytes")


def other_process():
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MEMTRACE_",))}
    env["MEMTRACE_DISABLE"] = "1"
    code = ("import torch, time\nx = torch.empty(2 << 30, dtype=torch.uint8, device='cuda')\nprint('held', flush=True)\ntime.sleep(600)\n")
    holder = None if FIX else subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE)
    try:
        if holder:
            holder.stdout.readline()
        model = build(layers=8, width=512)
        train(model, adam(model, fused=True), 3, 4, 1024)
    finally:
        if holder:
            holder.kill()


def pinned():
    rounded = [torch.empty(130 * MiB, dtype=torch.uint8, pin_memory=True) for _ in range(5)]
    model = build(layers=2)
    train(model, adam(model, fused=True), 3, 2, 512)
    del rounded


def pinned_kept():
    model, kept = build(layers=2), []

    def loss(model, tokens):
        host = torch.empty(32 * MiB, dtype=torch.uint8, pin_memory=True) if not (FIX and kept) else kept[0]
        kept.append(host)
        host.to("cuda", non_blocking=True)
        return loss_of(model, tokens)

    train(model, adam(model, fused=True), 20, 2, 64, loss=loss)


# Experts

class SparseMoeBlock(nn.Module):
    """A layer of experts: `tokens` of them come to this rank's experts, and 40 % of those to the first expert."""

    def __init__(self, width, count):
        super().__init__()
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(count))

    def forward(self, x, tokens):
        routed = x[torch.randint(0, x.shape[0], (tokens,), device="cuda")]
        hot = tokens * 2 // 5
        sizes = [hot] + [(tokens - hot) // (len(self.experts) - 1)] * (len(self.experts) - 1)
        out = torch.cat([e(p) for e, p in zip(self.experts, routed.split(sizes + [tokens - sum(sizes)]))])
        return x + out.sum() * 0


def experts():
    """A router distributes the tokens: sometimes nearly all tokens of a batch go to this rank's experts."""
    with torch.device("cuda"):
        layers = nn.ModuleList(SparseMoeBlock(512, 4) for _ in range(4))
    optimizer = adam(layers, fused=True)
    for step in range(10):
        tokens = 4096 if FIX else (4096, 3100, 5300, 3600, 6000, 4500, 3900, 12000, 4000, 4100)[step]
        x = torch.randn(4096, 512, device="cuda", requires_grad=True)
        for layer in layers:
            x = layer(x, tokens)
        x.sum().backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    next(vars(m)[sys.argv[1]] for m in (sys.modules[__name__], diagnose_allocator, diagnose_healthy) if sys.argv[1] in vars(m))()

"""Jobs without a defect, of other models and frameworks than those of diagnose_healthy.py: see diagnose_others.py."""
import collections
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from diagnose_zoo import LSTMModel, ResNet, UNet, VGG, diffusion, fit, images, sgd, small_llama, trainer, words, wrapped


def healthy_smoothed_loss():
    """The logged average has a graph; backward has freed all large tensors of it."""
    model = LSTMModel().cuda()
    optimizer, average = torch.optim.Adam(model.parameters()), 0
    for step in range(40):
        x = words(16, 64)
        loss = F.cross_entropy(model(x)[0].transpose(1, 2), x)
        average = 0.9 * average + 0.1 * loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def healthy_late_zero_grad():
    """zero_grad between forward and backward, a common order: the peak is in backward, with or without the old gradients."""
    model = VGG().cuda()
    fit(model, torch.optim.SGD(model.parameters(), lr=0.1, foreach=False), [(96, 128)] * 4)


def healthy_resnet():
    """Training and validation alternate, as in PyTorch's ImageNet example."""
    model = ResNet(64).cuda()
    optimizer = sgd(model)
    for _ in range(2):
        model.train()
        fit(model, optimizer, [(16, 224)] * 6)
        model.eval()
        with torch.no_grad():
            for _ in range(4):
                model(images(32)[0]).topk(5)


def healthy_lstm():
    """Truncated backpropagation: the state is kept, its graph is not."""
    model = LSTMModel().cuda()
    optimizer, state, losses = torch.optim.Adam(model.parameters()), None, []
    for step in range(30):
        x = words(16, (70, 65, 73, 68)[step % 4])
        out, state = model(x, state)
        state = tuple(s.detach() for s in state)
        loss = F.cross_entropy(out.transpose(1, 2), x)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        losses.append(loss.detach())


def healthy_diffusion():
    """With an average of its weights, and a picture now and then."""
    model = UNet(64).cuda()
    ema, optimizer = copy.deepcopy(model), torch.optim.AdamW(model.parameters())
    for _ in range(3):
        diffusion(model, optimizer, 5, 8, 64, ema)
        with torch.no_grad():
            x = torch.randn(4, 3, 64, 64, device="cuda")
            for t in range(10):
                x = x - 0.1 * ema(x, torch.full((4,), float(t), device="cuda"))


def healthy_lora():
    from peft import LoraConfig, get_peft_model
    model = get_peft_model(small_llama(1024, 512, 6).bfloat16(), LoraConfig(r=16, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(8):
        for _ in range(2):
            tokens = words(2, 300 + 20 * (step % 4), 1024)
            (model(input_ids=tokens, labels=tokens).loss / 2).backward()
        optimizer.step()
        optimizer.zero_grad()


def healthy_trainer():
    """Accumulation, recomputation, evaluation and saving, all done by the Trainer."""
    trainer(small_llama(1024, 256, 4), 12, b=2, evaluated=16, gradient_accumulation_steps=4, gradient_checkpointing=True, eval_strategy="steps",
            eval_steps=4, save_strategy="steps", save_steps=6, bf16=True)


def healthy_gan():
    made = nn.Sequential(nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 3 * 64 * 64)).cuda()
    judge = ResNet(32, classes=1).cuda()
    optimizers = torch.optim.Adam(made.parameters()), torch.optim.Adam(judge.parameters())
    for _ in range(12):
        fake = made(torch.randn(64, 128, device="cuda")).view(64, 3, 64, 64)
        optimizers[1].zero_grad()
        (judge(fake.detach()).mean() - judge(images(64, 64)[0]).mean()).backward()
        optimizers[1].step()
        optimizers[0].zero_grad()
        (-judge(fake).mean()).backward()
        optimizers[0].step()


def healthy_generate():
    """A cache of keys and values grows during generation, and is freed at its end."""
    model = small_llama(1024, 512, 6).bfloat16().eval()
    for _ in range(4):
        model.generate(words(8, 64, 1024), max_new_tokens=64, min_new_tokens=64, do_sample=False)


def healthy_replay():
    """A buffer of experience grows until it is full."""
    model = ResNet(32, classes=6).cuda()
    optimizer, memory = torch.optim.Adam(model.parameters()), collections.deque(maxlen=30)
    for _ in range(60):
        memory.append(images(16, 96))
        x, y = memory[len(memory) // 2]
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def healthy_scaler():
    model = ResNet(64).cuda()
    optimizer, scaler = sgd(model), torch.amp.GradScaler("cuda")
    for _ in range(10):
        x, y = images(16)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


def healthy_resnet_ddp():
    """Two ranks, DDP and SGD with default settings; the model has more activations than parameters."""
    model = wrapped(ResNet(64).cuda())
    optimizer = sgd(model)
    fit(model, optimizer, [(16, 160)] * 6)
    model.eval()
    with torch.no_grad():
        model(images(16, 160)[0])

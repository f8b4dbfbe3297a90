"""Jobs as people write them, which the rules of diagnosis had not seen when they were written: other models and frameworks than
diagnose_model.py's, the optimizers' defaults, loops of all kinds. diagnose_others.py JOB [--flag-of-the-job...]; see diagnose_causes.py."""
import copy
import gc
import io
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

RANK = int(os.environ.get("LOCAL_RANK", 0))


# Models

class Residual(nn.Module):
    """ResNet's basic block."""

    def __init__(self, before, width, stride=1):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.down = None
        if stride != 1 or before != width:
            self.down = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + (x if self.down is None else self.down(x)))


class ResNet(nn.Module):
    def __init__(self, width=64, blocks=(2, 2, 2, 2), classes=1000):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        layers, before = [], width
        for i, n in enumerate(blocks):
            for j in range(n):
                layers.append(Residual(before, width << i, 2 if i and not j else 1))
                before = width << i
        self.layers, self.fc = nn.Sequential(*layers), nn.Linear(before, classes)

    def forward(self, x):
        return self.fc(self.layers(self.stem(x)).mean((2, 3)))


class SpatialAttention(nn.Module):
    """Over all pixels, as diffusion models had it first."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.qkv, self.proj = nn.GroupNorm(8, width), nn.Conv1d(width, 3 * width, 1), nn.Conv1d(width, width, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x).view(b, c, h * w)).chunk(3, 1)
        weight = torch.einsum("bct,bcs->bts", q, k) * c ** -0.5
        weight = weight.softmax(-1)
        return x + self.proj(torch.einsum("bts,bcs->bct", weight, v)).view(b, c, h, w)


class UNet(nn.Module):
    def __init__(self, width=64, attention=False):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
        self.inp, self.out = nn.Conv2d(3, width, 3, 1, 1), nn.Conv2d(width, 3, 3, 1, 1)
        self.down1, self.down2 = Residual(width, 2 * width, 2), Residual(2 * width, 4 * width, 2)
        self.mid = nn.Sequential(Residual(4 * width, 4 * width), SpatialAttention(4 * width) if attention else nn.Identity())
        self.up2, self.up1 = Residual(6 * width, 2 * width), Residual(3 * width, width)
        self.width = width

    def forward(self, x, t):
        x0 = self.inp(x) + self.time(torch.sin(t[:, None] * torch.arange(self.width, device=x.device)))[:, :, None, None]
        x1 = self.down1(x0)
        x2 = self.mid(self.down2(x1))
        y = self.up2(torch.cat([F.interpolate(x2, scale_factor=2), x1], 1))
        return self.out(self.up1(torch.cat([F.interpolate(y, scale_factor=2), x0], 1)))


class LSTMModel(nn.Module):
    def __init__(self, vocabulary=10000, width=512, layers=2):
        super().__init__()
        torch.backends.cudnn.enabled = False  # its recurrent layers are not simulated
        self.embed, self.rnn = nn.Embedding(vocabulary, width), nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens, state=None):
        y, state = self.rnn(self.embed(tokens), state)
        return self.head(y), state


class VGG(nn.Module):
    """Few activations, and most of its parameters in the classifier."""

    def __init__(self, width=4096):
        super().__init__()
        self.features = nn.Sequential(*[nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2))
                                        for a, b in ((3, 32), (32, 64), (64, 128), (128, 256))])
        self.classifier = nn.Sequential(nn.Linear(256 * 8 * 8, width), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(width, width),
                                        nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(width, 1000))

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def images(b, size=224):
    return torch.randn(b, 3, size, size, device="cuda"), torch.zeros(b, dtype=torch.long, device="cuda")


def words(b, s, vocabulary=10000):
    return torch.randint(0, vocabulary, (b, s), device="cuda")


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)


def fit(model, optimizer, sizes):
    """The loop of PyTorch's own examples."""
    for size in sizes:
        x, y = images(*size)
        value = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()


def diffusion(model, optimizer, steps, b, size, ema=None):
    for _ in range(steps):
        x = torch.randn(b, 3, size, size, device="cuda")
        noise, t = torch.randn_like(x), torch.rand(b, device="cuda")
        loss = F.mse_loss(model(x + noise, t), noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if ema is not None:
            with torch.no_grad():
                for a, p in zip(ema.parameters(), model.parameters()):
                    a.lerp_(p, 0.01)


def small_llama(vocabulary=32000, hidden=512, layers=4, **keys):
    from transformers import LlamaConfig, LlamaForCausalLM
    with torch.device("cuda"):
        return LlamaForCausalLM(LlamaConfig(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=8, num_key_value_heads=8,
                                            intermediate_size=2 * hidden, vocab_size=vocabulary, max_position_embeddings=8192, **keys))


class Texts(torch.utils.data.Dataset):
    def __init__(self, count, length=256, vocabulary=1024):
        self.count, self.length, self.vocabulary = count, length, vocabulary

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        tokens = torch.randint(0, self.vocabulary, (self.length,))
        return {"input_ids": tokens, "labels": tokens}


def trainer(model, steps, length=256, b=4, evaluated=0, metrics=False, **keys):
    import numpy
    from transformers import Trainer, TrainingArguments
    with tempfile.TemporaryDirectory() as out:
        arguments = TrainingArguments(out, per_device_train_batch_size=b, max_steps=steps, report_to=[], logging_steps=2, disable_tqdm=True,
                                      dataloader_pin_memory=False, **{"save_strategy": "no", **keys})
        vocabulary = model.config.vocab_size
        Trainer(model, arguments, train_dataset=Texts(10000, length, vocabulary),
                eval_dataset=Texts(evaluated, length, vocabulary) if evaluated else None,
                compute_metrics=(lambda p: {"mean": float(numpy.mean(p.predictions[0]))}) if metrics else None).train()


# Each fails, or wastes, from one cause

def lora_logits():
    """LoRA: few states, a frozen body, and Qwen's vocabulary."""
    from peft import LoraConfig, get_peft_model
    model = get_peft_model(small_llama(151936, 256, 2).bfloat16(), LoraConfig(r=8, target_modules=["q_proj", "v_proj"]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(3):
        tokens = words(4, 1024, 151936)
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def pixel_attention():
    model = UNet(32, attention=True).cuda()
    diffusion(model, torch.optim.AdamW(model.parameters()), 3, 8, 192)


def unet_activations():
    model = UNet(64).cuda()
    diffusion(model, torch.optim.AdamW(model.parameters()), 3, 16, 128)


def features_kept():
    """A list of features for a plot at the epoch's end."""
    model, kept = ResNet(32).cuda(), []
    model.layers.register_forward_hook(lambda m, i, o: kept.append(o.detach()))
    fit(model, sgd(model), [(16, 224)] * 400)


def validation_graph():
    """Outputs of the validation are put together, and nobody said no_grad."""
    model = ResNet(32).cuda()
    optimizer = sgd(model)
    for _ in range(2):
        model.train()
        fit(model, optimizer, [(16, 160)] * 5)
        model.eval()
        outputs = []
        for _ in range(12):
            outputs.append(model(images(16, 160)[0]))
        torch.cat(outputs).argmax(1)


def trainer_predictions():
    """The Trainer's own way: logits of the whole evaluation are on the GPU until its end."""
    trainer(small_llama(8192, 128, 2), 4, evaluated=400, metrics=True, eval_strategy="steps", eval_steps=2)


def best_model_copy():
    """A deep copy of model and optimizer state on the GPU at each new best."""
    model = VGG().cuda()
    optimizer = sgd(model)
    for _ in range(3):
        fit(model, optimizer, [(8, 128)] * 4)
        torch.save({"model": {k: v.clone() for k, v in model.state_dict().items()}, "optimizer": copy.deepcopy(optimizer.state_dict())}, io.BytesIO())


def image_sizes():
    """Every batch another size of images: the cache never has the right block."""
    model = ResNet(32).cuda()
    fit(model, sgd(model), [(16, 128 + 8 * (i * 7 % 23)) for i in range(60)])


def resumed():
    """Reads the checkpoint onto the GPU, and keeps it while it trains."""
    model = VGG().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    fit(model, optimizer, [(8, 128)] * 2)
    with tempfile.TemporaryDirectory() as out:
        path = os.path.join(out, "checkpoint.pt")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
        del model, optimizer
        gc.collect()
        torch.cuda.empty_cache()
        checkpoint = torch.load(path, map_location="cuda")
    model = VGG().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    fit(model, optimizer, [(8, 128)] * 4)


def adam_default():
    """foreach is what one gets without asking."""
    model = VGG().cuda()
    fit(model, torch.optim.Adam(model.parameters()), [(8, 128)] * 4)


def adam_states():
    """Half a step fits: forward, backward, and no room for what the optimizer makes in its first."""
    model = VGG().cuda()
    fit(model, torch.optim.Adam(model.parameters(), foreach=False), [(8, 128)] * 4)


def too_large():
    """Dies in model.to("cuda")."""
    nn.Sequential(*[nn.Linear(4096, 4096) for _ in range(40)]).to("cuda")


def long_sequence():
    model = LSTMModel().cuda()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    for step in range(14):
        x = words(16, 700 if step == 11 else (96, 128, 110)[step % 3])
        F.cross_entropy(model(x)[0].transpose(1, 2), x).backward()
        optimizer.step()
        optimizer.zero_grad()


def gradient_vector():
    """The norm of one long vector of all gradients."""
    model = VGG().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    for _ in range(4):
        x, y = images(8, 128)
        F.cross_entropy(model(x), y).backward()
        norm = nn.utils.parameters_to_vector([p.grad for p in model.parameters()]).norm()
        for p in model.parameters():
            p.grad /= norm + 1
        optimizer.step()
        optimizer.zero_grad()


def emptied_by_trainer():
    """A setting of the Trainer that frees the cache after every step."""
    trainer(small_llama(8192, 512, 4), 12, torch_empty_cache_steps=1)


def checkpointing_not_training():
    """transformers recomputes only in training mode; nobody called train() again."""
    model = small_llama(1024, 512, 12, use_cache=False)
    model.gradient_checkpointing_enable()
    model.eval()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(3):
        tokens = words(8, 1024, 1024)
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def caught_in_a_cycle():
    """An object of every step that refers to itself: its activations go when Python collects."""
    class Step:
        def __init__(self, out):
            self.out, self.me = out, self

    gc.set_threshold(3000, 10, 10)
    model = ResNet(32).cuda()
    optimizer = sgd(model)
    for _ in range(60):
        x, y = images(16, 160)
        kept = Step(model.stem(x).detach())
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        del kept
        noise = [[i] for i in range(500)]  # what a data loader's collating leaves to the collector
        del noise


def graphs_by_size():
    """A CUDA graph for each batch size, each with a pool of its own."""
    model = VGG().cuda().eval()
    graphs = []
    with torch.no_grad():
        for b in range(8, 104, 8):
            x = torch.zeros(b, 3, 128, 128, device="cuda")
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                graphs.append((graph, x, model(x)))
        keep = [model(images(96, 128)[0]) for _ in range(3)]
        keep.append(torch.empty(900 << 20, dtype=torch.uint8, device="cuda"))


def cap_in_code():
    torch.cuda.set_per_process_memory_fraction(0.3)
    model = ResNet(64).cuda()
    fit(model, sgd(model), [(32, 224)] * 3)


# On two ranks

def wrapped(model, **keys):
    from torch.nn.parallel import DistributedDataParallel
    return DistributedDataParallel(model, device_ids=[RANK], **keys)


def vgg_ddp():
    model = wrapped(VGG().cuda())
    fit(model, torch.optim.SGD(model.parameters(), lr=0.1, foreach=False), [(8, 128)] * 4)


def adam_everywhere():
    """Adam's states whole on each rank."""
    model = wrapped(VGG().cuda(), gradient_as_bucket_view=True)
    fit(model, torch.optim.AdamW(model.parameters(), fused=True), [(8, 128)] * 4)


def fsdp1_one_unit():
    """No auto_wrap_policy."""
    from torch.distributed.fsdp import FullyShardedDataParallel
    model = FullyShardedDataParallel(nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(24)]).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    for _ in range(3):
        model(torch.randn(64, 2048, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def fsdp1_no_sync():
    import functools

    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
    model = FullyShardedDataParallel(nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(24)]).cuda(),
                                     auto_wrap_policy=functools.partial(size_based_auto_wrap_policy, min_num_params=4000000))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    for _ in range(3):
        with model.no_sync():
            for _ in range(3):
                model(torch.randn(64, 2048, device="cuda")).sum().backward()
        model(torch.randn(64, 2048, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


# Nothing is wrong with these

def healthy_smoothed_loss():
    """The average that is logged has a graph behind it, of which backward has freed all that is large."""
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
    """zero_grad between forward and backward, as many have it: the peak is in backward, with or without the old gradients."""
    model = VGG().cuda()
    fit(model, torch.optim.SGD(model.parameters(), lr=0.1, foreach=False), [(96, 128)] * 4)


def healthy_resnet():
    """Training and validation by turns, as in PyTorch's ImageNet example."""
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
    """Truncated backpropagation: the state goes on, its graph does not."""
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
    """With an average of its weights beside it, and a picture now and then."""
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
    """Accumulation, recomputation, evaluation and saving, all by the Trainer."""
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
    """A cache of keys and values grows while it generates, and goes when it is done."""
    model = small_llama(1024, 512, 6).bfloat16().eval()
    for _ in range(4):
        model.generate(words(8, 64, 1024), max_new_tokens=64, min_new_tokens=64, do_sample=False)


def healthy_replay():
    """A buffer of experience that fills, and then is full."""
    import collections
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
    """Two ranks, DDP and SGD as they come; a model with more activations than parameters."""
    model = wrapped(ResNet(64).cuda())
    optimizer = sgd(model)
    fit(model, optimizer, [(16, 160)] * 6)
    model.eval()
    with torch.no_grad():
        model(images(16, 160)[0])


if __name__ == "__main__":
    ranks = int(os.environ.get("WORLD_SIZE", 1))
    if ranks > 1:
        torch.cuda.set_device(RANK)
        dist.init_process_group("nccl")
    globals()[sys.argv[1]]()
    if ranks > 1:
        dist.barrier()
        dist.destroy_process_group()

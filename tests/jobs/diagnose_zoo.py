"""Models and loops of the jobs in diagnose_others.py."""
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

RANK = int(os.environ.get("LOCAL_RANK", 0))


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
    """Attention over all pixels, as in early diffusion models."""

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
    """Few activations, and most parameters in the classifier."""

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


def wrapped(model, **keys):
    from torch.nn.parallel import DistributedDataParallel
    return DistributedDataParallel(model, device_ids=[RANK], **keys)

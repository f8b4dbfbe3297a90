"""Models written by hand."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from core import DEVICE, Job, job


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = (t.view(b, s, self.heads, h // self.heads).transpose(1, 2) for t in self.qkv(x).split(h, dim=2))
        return self.out(self.attend(q, k, v).transpose(1, 2).reshape(b, s, h))

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, layers, width, heads, vocabulary):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


@job("decoder_by_hand", "decoder by hand", "decoder", "tokens", "layers", "loop")
class DecoderByHand(Job):
    model_class = Decoder

    def draw(self):
        r = self.rng
        self.layers, self.width, self.heads = r.choice([4, 6, 8]), r.choice([256, 384, 512]), 8
        self.vocabulary, self.length, self.size = r.choice([1000, 4000, 16000]), r.choice([256, 512, 1024]), r.choice([4, 8, 16])
        self.autocast = r.random() < 0.4

    def build(self):
        self.model = self.model_class(self.layers, self.width, self.heads, self.vocabulary).to(DEVICE)
        self.optimizers = [self.adamw(self.model.parameters())]

    def batch(self, i):
        return torch.randint(self.vocabulary, (self.size, self.length), device=DEVICE)

    def output(self, tokens):
        with torch.autocast(DEVICE, torch.bfloat16, enabled=self.autocast):
            return self.model(tokens)

    def loss(self, tokens):
        logits = self.output(tokens)
        return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]).float(), tokens[:, 1:].reshape(-1))


class Residual(nn.Module):
    def __init__(self, width, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(width, width * stride, 3, stride, 1, bias=False), nn.BatchNorm2d(width * stride)
        self.conv2, self.norm2 = nn.Conv2d(width * stride, width * stride, 3, 1, 1, bias=False), nn.BatchNorm2d(width * stride)
        self.skip = nn.Conv2d(width, width * stride, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.skip(x))


class ResNet(nn.Module):
    def __init__(self, width, depth, classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2))
        self.stages = nn.Sequential(*[Residual(width * 2 ** (k // depth), 2 if k % depth == depth - 1 and k < 3 * depth - 1 else 1)
                                      for k in range(3 * depth)])
        self.head = nn.Linear(width * 4, classes)

    def forward(self, x):
        return self.head(self.stages(self.stem(x)).mean((2, 3)))


@job("resnet", "vision", "images", "loop")
class Vision(Job):
    def draw(self):
        r = self.rng
        self.width, self.depth, self.pixels, self.size = r.choice([32, 64]), r.choice([2, 3, 4]), r.choice([128, 192, 224]), r.choice([16, 32, 64])

    def build(self):
        self.model = ResNet(self.width, self.depth, 100).to(DEVICE)
        self.optimizers = [torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)]

    def batch(self, i):
        return torch.randn(self.size, 3, self.pixels, self.pixels, device=DEVICE), torch.randint(100, (self.size,), device=DEVICE)

    def loss(self, batch):
        return F.cross_entropy(self.model(batch[0]), batch[1])

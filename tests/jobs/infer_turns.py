"""Two requests that are served by turns until their caches fill the device: no cache is one of a finished request."""
import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, LAYERS, WORDS = 512, 8, 4, 8000


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x, past):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(x), (k, v)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, tokens, past=(None,) * LAYERS):
        x, new = self.words(tokens), []
        for layer, kept in zip(self.layers, past):
            x, cache = layer(x, kept)
            new.append(cache)
        return self.head(x[:, -1:]), new


@torch.no_grad()
def main():
    model = Model().cuda().eval()
    caches = [model(torch.zeros(4, 256, dtype=torch.long, device="cuda"))[1] for _ in range(2)]
    token = torch.zeros(4, 1, dtype=torch.long, device="cuda")
    while True:
        for request in range(2):
            caches[request] = model(token, caches[request])[1]


main()

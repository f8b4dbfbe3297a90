"""Inference that fails or wastes: infer.py FAULT [--fixed]. Models by hand and of transformers; no backward pass, no optimizer."""
import argparse
import os

import torch
from torch import nn
from torch.nn import functional as F

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, past=None):
        q, k, v = (t.reshape(*t.shape[:2], self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if past is not None:
            k = torch.cat([past[0], k], 2)
            v = torch.cat([past[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal and past is None)
        return self.out(y.transpose(1, 2).flatten(2)), (k, v)


class Layer(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, past=None):
        y, kv = self.attention(self.norm1(x), past)
        x = x + y
        return x + self.mlp(self.norm2(x)), kv


class Model(nn.Module):
    def __init__(self, layers=8, width=512, heads=8, words=8000, out=8000, causal=True):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width, heads, causal) for _ in range(layers))
        self.head = nn.Linear(width, out)

    def forward(self, tokens, past=None):
        x, new = self.words(tokens), []
        for i, layer in enumerate(self.layers):
            x, kv = layer(x, past[i] if past else None)
            new.append(kv)
        return self.head(x), new

    def encode(self, tokens):
        return self(tokens)[0].mean(1)


def prompt(batch, length):
    return torch.randint(0, 8000, (batch, length), device="cuda")


def own_cache(fixed):
    """One token at a time, keys and values concatenated in each layer"""
    model = Model().cuda().eval()
    with torch.no_grad():
        logits, past = model(prompt(32, 64))
        for i in range(64 if fixed else 512):
            token = logits[:, -1:].argmax(-1)
            logits, past = model(token, past)
            print("call", i + 1, flush=True)


@torch.inference_mode()
def finished_kept(fixed):
    """The caches of all requests are kept for a later turn of the conversation."""
    model = Model().cuda().eval()
    sessions = {}
    for i in range(12):
        logits, past = model(prompt(16, 200))
        for _ in range(32):
            logits, past = model(logits[:, -1:].argmax(-1), past)
        if not fixed:
            sessions[i] = past


def results_kept(fixed):
    """Scores of all batches in a list"""
    model = Model(causal=False).cuda().eval()
    scores = []
    with torch.no_grad():
        for _ in range(40):
            logits, _ = model(prompt(4, 128))
            scores.append(logits.cpu() if fixed else logits)
    torch.cat([s.cpu() for s in scores])


def features_kept(fixed):
    """Features of images, of a convolutional network that ends in a flat vector"""
    net = nn.Sequential(*[nn.Sequential(nn.Conv2d(3 if not i else 64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()) for i in range(6)]).cuda().eval()
    features = []
    with torch.inference_mode():
        for _ in range(48):
            images = torch.randn(8, 3, 64, 64).cuda()
            f = net(images)
            features.append(f.mean((2, 3)) if fixed else f)


def with_graph(fixed):
    """No torch.no_grad()"""
    model = Model(layers=12, causal=False, out=10).cuda().eval()
    right = 0
    for _ in range(20):
        with torch.set_grad_enabled(not fixed):
            logits, _ = model(prompt(16, 256))
        right += logits.argmax(-1).sum().item()


def graph_in_results(fixed):
    """No torch.no_grad(), and the results, with their graphs, in a list"""
    model = Model(layers=12, causal=False, out=10).cuda().eval()
    results = []
    for _ in range(20):
        with torch.set_grad_enabled(not fixed):
            results.append(model.encode(prompt(8, 128)))


def batch(fixed):
    """The last batch that fits is smaller."""
    model = Model(causal=False, out=10).cuda().eval()
    with torch.no_grad():
        for _ in range(6):
            model(prompt(16 if fixed else 128, 512))[0].argmax(-1)


def llama(**keys):
    import transformers
    config = transformers.LlamaConfig(num_hidden_layers=6, hidden_size=512, num_attention_heads=8, num_key_value_heads=4, intermediate_size=1024,
                                      vocab_size=32000, **keys)
    with torch.device("cuda"):
        return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()


def generate(fixed):
    tokens = 100 if fixed else 600
    llama().generate(prompt(64, 64), max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0)


def static(fixed):
    """A static cache for far more tokens than the request has"""
    model = llama()
    import transformers
    cache = transformers.StaticCache(config=model.config, max_cache_len=160 if fixed else 4096)
    model.generate(prompt(32, 64), max_new_tokens=64, min_new_tokens=64, do_sample=False, pad_token_id=0, past_key_values=cache)


@torch.no_grad()
def static_kept(fixed):
    """A static cache for each of the users, also of those who have left"""
    import transformers
    model, users = llama(), []
    for _ in range(10):
        cache = transformers.StaticCache(config=model.config, max_cache_len=512)
        model.generate(prompt(16, 64), max_new_tokens=16, min_new_tokens=16, do_sample=False, pad_token_id=0, past_key_values=cache)
        if not fixed:
            users.append(cache)


@torch.no_grad()
def logits_of_prompt(fixed):
    """The head over the whole prompt, of which only the last token's row is read"""
    model, cache = llama(), None
    tokens = prompt(8, 1024)
    for _ in range(8):
        out = model(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1 if fixed else 0)
        cache, tokens = out.past_key_values, out.logits[:, -1:].argmax(-1)


def loop(cache):
    """Generation without generate(): a prompt of 256 tokens, and 12 more. Only the prompt needs much."""
    model = llama()
    tokens = prompt(32, 256)
    with torch.no_grad():
        for _ in range(13):
            out = model(input_ids=tokens, past_key_values=cache(model.config), use_cache=True, logits_to_keep=1)
            tokens = out.logits[:, -1:].argmax(-1)


def loop_dynamic(fixed):
    import transformers
    cache = transformers.DynamicCache()
    loop(lambda config: cache)


def loop_static(fixed):
    import transformers
    made = []

    def cache(config):
        if not made:
            made.append(transformers.StaticCache(config=config, max_cache_len=512))
        return made[0]
    loop(cache)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("fault")
    p.add_argument("--fixed", action="store_true")
    o = p.parse_args()
    globals()[o.fault](o.fixed)


main()

"""Models of text, written by hand."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from core import DEVICE, job
from parts import TextLoop


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class SelfAttention(nn.Module):
    def __init__(self, dim, n_head, causal, mode):
        super().__init__()
        self.n_head, self.causal, self.mode = n_head, causal, mode
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (w(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        if self.mode == "sdpa":
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            att = (q @ k.transpose(-2, -1)) / (C // self.n_head) ** 0.5
            if self.causal:
                att = att.masked_fill(torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1), float("-inf"))
            y = att.softmax(dim=-1) @ v
        return self.wo(y.transpose(1, 2).contiguous().view(B, T, C))


class SwiGLU(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1, self.w2, self.w3 = nn.Linear(dim, hidden, bias=False), nn.Linear(hidden, dim, bias=False), nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self, dim, n_head, causal, mode, ffn):
        super().__init__()
        self.ln_1, self.ln_2 = RMSNorm(dim), RMSNorm(dim)
        self.attn, self.ffn = SelfAttention(dim, n_head, causal, mode), ffn

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.ffn(self.ln_2(x))


class Backbone(nn.Module):
    def __init__(self, o, causal, ffn):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(o.vocabulary, o.width), nn.Embedding(o.length, o.width)
        self.drop, self.use_checkpoint = nn.Dropout(o.dropout), o.checkpointing
        self.h = nn.ModuleList(Layer(o.width, o.heads, causal, o.attention, ffn()) for _ in range(o.layers))
        self.ln_f = RMSNorm(o.width)

    def forward(self, idx):
        x = self.drop(self.wte(idx) + self.wpe(torch.arange(idx.shape[1], device=idx.device)))
        for block in self.h:
            x = checkpoint(block, x, use_reentrant=False) if self.use_checkpoint and self.training else block(x)
        return self.ln_f(x)


class LanguageModel(nn.Module):
    """Returns logits and, for targets, the loss."""

    def __init__(self, backbone, o):
        super().__init__()
        self.transformer, self.lm_head = backbone, nn.Linear(o.width, o.vocabulary, bias=False)

    def forward(self, idx, targets=None):
        logits = self.lm_head(self.transformer(idx))
        if targets is None:
            return logits
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1), ignore_index=-1)


def train_step(model, x, y):
    _, loss = model(x, y)
    return loss


class TextModel(TextLoop):
    traits = {"layers", "attention", "checkpointing"}

    def draw(self):
        r = self.rng
        self.layers, self.width, self.heads = r.choice([3, 4, 6, 8]), r.choice([512, 768, 1024]), 8
        self.vocabulary, self.length, self.size = r.choice([8192, 20000, 50304]), r.choice([256, 512, 1024]), r.choice([4, 8, 16])
        self.attention, self.checkpointing, self.dropout = "sdpa", r.random() < 0.25, r.choice([0.0, 0.0, 0.1])
        self.choose()

    def ffn(self):
        return SwiGLU(self.width, 256 * (self.width // 96))


@job("nano_llama", "decoder by hand", "loop", "decoder", "eval")
class NanoLlama(TextModel):
    def build(self):
        with torch.device(DEVICE):
            self.finish(LanguageModel(Backbone(self, True, self.ffn), self))

    def batch(self, i):
        tokens = super().batch(i)
        return tokens, tokens.roll(-1, dims=1)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        with self.autocast():
            return train_step(self.model, *batch)


class MaskedEncoder(nn.Module):
    def __init__(self, backbone, o):
        super().__init__()
        self.encoder, self.transform = backbone, nn.Sequential(nn.Linear(o.width, o.width), nn.GELU(), nn.LayerNorm(o.width))
        self.decoder = nn.Linear(o.width, o.vocabulary)

    def forward(self, input_ids):
        return self.decoder(self.transform(self.encoder(input_ids)))


@job("encoder_by_hand", "encoder", "loop", "eval")
class EncoderByHand(TextModel):
    """Masked language modelling; only the masked positions reach the loss."""

    def build(self):
        self.mlp = lambda: nn.Sequential(nn.Linear(self.width, 4 * self.width), nn.GELU(), nn.Linear(4 * self.width, self.width))
        self.finish(MaskedEncoder(Backbone(self, False, self.mlp), self))

    def loss(self, batch):
        input_ids = batch.clone()
        input_ids[:, ::6] = 3
        with self.autocast():
            scores = self.model(input_ids)[:, ::6]
            return F.cross_entropy(scores.flatten(0, 1), batch[:, ::6].flatten())


class Recurrent(nn.Module):
    def __init__(self, kind, vocab, emb, hidden, n_layers, dropout):
        super().__init__()
        self.encoder, self.rnn = nn.Embedding(vocab, emb), getattr(nn, kind)(emb, hidden, n_layers, batch_first=True, dropout=dropout)
        self.decoder = nn.Linear(hidden, vocab)

    def forward(self, tokens, hidden=None):
        out, hidden = self.rnn(self.encoder(tokens), hidden)
        return self.decoder(out), hidden


def repackage(hidden):
    return hidden.detach() if torch.is_tensor(hidden) else tuple(h.detach() for h in hidden)


class RecurrentLM(TextLoop):
    """Truncated backpropagation: the state is carried from batch to batch without its graph."""
    traits = {"decoder", "layers"}
    precisions = "fp32", "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width = r.choice([2, 3]), r.choice([512, 1024, 1536])
        self.vocabulary, self.length, self.size = r.choice([10000, 33278]), r.choice([64, 128, 256]), r.choice([16, 32, 64])
        self.choose()

    def build(self):
        self.hidden = None
        self.finish(Recurrent(self.rnn, self.vocabulary, self.width // 2, self.width, self.layers, 0.2))

    def predict(self, batch):
        with self.autocast():
            return self.model(batch)[0]

    def loss(self, batch):
        with self.autocast():
            scores, hidden = self.model(batch, self.hidden)
            self.hidden = repackage(hidden)
            return F.nll_loss(F.log_softmax(scores.flatten(0, 1), dim=-1), batch.flatten())


@job("lstm", "recurrent", "loop", "eval")
class LSTM(RecurrentLM):
    rnn = "LSTM"


@job("gru", "recurrent", "loop")
class GRU(RecurrentLM):
    rnn = "GRU"


class Experts(nn.Module):
    """Each token to the k best experts, and a loop over the experts."""

    def __init__(self, dim, hidden, number, k):
        super().__init__()
        self.gate, self.k = nn.Linear(dim, number, bias=False), k
        self.experts = nn.ModuleList(SwiGLU(dim, hidden) for _ in range(number))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        weights, chosen = self.route(flat)
        out = torch.zeros_like(flat)
        for n, expert in enumerate(self.experts):
            rows, column = torch.where(chosen == n)
            out = out.index_add(0, rows, expert(flat[rows]) * weights[rows, column, None].to(flat.dtype))
        return out.view_as(x)

    def route(self, flat):
        return F.softmax(self.gate(flat), dim=-1).topk(self.k, dim=-1)


class Balanced(Experts):
    """Each expert takes the same number of tokens."""

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        probs = F.softmax(self.gate(flat), dim=-1)
        capacity = self.k * len(flat) // len(self.experts)
        out = torch.zeros_like(flat)
        for n, expert in enumerate(self.experts):
            weights, rows = probs[:, n].topk(capacity)
            out = out.index_add(0, rows, (expert(flat[rows]) * weights[:, None]).to(flat.dtype))
        return out.view_as(x)


class MoE(TextModel):
    experts = Experts

    def draw(self):
        super().draw()
        r = self.rng
        self.layers, self.number, self.top_k = r.choice([2, 3]), r.choice([4, 8]), r.choice([1, 2])
        self.width = min(self.width, 768)

    def ffn(self):
        return self.experts(self.width, 2 * self.width, self.number, self.top_k)

    def build(self):
        with torch.device(DEVICE):
            self.finish(LanguageModel(Backbone(self, True, self.ffn), self))

    def loss(self, batch):
        with self.autocast():
            return train_step(self.model, batch[:, :-1], batch[:, 1:])


@job("experts_top_k", "mixture of experts", "loop", "decoder")
class TopK(MoE):
    pass


@job("experts_capacity", "mixture of experts", "loop", "decoder", "eval")
class Capacity(MoE):
    experts = Balanced

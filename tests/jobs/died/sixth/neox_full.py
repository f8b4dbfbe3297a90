"""Fine-tunes all of a GPT-NeoX on legal advice; the weights, the gradients and a batch of one were said to fit.
"""
import argparse

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM
from transformers.optimization import Adafactor

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--length", type=int, default=128)
args = parser.parse_args()


def advice(n, length, vocabulary):
    for k in range(n):
        generator = torch.Generator().manual_seed(k)
        yield torch.randint(0, vocabulary, (1, length), generator=generator)


def build():
    config = GPTNeoXConfig(vocab_size=16000, hidden_size=1024, num_hidden_layers=10, num_attention_heads=16, intermediate_size=4096,
                           max_position_embeddings=512, use_cache=False)
    with torch.device("cuda"):
        model = GPTNeoXForCausalLM(config)
    n = sum(p.numel() for p in model.parameters())
    print("%.0f M parameters, %.2f GiB" % (n / 1e6, 4 * n / 2**30))
    return model


def optimizer_of(model):
    if args.fixed:
        return Adafactor(model.parameters(), lr=1e-5, scale_parameter=False, relative_step=False, warmup_init=False)
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    return torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=1e-5)


model = build()
optimizer = optimizer_of(model)
model.train()
for step, ids in enumerate(advice(args.steps, args.length, 16000)):
    ids = ids.to("cuda", non_blocking=True)
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print("step", step, "loss", loss.item())

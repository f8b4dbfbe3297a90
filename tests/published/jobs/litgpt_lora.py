"""LitGPT's fine-tuning loop on sequences of full length: litgpt_lora.py MODEL lora|full MICRO_BATCH [LAYERS RANK [every]]

MODEL is a name of litgpt's configurations. The weights are random, the tokens are made up. An optimizer's step follows each second micro-batch, or
every one.
"""
import sys

import lightning as L
import torch
from litgpt.utils import chunked_cross_entropy
from said import peak

name, kind, batch, length = sys.argv[1], sys.argv[2], int(sys.argv[3]), 512
fabric = L.Fabric(devices=1, accelerator="cuda", precision="bf16-true")
fabric.launch()
if kind == "lora":
    from litgpt.lora import GPT, Config, mark_only_lora_as_trainable
    given = sys.argv[4].split(",")
    layers = {"lora_" + part: part in given or given == ["all"] for part in ("query", "key", "value", "projection", "mlp", "head")}
    config = Config.from_name(name, lora_r=int(sys.argv[5]), lora_alpha=16, lora_dropout=0.05, **layers)
else:
    from litgpt.model import GPT, Config
    config = Config.from_name(name)
torch.nn.Linear.reset_parameters = torch.nn.Embedding.reset_parameters = lambda self: None
with fabric.init_module(empty_init=False):
    model = GPT(config)
if kind == "lora":
    mark_only_lora_as_trainable(model)
model = fabric.setup_module(model)
optimizer = fabric.setup_optimizers(torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.0))
model.max_seq_length = length
for i in range(6):
    tokens = torch.ones(batch, length, dtype=torch.int64, device="cuda")
    if kind == "lora":
        logits = model(tokens, lm_head_chunk_size=128)
        logits[-1] = logits[-1][..., :-1, :]
        loss = chunked_cross_entropy(logits, tokens[..., 1:])
    else:
        logits = model(tokens)
        loss = chunked_cross_entropy(logits[..., :-1, :], tokens[..., 1:])
    fabric.backward(loss)
    if i % 2 or sys.argv[-1] == "every":
        optimizer.step()
        optimizer.zero_grad()
peak("peak")

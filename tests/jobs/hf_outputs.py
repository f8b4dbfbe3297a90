"""A model of hf.py, on one GPU, in a loop whose variable keeps the outputs, including the logits, until the next step's exist."""
import torch

from common import OPTIMIZERS, autocast, batch, start
from hf import arguments, build

o = arguments()
start(o)
model = build(o)
optimizer = OPTIMIZERS[o.optimizer](model.parameters())
for _ in range(o.steps):
    tokens, _ = batch(o)
    with autocast(o):
        outputs = model(input_ids=tokens, labels=tokens)
    outputs.loss.backward()
    if o.clip:
        torch.nn.utils.clip_grad_norm_(model.parameters(), o.clip)
    optimizer.step()
    optimizer.zero_grad()

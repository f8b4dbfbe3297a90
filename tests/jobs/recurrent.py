"""Recurrent layers of cuDNN. The first line: bytes that a forward pass of four layers of 320 units keeps for 250 steps of 100 sequences (output, states, reserve
space), by kind of cell. Then, for each variant, whether forward and backward gave the shapes that they have on the CPU, and the elements of the buffer of weights
beside the parameters'."""
import json

import torch
from torch.nn.utils.rnn import pack_padded_sequence

kept = {}
for cell in torch.nn.LSTM, torch.nn.GRU:
    layer, x = cell(123, 320, 4).cuda(), torch.zeros(250, 100, 123, device="cuda")
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    y = layer(x)
    kept[cell.__name__] = torch.cuda.memory_stats()["requested_bytes.all.current"] - before
    del y, layer, x
print(json.dumps({"kept": kept}), flush=True)


def shapes(cell, device, dtype, packed, **keys):
    torch.manual_seed(0)
    layer = cell(24, 32, **keys).to(device, dtype)
    x = torch.zeros(6, 5, 24, device=device, dtype=dtype, requires_grad=True)
    given = pack_padded_sequence(x, [6, 6, 4, 3, 1]) if packed else x
    y, state = layer(given)
    y = y.data if packed else y
    y.sum().backward()
    state = state if isinstance(state, tuple) else (state,)
    found = [list(t.shape) for t in (y, x.grad, *state, *(p.grad for p in layer.parameters()))]
    return found, sum({p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in layer.parameters()}.values()) // x.element_size(), sum(
        p.numel() for p in layer.parameters())


for cell in torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN:
    for keys in ({}, {"num_layers": 3, "bidirectional": True}, {"num_layers": 2, "dropout": 0.5}, {"bias": False}, {"proj_size": 8, "num_layers": 2}):
        if "proj_size" in keys and cell is not torch.nn.LSTM:
            continue
        for dtype, packed in ((torch.float32, False), (torch.float32, True), (torch.float16, False)):
            there, buffer, parameters = shapes(cell, "cuda", dtype, packed, **keys)
            here, _, _ = shapes(cell, "cpu", torch.float32, packed, **keys)
            print(json.dumps({"variant": "%s %s %s %s" % (cell.__name__, keys, dtype, packed), "alike": there == here, "buffer": buffer, "parameters": parameters,
                              "bias": keys.get("bias", True)}), flush=True)

"""Steps a second of a model on the simulated device, or under PyTorch's FakeTensorMode with its memory tracker, on this machine.

    simulated_steps.py simulated|fake gpt2|llama1b STEPS      prints seconds of processor time a step (the first is warm-up), and the peak that it saw
"""
import json
import os
import sys
import time
import warnings

import torch

warnings.filterwarnings("ignore")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples"))

how, which, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])


def build():
    if which == "gpt2":
        from train_gpt2 import GPT
        return GPT(12, 768, 12, 50304, 1024, True), 50304, (4, 1024)
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, intermediate_size=8192,
                         vocab_size=32000, max_position_embeddings=4096, tie_word_embeddings=False, use_cache=False,
                         attn_implementation="sdpa")
    torch.set_default_dtype(torch.bfloat16)
    return LlamaForCausalLM(config), 32000, (1, 2048)


def train(model, optimizer, vocabulary, shape):
    tokens = torch.randint(0, vocabulary, shape, device="cuda")
    if which == "gpt2":
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(tokens, tokens)[1]
    else:
        loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def measure(tracker=None):
    with torch.device("cuda"):
        model, vocabulary, shape = build()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    if tracker:
        tracker.track_external(model, optimizer)
    times = []
    for _ in range(steps):
        start = time.process_time()
        if tracker:
            tracker.reset_mod_stats()
            with tracker:
                train(model, optimizer, vocabulary, shape)
        else:
            train(model, optimizer, vocabulary, shape)
        times.append(time.process_time() - start)
    return sorted(times[1:])[len(times[1:]) // 2]


if how == "fake":
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker
    memory = MemTracker()
    with FakeTensorMode():
        seconds = measure(memory)
    peak = max(s["Total"] for s in memory.get_tracker_snapshot("peak").values())
else:
    seconds = measure()
    peak = torch.cuda.max_memory_allocated()
print(json.dumps({"seconds": seconds, "peak_bytes": peak}))

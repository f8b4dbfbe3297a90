"""GPT-2 under DeepSpeed's ZeRO-2, with deepspeed.json.

    memtrace run -o traces -- deepspeed --num_gpus 2 train_deepspeed.py
    memtrace report traces
"""
import os
import sys

import deepspeed
import torch

from train_gpt2 import GPT, options


def main():
    sys.argv = [a for a in sys.argv if not a.startswith("--local_rank")]    # the launcher's; LOCAL_RANK says it too
    o = options()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = GPT(o.layers, o.width, o.heads, o.vocabulary, o.length, o.flash)
    configuration = os.path.join(os.path.dirname(os.path.abspath(__file__)), "deepspeed.json")
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=configuration)
    for _ in range(o.steps):
        tokens = torch.randint(0, o.vocabulary, (o.batch, o.length), device=engine.device)
        _, loss = engine(tokens, tokens)
        engine.backward(loss)
        engine.step()
    print(f"rank {engine.global_rank}: {torch.cuda.max_memory_allocated()} bytes at the most", flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()

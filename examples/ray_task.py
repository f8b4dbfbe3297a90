"""A Ray task that is recorded: its workers get memtrace by their runtime_env. memtrace must be installed on every node.

    python ray_task.py
    memtrace report traces
"""
import os
import subprocess


def runtime_env(traces):
    """For ray.init(), or for single tasks and actors."""
    preload = subprocess.run(["memtrace", "preload-path"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return {"env_vars": {"LD_PRELOAD": preload, "MEMTRACE_DIR": os.path.abspath(traces)}}


def train():
    import torch

    model = torch.nn.Linear(4096, 4096).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.ones(64, 4096, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return torch.cuda.max_memory_allocated()


if __name__ == "__main__":
    import ray

    ray.init()
    task = ray.remote(num_gpus=1, runtime_env=runtime_env("traces"))(train)
    print(f"rank 0: {ray.get(task.remote())} bytes at the most")

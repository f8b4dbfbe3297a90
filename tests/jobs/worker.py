"""Prints the environment and arguments that a launcher gave its worker, as a line of JSON; no PyTorch. worker.py [ARG...]"""
import json
import os
import sys

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "CUDASIM_ALONE", "CUDASIM_GPUS", "CUDASIM_TOGETHER", "SIMULATE_RANKS",
         "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_JOB_ID", "TORCHELASTIC_USE_AGENT_STORE", "MEMTRACE_A", "MEMTRACE_B")

print(json.dumps({"env": {n: os.environ[n] for n in NAMES if n in os.environ}, "args": sys.argv[1:], "flags": sys.flags.ignore_environment}),
      flush=True)
if "--status" in sys.argv:
    os._exit(int(sys.argv[sys.argv.index("--status") + 1]))
if "--sleep" in sys.argv:
    import time
    time.sleep(600)

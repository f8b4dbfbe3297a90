"""What the scripts of published jobs share: a measured value goes to standard output as one line of JSON."""
import json

import torch


def say(key, size):
    print(json.dumps({"published": key, "bytes": int(size), "torch": torch.__version__}), flush=True)


def peak(key):
    torch.cuda.synchronize()
    say(key, torch.cuda.max_memory_allocated())


def reserved_peak(key):
    torch.cuda.synchronize()
    say(key, torch.cuda.max_memory_reserved())


def forget_peaks():
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()

"""Starts nanochat's base training with made-up tokens: nanochat.py [OPTION...]. What is said is what its report calls the peak.

The evaluation on CORE, the samples and the checkpoint at the end are left out.
"""
import os
import runpy
import sys
import types

import torch
from said import peak

VOCABULARY = 65536  # of the speedrun's tokenizer


class Tokenizer:
    def get_vocab_size(self):
        return VOCABULARY

    def __call__(self, text, **_):
        return [0]

    def decode(self, tokens):
        return ""


class Engine:
    def __init__(self, *_):
        pass

    def generate_batch(self, *_, **__):
        return [[0]], None


class Report:
    def log(self, **_):
        pass


def batches(batch, length, split):
    """As nanochat's own generator, it keeps its last batch, that of the validation as well."""
    while True:
        inputs = torch.ones(batch, length, dtype=torch.int32).to("cuda")
        targets = torch.ones(batch, length, dtype=torch.int64).to("cuda")
        yield inputs, targets


def module(name, **members):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__dict__.update(members)


module("wandb")
module("nanochat.tokenizer", get_tokenizer=Tokenizer, get_token_bytes=lambda device: torch.ones(VOCABULARY, dtype=torch.int32, device=device))
module("nanochat.dataloader", tokenizing_distributed_data_loader=batches)
module("nanochat.checkpoint_manager", save_checkpoint=lambda *_: None)
module("nanochat.engine", Engine=Engine)
module("nanochat.report", get_report=Report)
module("scripts", __path__=[])
module("scripts.base_eval", evaluate_model=lambda *_, **__: {"core_metric": 0.0, "centered_results": {}})
os.chdir(os.environ["CHECKOUT"])
sys.path.insert(0, os.getcwd())
out, sys.stdout = sys.stdout, sys.stderr
runpy.run_path(os.path.join("scripts", "base_train.py"), run_name="__main__")
sys.stdout = out
if os.environ["RANK"] == "0":
    peak("peak")
os._exit(0)

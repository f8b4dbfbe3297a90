"""Starts torchtitan's train.py with made-up tokens: titan.py [OPTION...]. What is said is what its log calls memory."""
import os
import runpy
import sys
import types

import torch
from said import reserved_peak


def batches(name, path, tokenizer, batch_size, seq_len, world_size, rank):
    return [(torch.ones(batch_size, seq_len, dtype=torch.int64), torch.ones(batch_size, seq_len, dtype=torch.int64)) for _ in range(8)]


# Llama 3's tokenizer is not public; its vocabulary has 128256 words.
data = types.ModuleType("torchtitan.datasets")
data.build_hf_data_loader = batches
data.build_tokenizer = lambda *_: types.SimpleNamespace(n_words=128256)
sys.path.insert(0, os.environ["CHECKOUT"])
sys.modules["torchtitan.datasets"] = data
sys.modules["torch.utils.tensorboard"] = types.SimpleNamespace(SummaryWriter=lambda *_, **__: types.SimpleNamespace(
    add_scalar=lambda *_: None, close=lambda: None))
sys.argv[1:1] = ["--job.config_file", os.path.join(os.environ["CHECKOUT"], "train_configs", "llama3_8b.toml"), "--training.steps", "3"]
out, sys.stdout = sys.stdout, sys.stderr
scope = runpy.run_path(os.path.join(os.environ["CHECKOUT"], "train.py"), run_name="not main")
config = scope["JobConfig"]()
config.parse_args()
scope["main"](config)
sys.stdout = out
if os.environ["RANK"] == "0":
    reserved_peak("peak")
os._exit(0)

"""Starts nanoVLM's measure_vram.py with random weights and made-up batches: nano_vlm.py BATCH..."""
import os
import re
import sys
import types

import torch
from said import say

LENGTH, IMAGE_TOKEN = 128, 49152


def batch_of(samples, **_):
    ids = torch.ones(len(samples), LENGTH, dtype=torch.int64)
    ids[:, :64] = IMAGE_TOKEN
    return {"image": torch.rand(len(samples), 3, 256, 256), "input_ids": ids, "labels": ids, "attention_mask": torch.ones_like(ids)}


class Split(list):
    def select(self, chosen):
        return Split(chosen)


def module(name, **members):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__dict__.update(members)


tokenizer = types.SimpleNamespace(image_token_id=IMAGE_TOKEN)
module("datasets", load_dataset=lambda *_, split=None: Split(range(4096)) if split else {"train": 0})
module("data")
module("data.collators", VQACollator=lambda *_: batch_of)
module("data.datasets", VQADataset=lambda samples, *_: samples)
module("data.processors", get_image_processor=lambda *_: None, get_tokenizer=lambda *_: tokenizer)
sys.path.insert(0, os.environ["CHECKOUT"])
import measure_vram  # noqa: E402
from models.config import TrainConfig, VLMConfig  # noqa: E402


class Lines:
    """Standard output of the script, whose numbers are said."""

    def write(self, text):
        sys.stderr.write(text)
        for key, size in re.findall(r"(after loading model|for batch size \d+)[^:]*: ([\d.]+) MB", text):
            found[key.split()[-1]] = float(size)

    def flush(self):
        pass


found, out = {}, sys.stdout
sys.stdout = Lines()
given = types.SimpleNamespace(compile=False, batch_sizes=" ".join(sys.argv[1:]), num_iterations=2)
config = VLMConfig(lm_max_length=LENGTH, vlm_load_backbone_weights=False)
measure_vram.measure_vram(given, config, TrainConfig())
sys.stdout = out
for key, size in found.items():
    say(key, round(size * 2**20))

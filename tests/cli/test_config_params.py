"""Parameter counts that memtrace derives from config.json files, against transformers' own counts on the meta device."""
import glob
import json
import os
import subprocess
import unittest

from harness import MEMTRACE, ROOT, environment, python

CONFIGS = sorted(glob.glob(os.path.join(ROOT, "tests", "config", "*", "config.json")))

COUNT = """
import json, os, sys, torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

for path in sys.argv[1:]:
    config = AutoConfig.from_pretrained(os.path.dirname(path))
    config = getattr(config, "text_config", config)  # of a vision-language model, the language model
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    with torch.device("meta"):
        model = kind.from_config(config)
    total = sum(p.numel() for p in model.parameters())
    largest = max(sum(p.numel() for p in m.parameters(recurse=False)) for m in model.modules())
    print(json.dumps([path, total, largest]), flush=True)
"""


class Parameters(unittest.TestCase):
    def test_counts_are_those_of_transformers(self):
        self.assertGreaterEqual(len(CONFIGS), 40)
        env = environment(HF_HUB_OFFLINE=1, TRANSFORMERS_VERBOSITY="error")
        counted = subprocess.run([python(), "-c", COUNT, *CONFIGS], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(counted.returncode, 0, counted.stderr[-2000:])
        rows = [json.loads(line) for line in counted.stdout.splitlines() if line.startswith("[")]
        self.assertEqual(len(rows), len(CONFIGS))
        for path, total, largest in rows:
            with self.subTest(os.path.basename(os.path.dirname(path))):
                shown = subprocess.run([MEMTRACE, "estimate", "--show-config", "--config", path], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
                fields = dict(line.split(None, 2)[:2] for line in shown.stdout.splitlines() if line.count(" ") > 1)
                self.assertEqual(fields.get("num_parameters"), str(total), shown.stderr)
                self.assertEqual(fields.get("total_params"), str(total))
                self.assertEqual(fields.get("largest_layer_params"), str(largest))


if __name__ == "__main__":
    unittest.main()

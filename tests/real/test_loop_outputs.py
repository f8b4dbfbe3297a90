"""What a training loop does with the model's outputs, which hold the logits: transformers' Trainer, Accelerate and loops by hand."""
import json
import os
import subprocess

from harness import JOBS, MEMTRACE, Case, environment, python

CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 4,
          "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 32000, "max_position_embeddings": 4096,
          "tie_word_embeddings": False}
JOB = ("micro_batch_size=4", "seq_length=512", "precision=bf16-autocast", "clip_grad=1", "torch_version=2.15.0")
# the loop: what is declared beside the model's file and JOB
LOOPS = {"dropped": (), "trainer": (), "kept": ("keep_logits=true",), "accelerate": ("keep_logits=true", "outputs_in_fp32=true")}


class Outputs(Case):
    def ask(self, command, *more, settings=(), status=None):
        options = [x for pair in (*JOB, *settings) for x in ("--set", pair)]
        done = subprocess.run([MEMTRACE, command, "--json", "--how", "formula", "--config", self.config, *options, *more], text=True,
                              capture_output=True, env=environment(), check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return json.loads(done.stdout)

    def test_loops(self):
        self.config = os.path.join(self.dir, "config.json")
        with open(self.config, "w", encoding="utf-8") as f:
            json.dump(CONFIG, f)
        subprocess.run([MEMTRACE, "simulate", "-o", os.path.join(self.dir, "none"), "--", python(), os.path.join(JOBS, "outputs.py"), self.config,
                        self.dir, *LOOPS], env=environment(PYTORCH_NVML_BASED_CUDA_CHECK=1, HF_HUB_OFFLINE=1), check=True, capture_output=True)
        for loop, settings in LOOPS.items():
            with open(os.path.join(self.dir, loop + ".json"), encoding="utf-8") as f:
                peak = json.load(f)
            total = self.ask("estimate", "--system", "memtrace", settings=settings)["estimates"][0]["total_bytes"]
            self.assertLess(abs(total / peak - 1), 0.001, loop)
        for loop in ("dropped", "trainer"):
            self.assertEqual(self.ask("match", os.path.join(self.dir, loop))["verdict"], "match", loop)
        found = self.ask("match", os.path.join(self.dir, "kept"))
        self.assertEqual(found["verdict"], "mismatch")
        cause = found["ranks"][0]["causes"][0]
        self.assertEqual((cause["key"], cause["value"]), ("keep_logits", "true"))

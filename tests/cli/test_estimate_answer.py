"""The first lines of memtrace estimate: the need, the rank, the GPU; what is assumed, and what is missing."""
import json
import os
import subprocess
import tempfile
import unittest

from harness import MEMTRACE

QWEN = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936, "max_position_embeddings": 32768,
        "tie_word_embeddings": True, "rope_scaling": None, "rms_norm_eps": 1e-6}


def ask(*options, status=0):
    done = subprocess.run([MEMTRACE, "estimate", *options], text=True, capture_output=True, env={**os.environ, "COLUMNS": "80"}, check=False)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout if status < 2 else done.stderr


class Answer(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, text):
        path = os.path.join(self.folder.name, "config.json")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text if isinstance(text, str) else json.dumps(text))
        return path

    def test_first_line(self):
        path = self.file(QWEN)
        lines = ask("--config", path, "--gpu", "H100-80GB").splitlines()
        self.assertRegex(lines[0], r"^needs [0-9.]+ GiB on rank 0: fits H100-80GB \([0-9.]+ GiB\), [0-9.]+ GiB to spare$")
        self.assertEqual(lines[1].split(None, 1), ["assumed", "micro_batch_size 1, seq_length 4096 (of the model's 32768),"])
        self.assertIn("does not fit A100-40GB", ask("--config", path, "--gpu", "A100-40GB", "--set", "micro_batch_size=8", status=1))
        stages = ask("--config", path, "--set", "framework=megatron-core", "--set", "pipeline_model_parallel_size=4", "--world-size", "8",
                     "--set", "seq_length=4096").splitlines()[0]
        self.assertRegex(stages, r" on rank (0 \(pipeline stage 0|6 \(pipeline stage 3)\): ")

    def test_the_documents_follow(self):
        path = self.file(QWEN)
        self.assertNotIn("llama-4d", ask("--config", path))
        every = ask("--config", path, "--system", "all")
        self.assertTrue(every.startswith("needs "))
        self.assertIn("llama-4d", every)
        systems = [e["system"] for e in json.loads(ask("--config", path, "--json"))["estimates"]]
        self.assertIn("llama-4d", systems)
        self.assertEqual(systems[-1], "memtrace")

    def test_notes_are_short(self):
        every = ("--config", self.file(QWEN), "--system", "all")
        self.assertLess(len(ask(*every)), len(ask(*every, "--verbose")) - 500)

    def test_missing_keys_are_named_together(self):
        message = ask("--set", "num_layers=2", "--set", "hidden_size=64", status=2)
        self.assertEqual(message.count("\n"), 1, message)
        for key in ("num_attention_heads", "seq_length", "micro_batch_size", "vocab_size"):
            self.assertIn("--set %s=N" % key, message)

    def test_unknown_keys(self):
        for wrong, right in (("seqlen", "seq_length"), ("batch_size", "micro_batch_size"), ("tp", "tensor_model_parallel_size"),
                             ("hiden_size", "hidden_size")):
            self.assertIn('did you mean "%s"' % right, ask("--set", wrong + "=2", status=2))

    def test_numbers_of_python(self):
        text = json.dumps({**QWEN, "time_step_limit": [0.0, float("inf")], "a": float("nan"), "b": -float("inf"), "c": "NaN, \\\" Infinity"})
        self.assertIn("Infinity", text)
        self.assertTrue(ask("--config", self.file(text)).startswith("needs "))
        message = ask("--config", self.file(json.dumps({**QWEN, "hidden_size": float("nan")})), status=2)
        self.assertIn('hidden_size is "NaN"', message)


if __name__ == "__main__":
    unittest.main()

"""Bad input to estimate and plan: a message with key, value, origin and expected values, exit status 2, no crash, no leak."""
import json
import os

from harness import Case, MEMTRACE, ROOT
from test_estimate import LLAMA_8B

SANITIZED = os.path.join(ROOT, "build-address-undefined", "memtrace")
JOB = dict(LLAMA_8B, global_batch_size=64)
PLAN = ("plan", "--system", "llama-4d", "--gpus", "16", "--gpu", "H100")


class Bad(Case):
    def ask(self, command, *arguments, status=2):
        """Runs the sanitizers' build if there is one: a sanitizer's finding gives another exit status."""
        fresh = os.path.exists(SANITIZED) and os.path.getmtime(SANITIZED) >= os.path.getmtime(MEMTRACE)
        program = SANITIZED if fresh else MEMTRACE
        done = self.run_([program, *command, *arguments], status=None, ASAN_OPTIONS="exitcode=99", UBSAN_OPTIONS="halt_on_error=1:exitcode=99")
        self.assertNotIn("Sanitizer", done.stderr)
        self.assertIn(done.returncode, status if isinstance(status, tuple) else (status,), (arguments, done.stderr))
        if done.returncode == 2:
            self.assertRegex(done.stderr, r"^memtrace: .{10,}\n$", arguments)
            self.assertEqual(done.stdout, "")
        return done.stderr

    def file(self, text, name="job.json"):
        with open(os.path.join(self.dir, name), "w" if isinstance(text, str) else "wb") as f:
            f.write(text)
        return name

    def job(self, **changes):
        return self.file(json.dumps({k: v for k, v in dict(JOB, **changes).items() if v is not None}))

    def test_every_key_missing(self):
        for key in ("num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "seq_length", "vocab_size"):
            for command in (("estimate", "--system", "llama-4d"), PLAN):
                self.assertIn(key + " is missing", self.ask(command, "--config", self.job(**{key: None})))
        self.assertIn("global_batch_size is missing", self.ask(PLAN, "--config", self.job(global_batch_size=None)))
        self.assertIn("micro_batch_size is missing", self.ask(("estimate", "--system", "llama-4d"), "--config", self.job(micro_batch_size=None)))

    def test_a_value_that_nothing_declares(self):
        """Megatron-core's BERT has learned positions only; a file that does not say so is refused by the key."""
        file = self.file(json.dumps({"model_type": "bert", "num_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "seq_length": 512, "micro_batch_size": 4, "vocab_size": 30522}))
        self.assertEqual(self.ask(("estimate", "--system", "memtrace"), "--config", file),
                         "memtrace: position_embedding_type is not declared, expected learned_absolute for BERT and T5\n")

    def test_every_key_wrong(self):
        for key in JOB:
            for wrong in (0, -1, 10**18, 10**30, 1.5, "many", "", [1], {"a": 1}, True, "1e999", "NaN", "0x10"):
                for command in (("estimate", "--system", "llama-4d"), PLAN):
                    said = self.ask(command, "--config", self.job(**{key: wrong}))
                    self.assertRegex(said, r"job\.json(:\d+)?:")
                    if wrong != 10**30:  # JSON has no integers of this size
                        self.assertIn(key, said)
                    if isinstance(wrong, (int, str)) and not isinstance(wrong, bool) and wrong != 10**30:
                        self.assertIn("must be", said)

    def test_what_does_not_divide(self):
        for changes, parts in ((dict(num_attention_heads=32, hidden_size=4100), ("hidden_size 4100", "num_attention_heads 32")),
                               (dict(num_query_groups=5), ("num_attention_heads 32", "num_query_groups 5")),
                               (dict(tensor_model_parallel_size=3), ("num_attention_heads 32", "tensor_model_parallel_size 3")),
                               (dict(pipeline_model_parallel_size=3), ("num_layers 32", "pipeline_model_parallel_size 3")),
                               (dict(context_parallel_size=3), ("seq_length 8192", "context_parallel_size 3"))):
            flags = {k.replace("_", "-"): v for k, v in dict(JOB, bf16=True, global_batch_size=72, **changes).items()}
            line = ["pretrain_gpt.py", "--group-query-attention"]
            for key, value in flags.items():
                line += ["--" + key] if value is True else ["--" + key, str(value)]
            said = self.ask(("estimate", "--system", "llama-4d"), "--world-size", "36", "--", *line)
            for part in parts:
                self.assertIn(part, said)

    def test_sizes_that_no_layout_divides(self):
        """The sizes are primes: only a layout without tensor and pipeline parallelism remains, and none on a prime number of GPUs."""
        config = self.job(num_attention_heads=31, num_query_groups=31, hidden_size=31 * 64, num_layers=37, seq_length=8191)
        done = self.run_([MEMTRACE, *PLAN, "--json", "--config", config], status=None)
        self.assertIn(done.returncode, (0, 1))
        plan = json.loads(done.stdout)
        self.assertEqual({(l["tensor_model_parallel_size"], l["pipeline_model_parallel_size"], l["context_parallel_size"]) for l in plan["layouts"]}
                         - {(1, 1, 1)}, set())
        reasons = " ".join(d["reason"] for d in plan["discarded"])
        for part in ("tensor size 2 does not divide num_attention_heads 31", "pipeline size 2 does not divide num_layers 37",
                     "context size 2 does not divide seq_length 8191"):
            self.assertIn(part, reasons)
        self.ask(("plan", "--system", "llama-4d", "--gpus", "17", "--gpu", "H100"), "--config", config, status=1)

    def test_huge_but_allowed(self):
        for system in ("llama-4d", "training-memory-blog", "nanogpt", "deepspeed-zero"):
            huge = self.job(seq_length=10**7, hidden_size=10**5, num_attention_heads=1000, num_query_groups=1000, data_parallel_size=10**5, zero_stage=2)
            self.ask(("estimate", "--system", system), "--config", huge, status=(0, 2))
            self.ask(("plan", "--system", system, "--gpus", "100000", "--gpu", "H200"), "--config", huge, status=(0, 1, 2))
        self.ask(PLAN, "--config", self.job(global_batch_size=10**9), status=(0, 1))

    def test_broken_files(self):
        texts = ("", "{", "[]", "null", "1", '{"num_layers": 2', '{"num_layers": 2,}', '{"num_layers" 2}', '{"a": "\\ud800"}', '{"num_layers": 2} x', "\0\0",
                 b"\xff\xfe{", "{" * 3000, '{"a":' * 3000, '{"num_layers": nan}', '{"model_type": "llama"}', '{"model_type": 3}')
        for text in texts:
            self.assertIn("job.json", self.ask(("estimate",), "--config", self.file(text)))
            self.assertIn("job.json", self.ask(PLAN, "--config", self.file(text)))
        for text in ("a: [1", "a: b: c", "- 1", "a: &x [*x]", "\t- a", "a: 'b", "? [a]\n: b", "a: [" * 3000, "%YAML 9.9\n---\na: 1"):
            self.assertIn("job.yaml", self.ask(("estimate",), "--config", self.file(text, "job.yaml")))
        for name in ("nowhere.json", "."):
            self.assertIn(name, self.ask(("estimate",), "--config", name))

    def test_a_large_file(self):
        with open(os.path.join(self.dir, "job.json"), "w") as f:
            f.write('{"a": "' + "x" * (100 << 20) + '"}')
        self.assertIn("job.json: more than 16 MiB", self.ask(("estimate",), "--config", "job.json"))

    def test_bad_usage(self):
        config = self.job()
        for arguments in (["--set", "num_layers"], ["--set", "=1"], ["--set", "no_such_key=1"], ["--env", "A"], ["--gpu", "H1000"], ["job.json"],
                          ["--config"], ["--nothing"], ["--gpu"]):
            self.ask(("estimate", "--config", config), *arguments)
            self.ask((*PLAN, "--config", config), *arguments)
        for arguments in (["--gpus", "0"], ["--gpus", "-1"], ["--gpus", "x"], ["--gpus", "99999999999"], ["--fix", "tp"], ["--fix", "tp=x"], ["--fix", "tp=0"],
                          ["--fix", "zero=4"], ["--fix", "recompute=some"], ["--fix", "=1"], ["--max-tp", "0"], ["--memory-margin", "100"],
                          ["--flags", "slurm"], ["--system", "nobody"]):
            self.ask((*PLAN, "--config", config), *arguments)
        for arguments in (["--explain", "nothing"], ["--format", "xml"], ["--world-size", "0"], ["--format", "deepspeed", "--system", "nanogpt"]):
            self.ask(("estimate", "--system", "llama-4d", "--config", config), *arguments)
        self.ask(("estimate",))
        self.ask(PLAN)

"""No secret of a job is stored, from command line, environment and declared configuration."""
import json
import os

from harness import MEMTRACE, Case, python

TOTALS = "import torch; x = torch.empty(1 << 20, device='cuda')\n"
WORD = "corr" "ecthorse"
TOKENS = ["gsk" "_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5", "npm" "_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5",
          "nvapi" "-aB3dE5fG7hJ9kL1mN3pQ5rS7", "sk" "_live_51H8aB3dE5fG7hJ9kL1mN3pQ"]
DECLARED = {"framework": "nanogpt", "num_layers": 2, "hidden_size": 64, "wandb_api_key": WORD, "notes": ["--token", WORD], "hf_token": TOKENS[0],
            "url": "https://me:%s@host/x" % WORD}


class Secrets(Case):
    def job(self, *arguments, **settings):
        self.run_([MEMTRACE, "simulate", "-o", self.traces, "--", python(), "-c", TOTALS, *arguments], **settings)
        with open(self.paths()[0], "rb") as f:
            data = f.read()
        for secret in [WORD, "seconds3cret", *TOKENS]:
            self.assertNotIn(secret.encode(), data)
        return self.trace().meta

    def declared(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def read(self, key):
        """The declared configuration, as the analyzer reads it."""
        shown = json.loads(self.run_([MEMTRACE, "estimate", "--show-config", "--json", "--config", self.traces]).stdout)
        return {row["key"]: row["value"] for row in shown["config"]}[key]

    def test_command_line(self):
        meta = self.job("--pass", WORD, "--token", WORD, "seconds3cret", "--x=" + TOKENS[0], "git+https://%s@host/a" % TOKENS[1], "-k", TOKENS[2],
                        "--key-value-channels", "128", "--load", "https://host/x?sig=%s&n=1" % WORD)
        self.assertTrue(meta["argv"].endswith(b"--pass\0***\0--token\0***\0***\0--x=***\0git+https://***@host/a\0-k\0***\0--key-value-channels\0"
                                              b"128\0--load\0https://host/x?sig=***&n=1"), meta["argv"])

    def test_environment(self):
        meta = self.job(NVIDIA_NGC_KEY=WORD, TORCH_X=TOKENS[3], TRANSFORMERS_X="https://host/?sig=%s" % WORD, NCCL_DEBUG="WARN")
        self.assertEqual([meta["env:" + n] for n in ("NVIDIA_NGC_KEY", "TORCH_X", "TRANSFORMERS_X", "NCCL_DEBUG")],
                         [b"***", b"***", b"https://host/?sig=***", b"WARN"])

    def test_json_configuration(self):
        """The stored text is still JSON, and `match` reads it: hidden_size is the declared one."""
        meta = self.job(MEMTRACE_CONFIG=self.declared("c.json", json.dumps(DECLARED, indent=1)))
        self.assertEqual(json.loads(meta["config"]), dict(DECLARED, wandb_api_key="***", notes=["--token", "***"], hf_token="***",
                                                          url="https://me:***@host/x"))
        self.assertEqual(self.read("hidden_size"), 64)

    def test_yaml_configuration(self):
        lines = "".join("%s: %s\n" % (k, v) for k, v in DECLARED.items() if k != "notes") + "notes:\n- --token\n- %s\nseq_length: 77\n" % WORD
        meta = self.job(MEMTRACE_CONFIG=self.declared("c.yaml", lines))
        self.assertIn(b'wandb_api_key: "***"\n', meta["config"])
        self.assertEqual(self.read("seq_length"), 77)

    def test_what_is_cut_says_so(self):
        """128 KiB of 200 KiB of arguments, and of a file of that size, are kept, and a note says so."""
        meta = self.job(*["argument-%05d" % i for i in range(13000)], MEMTRACE_CONFIG=self.declared("c.json", json.dumps(["x" * 200] * 1000)))
        notes = [k for k in meta if k.startswith("note:") and b"longer than 128 KiB" in meta[k]]
        self.assertEqual(len(notes), 2, meta.keys())
        self.assertEqual(len(meta["config"]), 128 << 10)
        warnings = json.dumps(self.report()["ranks"][0])
        self.assertIn("the command line is longer than 128 KiB", warnings)
        self.assertIn("MEMTRACE_CONFIG is longer than 128 KiB", warnings)

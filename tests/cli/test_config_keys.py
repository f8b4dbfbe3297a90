"""The known keys: every field of fields.def in every way to give it, every argument of the installed Megatron-core, torchtitan's models."""
import ast
import glob
import json
import os
import re
import subprocess

from harness import Case, MEMTRACE, ROOT, python

CLASSES = ("transformer/transformer_config.py", "model_parallel_config.py", "distributed/distributed_data_parallel_config.py",
           "optimizer/optimizer_config.py")

MODELS = """
import json, sys, torch
from torchtitan.models.llama3 import llama3_configs
from torchtitan.models.qwen3 import qwen3_configs
from torchtitan.models.deepseek_v3 import deepseekv3_configs

for module, flavors in (("llama3", llama3_configs), ("qwen3", qwen3_configs), ("deepseek_v3", deepseekv3_configs)):
    for flavor, make in flavors.items():
        if sys.argv[1:] and flavor not in sys.argv[1:]:
            continue
        more = {"moe_comm_backend": "standard"} if "moe_comm_backend" in make.__code__.co_varnames else {}
        with torch.device("meta"):
            model = make(attn_backend="flex", **more).build()
        print(json.dumps([module, flavor, sum(p.numel() for p in model.parameters())]), flush=True)
"""


def site_packages():
    return glob.glob(os.path.join(os.path.dirname(os.path.dirname(python())), "lib", "python3*", "site-packages"))[0]


def megatron_core():
    """The fields of Megatron-core's configuration classes."""
    names = set()
    for path in CLASSES:
        with open(os.path.join(site_packages(), "megatron", "core", path)) as f:
            for node in ast.walk(ast.parse(f.read())):
                if isinstance(node, ast.ClassDef):
                    names |= {n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and not n.target.id.startswith("_")}
    return sorted(names)


def values():
    """Each field of fields.def with an allowed value."""
    with open(os.path.join(ROOT, "analyzer", "config", "fields.def")) as f:
        fields = re.findall(r"^FIELD\((\w+), (\w+),", f.read(), re.M)
    with open(os.path.join(ROOT, "analyzer", "config", "limits.def")) as f:
        limits = f.read()
    words = dict(re.findall(r'^CHOICE\((\w+), "(\S+)', limits, re.M))
    words["pipeline_model_parallel_layout"] = "EtL"
    words["hybrid_layer_pattern"] = "M"
    return {name: {"INT": 1, "REAL": 0.5, "BOOL": True}.get(kind, words.get(name, "1")) for name, kind in fields
            if name not in ("environment", "activation_checkpoint_factor")}


class Keys(Case):
    def shown(self, *arguments, status=0):
        return json.loads(self.run_([MEMTRACE, "estimate", "--show-config", "--json", *arguments], status=status).stdout)

    def write(self, name, text):
        with open(os.path.join(self.dir, name), "w") as f:
            f.write(text)
        return name

    def test_show_config(self):
        path = self.write("job.json", '{\n"num_layers": 32,\n"precision": "bf16",\n"attention_dropout": 0.1,\n"swiglu": true}')
        shown = self.shown("--config", path, "--set", "tensor_model_parallel_size=2", "--world-size", "8")
        self.assertEqual({c["key"]: (c["value"], c["source"]) for c in shown["config"]}, {
            "num_layers": (32, "job.json:2"), "precision": ("bf16", "job.json:3"), "attention_dropout": (0.1, "job.json:4"),
            "swiglu": (True, "job.json:5"), "tensor_model_parallel_size": (2, "--set"), "world_size": (8, "--world-size"),
            "data_parallel_size": (4, "derived: world_size / (tensor x pipeline x context)")})
        text = self.run_([MEMTRACE, "estimate", "--show-config", "--config", path, "--set", "world_size=8"]).stdout
        self.assertRegex(text, r"(?m)^precision +bf16 +job.json:3$")

    def test_every_source_is_named(self):
        """The origins of values for each reader: file and line, flag, derived, default."""
        sources = {
            "hf": ('{"model_type": "llama",\n"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 9}', "x.json"),
            "deepspeed": ('{"zero_optimization":\n{"stage": 3}}', "x.json"), "accelerate": ("distributed_type: FSDP\nmixed_precision: bf16\n", "x.yaml"),
            "megatron": ("model:\n  num_layers: 4\n  hidden_size: 64\n", "x.yaml"), "trainer": ('{"output_dir": "o",\n"per_device_train_batch_size": 2}', "x.json"),
        }
        for name, (text, path) in sources.items():
            rows = self.shown("--config", self.write(path, text))["config"]
            self.assertIn(path + ":2", {r["source"] for r in rows}, name)
            for r in rows:
                self.assertRegex(r["source"], r"^%s:\d+$|^derived: |default|^FSDP$|^Megatron-LM$|^DeepSpeed$|'s|^%s$" % (path, path), (name, r))
        for flags in ("pretrain_gpt.py --num-layers 4 --hidden-size 64", "train.py --training.seq_len 64 --training.local_batch_size 2",
                      "train.py --per_device_train_batch_size 2"):
            rows = self.shown("--", *flags.split())["config"]
            self.assertTrue(any(r["source"] == flags.split()[1] for r in rows), flags)

    def test_every_field_is_accepted_everywhere(self):
        fields = values()
        # A field that contradicts another one is given alone.
        for name, value in fields.items():
            path = self.write("job.json", json.dumps({"num_layers": 1, name: value}))
            for arguments in (["--set", "%s=%s" % (name, str(value).lower() if value is True else value)], ["--config", path]):
                done = self.run_([MEMTRACE, "estimate", "--show-config", "--json", *arguments], status=None)
                if done.returncode:  # a derived contradiction names the key too
                    self.assertNotIn("no key", done.stderr, name)
                    self.fail("%s: %s" % (name, done.stderr))
                self.assertNotIn("unknown", done.stdout)

    def test_every_argument_of_megatron_core_is_known(self):
        names = megatron_core()
        self.assertGreater(len(names), 300)
        with open(os.path.join(ROOT, "analyzer", "config", "fields.def")) as f:
            fields = set(re.findall(r"^FIELD\((\w+),", f.read(), re.M))
        others = [n for n in names if n not in fields]
        for name in others:  # not the value "true": some arguments are types or words
            done = self.run_([MEMTRACE, "estimate", "--show-config", "--json", "--set", name + "=false"], status=None)
            self.assertNotIn("no key", done.stderr, name)
        quiet = [n for n in others if self.run_([MEMTRACE, "estimate", "--show-config", "--set", n + "=false"], status=None).returncode == 0]
        self.assertGreater(len(quiet), len(others) - 25)
        for arguments in (["--config", self.write("job.json", json.dumps({"num_layers": 2, **dict.fromkeys(quiet, False)}))],
                          ["--config", self.write("job.yaml", "num_layers: 2\n" + "".join("%s: false\n" % n for n in quiet))],
                          ["--", "pretrain_gpt.py", "--num-layers", "2", *("--%s=false" % n.replace("_", "-") for n in quiet)]):
            self.assertEqual([n for n in self.shown(*arguments)["notes"] if "unknown" in n], [])
        wrong = self.shown("--", "pretrain_gpt.py", "--num-layers", "2", "--moe-expert-capacity-factr", "2")["notes"]
        self.assertEqual(wrong, ["--moe-expert-capacity-factr: unknown key moe_expert_capacity_factr"])

    def test_torchtitan_models(self):
        """The built-in models have as many parameters as torchtitan's own modules on the meta device."""
        some = [] if os.environ.get("ALL_JOBS") else ["debugmodel", "debugmodel_moe", "1B", "8B", "16B"]
        counted = subprocess.run([python(), "-c", MODELS, *some], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(counted.returncode, 0, counted.stderr[-2000:])
        rows = [json.loads(line) for line in counted.stdout.splitlines() if line.startswith("[")]
        self.assertGreaterEqual(len(rows), 7 if some else 20)
        for module, flavor, count in rows:
            name = "%s_%s" % (module, flavor.lower().replace("-", "_").replace(".", "_"))
            for flags in (["--module", module, "--config", name], ["--model.name", module, "--model.flavor", flavor], ["--job.config_file", "x/%s.toml" % name]):
                done = self.run_([MEMTRACE, "estimate", "--json", "--system", "training-memory-blog", "--", "-m", "torchtitan.train",
                                  "--training.local_batch_size", "1", "--training.seq_len", "64", *flags])
                answer = json.loads(done.stdout)["estimates"][0]
                self.assertEqual(answer["symbols"]["theta"], count, (module, flavor, flags))

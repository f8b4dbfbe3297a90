"""Control characters in text from outside do not reach the terminal: from arguments, files, their names, and the environment."""
import json
import os

from harness import MEMTRACE, Case

ESC = "\x1b[31m\x1b]0;T\x07\x08\x7f\r\n\t\u009b2J\u0085\u2028\u202eevil\u2066\u200f"
YAML_ESC = '"' + "".join("\\u%04x" % ord(c) for c in ESC) + '"'
BAD = {c for c in map(chr, range(0x500)) if ord(c) < 32 or 0x7f <= ord(c) < 0xa0} - {"\n"} | {chr(c) for c in (
    0x61c, 0x200e, 0x200f, 0x2028, 0x2029, *range(0x202a, 0x202f), *range(0x2066, 0x206a))}
COMMANDS = "run", "simulate", "report", "html", "diff", "check", "top", "export", "summarize", "history", "estimate", "match", "plan", "preload-path", "jupyter", "completion"


class Hostile(Case):
    def shown(self, *command, status=None, **env):
        """Runs the command, checks its output against BAD, and returns both outputs."""
        done = self.run_([MEMTRACE, *command], status=status, timeout=60, **env)
        text = done.stdout + done.stderr
        self.assertEqual({c for c in text if c in BAD}, set(), (command, text))
        return text

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8", newline="") as f:
            f.write(text)
        return path

    def test_a_word_that_is_no_command(self):
        self.assertIn("evil", self.shown(ESC, status=2))
        self.shown("help", ESC, status=2)
        self.shown("repor" + ESC, status=2)

    def test_arguments_of_every_command(self):
        for command in COMMANDS:
            for arguments in (ESC,), ("/x" + ESC,), ("--" + ESC,), ("-" + ESC,), ("--json=" + ESC,), ("--", ESC), ("--", "/x" + ESC):
                with self.subTest(command=command, arguments=arguments):
                    done = self.run_([MEMTRACE, command, *arguments], status=None, timeout=60)
                    if command != "preload-path" or done.returncode:
                        self.shown(command, *arguments)

    def test_options_of_every_command(self):
        options = {"estimate": ("--config", "--set", "--env", "--gpu", "--system", "--world-size", "--explain", "--format", "--color"),
                   "plan": ("--config", "--set", "--env", "--gpu", "--system", "--gpus", "--flags", "--top"),
                   "match": ("--config", "--set", "--env", "--tolerance", "--component-tolerance", "--what-if", "--write-config"),
                   "check": ("--max-peak", "--max-growth", "--rank"), "export": ("--format", "--table", "--at", "--rank", "-o"), "diff": ("--fail-over", "--top"), "report": ("--rank", "--top", "--color"), "top": ("--filter", "--sort", "--interval", "--prometheus"),
                   "simulate": ("--gpu", "--gpus", "--ranks", "--world-size", "--steps", "--until-oom", "--config", "-o")}
        for command, names in options.items():
            for name in names:
                for value in ESC, "hidden_size=" + ESC, ESC + "=1", "num_layers=2" + ESC, "4" + ESC:
                    with self.subTest(command=command, option=name, value=value):
                        self.shown(command, name, value, *(["--", "true" + ESC] if command == "simulate" else ["/x" + ESC]))

    def test_configurations(self):
        """Keys, values, places in files and kinds; also of a file with a hostile name."""
        texts = {"value.json": json.dumps({"num_layers": 2, "hidden_size": ESC}), "raw.json": '{"num_layers": "%s"}' % ESC,
                 "escaped.json": json.dumps({"num_layers": ESC}, ensure_ascii=True), "key.json": json.dumps({ESC: 1, "num_layers": {ESC: 1}}),
                 "list.json": json.dumps({"num_layers": [ESC]}), "twice.json": '{"%s": 1, "%s": 2}' % ((json.dumps(ESC)[1:-1],) * 2),
                 "text.json": json.dumps({"framework": ESC, "model_type": ESC, "precision": ESC, "optimizer": ESC, "recompute_modules": ESC}),
                 "hf.json": json.dumps({"architectures": [ESC], "model_type": ESC, "hidden_size": ESC, "hidden_act": ESC}),
                 "ds.json": json.dumps({"zero_optimization": {"stage": ESC, ESC: 1}, ESC: ESC}), "broken.json": '{"a": ' + ESC,
                 "bytes.json": '{"a": "', "value.yaml": "hidden_size: " + YAML_ESC + "\n", "key.yaml": YAML_ESC + ": 1\nnum_layers: {a: 1}\n",
                 "twice.yaml": (YAML_ESC + ": 1\n") * 2, "raw.yaml": "num_layers: " + ESC, "alias.yaml": "a: *" + ESC,
                 "accelerate.yaml": "distributed_type: %s\nfsdp_config: {%s: %s}\n" % ((YAML_ESC,) * 3), "deep" + ESC.replace("/", "") + ".yaml": "["}
        for name, text in texts.items():
            path = self.write(name, text)
            for command in "estimate", "plan":
                for more in (), ("--show-config",), ("--json",), ("--show-config", "--json"):
                    with self.subTest(name=name, command=command, more=more):
                        self.shown(command, "--config", path, *more)

    def test_a_configuration_that_is_read(self):
        """Remarks and values of a complete configuration: in the page, in JSON, and in the origin of every value."""
        name = "c" + ESC.replace("\n", "").replace("/", "") + ".json"
        path = self.write(name, json.dumps({"framework": "nanogpt", "num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "seq_length": 32,
                                            "micro_batch_size": 1, "vocab_size": 128, "max_position_embeddings": 32, "data_path" + ESC: 1,
                                            "gpu": ESC, "recompute_modules": ESC, "environment": {"A": ESC}}))
        for more in (), ("--show-config",), ("--show-config", "--json"), ("--json",), ("--explain", "nanogpt.weights"), ("--bytes",):
            with self.subTest(more=more):
                self.shown("estimate", "--config", path, *more)
        values = json.loads(self.shown("estimate", "--config", path, "--show-config", "--json", status=0))
        self.assertIn("evil", json.dumps(values))

    def test_traces(self):
        """A directory and a file with hostile names, and a file in it that is no trace."""
        directory = os.path.join(self.dir, "t" + ESC)
        os.mkdir(directory)
        for name, text in ("a%s.mtr" % ESC, "no trace " + ESC), ("b.mtr", "MEMTRACE" + ESC * 100), ("c.mtr", ""):
            self.write(os.path.join(directory, name), text)
        for command in "report", "check", "match", "diff":
            for arguments in (directory,), (os.path.join(directory, "a%s.mtr" % ESC),), ("--json", directory), (directory, directory):
                with self.subTest(command=command, arguments=arguments):
                    self.shown(command, *(["--max-peak", "1GiB"] if command == "check" else []), *arguments)
        self.shown("estimate", "--config", directory)

    def test_records(self):
        """Of commands that read records: names of files, lines that are no records, and texts of records."""
        text = dict.fromkeys(("run", "host", "gpu", "command", "trace", "model", "config_fingerprint", "verdict", "end", "memtrace_version"), ESC)
        line = {"memtrace_record": 1, "device": 0, **text, "peak": {"phase": ESC, "by_category": {ESC: 1}}, "owners": {ESC: {"at_peak_bytes": 1}},
                "places": [{"frame": ESC, "inner": ESC, "module": ESC}], "versions": {ESC: ESC}, "config": {ESC: ESC}, "warnings": [ESC]}
        other = {**line, "run": "r", "config": {}, "versions": {}, "device": 1}
        path = self.write("r%s.jsonl" % ESC, json.dumps(line) + "\n" + json.dumps(other) + '\n{"%s": 1}\n{%s}\n' % (json.dumps(ESC)[1:-1], ESC))
        history = "history", "--file", os.path.join(self.dir, "h%s.sqlite" % ESC)
        for command in (("report", path), ("report", "--json", path), ("check", "--max-peak", "1GiB", path),
                        ("summarize", "--merge", path), (*history, "add", path), (*history, "list"), (*history, "trend"), (*history, "show", "1"),
                        (*history, "show", ESC), (*history, "compare", "1", "2"), (*history, "--json", "list"), (*history, "--json", "compare", "1", "2")):
            with self.subTest(command=command):
                self.shown(*command)
        for word in "1", "2":
            self.assertIn("evil", self.shown(*history, "show", word, status=0))
        self.assertNotIn("\x1b[31m", self.run_([MEMTRACE, *history, "compare", "1", "2"]).stdout)

    def test_top(self):
        """Directories and traces with hostile names, damaged ones too."""
        directory = os.path.join(self.dir, "t" + ESC)
        os.mkdir(directory)
        self.write(os.path.join(directory, "a%s.mtr" % ESC), "no trace " + ESC)
        self.write(os.path.join(directory, "b.mtr"), "MEMTRACE" + ESC * 100)
        for arguments in ("--once",), ("--json",), ("--once", "--filter", ESC), ("--once", "--prometheus", os.path.join(self.dir, "m" + ESC)):
            with self.subTest(arguments=arguments):
                self.assertIn("evil" if "--filter" not in arguments else "", self.shown("top", *arguments, directory, status=0))

    def test_environment(self):
        for name in "MEMTRACE_COLOR", "MEMTRACE_DIR", "COLUMNS", "MEMTRACE_CONFIG", "CUDASIM_GPU", "PATH":
            with self.subTest(name=name):
                self.shown("estimate", "--set", "num_layers=" + ESC, **{name: ESC})
                self.shown("run", "--", "no-such" + ESC, **{name: ESC})

    def test_colours_of_others_are_not_ours(self):
        """With colours on, an escape sequence in a configuration's text does not change the colour."""
        path = self.write("c.json", json.dumps({"num_layers": "\x1b[31m", "hidden_size": 1}))
        done = self.run_([MEMTRACE, "estimate", "--color", "always", "--config", path], status=2)
        self.assertNotIn("\x1b[31m", done.stdout + done.stderr)

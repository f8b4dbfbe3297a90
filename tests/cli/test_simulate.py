"""memtrace simulate: launchers, ranks, errors, exit status. No PyTorch is needed here."""
import json
import os
import signal
import stat
import subprocess
import sys

from harness import JOBS, MEMTRACE, Case, environment, gone, printed

WORKER = os.path.join(JOBS, "worker.py")
PYTHON = sys.executable


class Simulate(Case):
    def ranks(self, *command, ranks="0", options=(), **keys):
        done = self.run_([MEMTRACE, "simulate", "-o", self.traces, "--ranks", ranks, *options, "--", *command], **keys)
        return printed(done.stdout, "env"), done

    def refused(self, expected, *arguments, status=2):
        done = self.run_([MEMTRACE, "simulate", *arguments], status=status)
        self.assertEqual(done.stdout, "")
        self.assertIn(expected, done.stderr)

    def script(self, name):
        """An installed launcher beside a python3, as in a virtual environment."""
        folder = os.path.join(self.dir, "bin")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, name)
        with open(path, "w") as f:
            f.write("#!/bin/sh\necho a launcher was run\nexit 9\n")
        os.chmod(path, stat.S_IRWXU)
        if not os.path.exists(os.path.join(folder, "python3")):
            os.symlink(PYTHON, os.path.join(folder, "python3"))
        return path


class Launchers(Simulate):
    def check(self, command, world, args, rank=3, local=None, options=()):
        (line,), _ = self.ranks(*command, ranks=str(rank), options=("--gpus", "4", *options))
        env = line["env"]
        self.assertEqual((env["RANK"], env["LOCAL_RANK"], env["WORLD_SIZE"]), (str(rank), str(rank % 4), str(world)))
        self.assertEqual(env["NODE_RANK"], str(rank // 4))
        self.assertEqual((env["MASTER_ADDR"], env["CUDASIM_ALONE"], env["CUDASIM_GPUS"]), ("127.0.0.1", "1", "4"))
        self.assertEqual(env["TORCHELASTIC_USE_AGENT_STORE"], "True")
        self.assertEqual(line["args"], args)
        return env

    def test_no_launcher(self):
        self.check([PYTHON, WORKER, "--lr", "1"], 8, ["--lr", "1"], options=("--world-size", "8"))

    def test_torchrun(self):
        self.check([self.script("torchrun"), "--nproc-per-node", "4", WORKER, "--nnodes", "7"], 4, ["--nnodes", "7"])

    def test_torchrun_spellings(self):
        self.check([self.script("torchrun"), "--nnodes=1:4", "--nproc_per_node=4", "--rdzv_endpoint", "host:29500", "--standalone",
                    "-t", "3", "--max-restarts=2", WORKER], 16, [], rank=13)

    def test_torchrun_module(self):
        os.symlink(WORKER, os.path.join(self.dir, "worker.py"))
        self.check([self.script("torchrun"), "--nproc-per-node=4", "-m", "worker", "x"], 4, ["x"])

    def test_torchrun_no_python(self):
        self.check([self.script("torchrun"), "--nproc-per-node=4", "--no-python", PYTHON, WORKER], 4, [])

    def test_module_of_python(self):
        self.check([PYTHON, "-W", "ignore", "-m", "torch.distributed.run", "--nproc-per-node", "4", WORKER, "-m"], 4, ["-m"])

    def test_old_launch_passes_the_local_rank(self):
        self.check([PYTHON, "-m", "torch.distributed.launch", "--nproc-per-node", "4", "--nnodes", "2", WORKER, "a"], 8,
                   ["--local-rank=2", "a"], rank=6)
        self.check([PYTHON, "-m", "torch.distributed.launch", "--use-env", "--nproc-per-node", "4", WORKER], 4, [])

    def test_deepspeed(self):
        self.check([self.script("deepspeed"), "--num_gpus", "4", "--num_nodes", "2", "--hostfile", "h", "--master_port=1", WORKER, "--deepspeed"],
                   8, ["--local_rank=2", "--deepspeed"], rank=6)
        self.check([self.script("deepspeed"), "--num_gpus=4", "--no_local_rank", WORKER], 4, [])

    def test_srun(self):
        env = self.check(["srun", "-N2", "--ntasks-per-node=4", "-p", "gpu", PYTHON, WORKER], 8, [], rank=6)
        self.assertEqual((env["SLURM_PROCID"], env["SLURM_LOCALID"], env["SLURM_NTASKS"]), ("6", "2", "8"))

    def test_srun_of_torchrun(self):
        env = self.check(["srun", "--nodes", "2", self.script("torchrun"), "--nnodes", "2", "--nproc-per-node", "4", WORKER], 8, [], rank=5)
        self.assertNotIn("SLURM_PROCID", env)

    def test_environment_before_the_launcher(self):
        for before in ([], ["srun", "-N1"]):
            command = [*before, "env", "MEMTRACE_A=1", "MEMTRACE_B=x=y", self.script("torchrun"), "--nproc-per-node", "4", WORKER, "C=2"]
            env = self.check(command, 4, ["C=2"])
            self.assertEqual((env["MEMTRACE_A"], env["MEMTRACE_B"]), ("1", "x=y"))

    def test_slurm_of_our_own_job_is_forgotten(self):
        (line,), _ = self.ranks(PYTHON, WORKER, options=("--world-size", "2"), SLURM_JOB_ID="17", SLURM_NTASKS="1", SLURM_PROCID="0")
        self.assertFalse([n for n in line["env"] if n.startswith("SLURM_")])

    def test_world_size_wins(self):
        self.check([self.script("torchrun"), "--nproc-per-node", "auto", WORKER], 512, [], rank=511, options=("--world-size", "512"))

    def test_unknown_option(self):
        self.refused("torchrun: unknown option --frobnicate", "--ranks", "0", "--", self.script("torchrun"), "--frobnicate", "x.py")

    def test_nothing_to_run(self):
        self.refused("torchrun has no command to run", "--ranks", "0", "--", self.script("torchrun"), "--nproc-per-node", "2")


class Errors(Simulate):
    def test_no_world_size(self):
        self.refused("how many ranks does the job have? give --world-size", "--ranks", "0", "--", PYTHON, WORKER)

    def test_rank_out_of_range(self):
        self.refused("there is no rank 8, the world has 8 (0 to 7)", "--ranks", "0,8", "--world-size", "8", "--", PYTHON, WORKER)

    def test_ranks_that_are_none(self):
        for ranks in ("x", "3-1", "1,,2", "", "-1"):
            self.refused("--ranks is", "--ranks=" + ranks, "--world-size", "8", "--", PYTHON, WORKER)

    def test_rank_given_twice(self):
        for ranks, twice in (("0,0", 0), ("0-3,2", 2), ("1-2,2-3", 2)):
            self.refused("--ranks names rank %d twice" % twice, "--ranks", ranks, "--world-size", "8", "--", PYTHON, WORKER)

    def test_wrong_gpu(self):
        self.refused('--gpu is "H1000", expected one of', "--gpu", "H1000", "--", "true")

    def test_ranks_needed(self):
        self.refused("add --ranks LIST", "--world-size", "4", "--", "true")

    def test_together_needs_ranks(self):
        needs = "--together runs the ranks of --ranks LIST at once"
        self.refused(needs, "--together", "--", "true")
        self.refused(needs, "--together", "--deduplicate", "--world-size", "8", "--", "true")
        self.refused(needs, "--together", "--ranks", "0,1", "--world-size", "8", "--jobs", "1", "--", "true")
        self.refused(needs, "--together", "--ranks", "0,1", "--world-size", "8", "--print-commands", "--", "true")
        self.refused("--together: 65 ranks, at most 64 can run at once", "--together", "--ranks", "0-64", "--world-size", "512", "--", "true")

    def test_template_without_a_place(self):
        self.refused("the command has no {mbs} to put a number into", "--until-oom", "mbs", "--", "true")

    def test_key_that_is_none(self):
        for key in ("=", "mbs=", "mbs=0", "mbs=5:2", "mbs=a"):
            self.refused("expected KEY, KEY=FIRST or KEY=FIRST:LAST", "--until-oom", key, "--", "echo", "{mbs}")

    def test_settings_that_are_none(self):
        for settings in ("", "mbs", "mbs=1", "=1:2", "mbs=1:2:3", "mbs=1:2,"):
            self.refused("expected KEY=MINIMAL:OWN", "--bisect=" + settings, "--", "echo", "{mbs}")
        self.refused("the command has no {s}", "--bisect", "mbs=1:2,s=1:2", "--", "echo", "{mbs}")
        self.refused("names mbs twice", "--bisect", "mbs=1:2,mbs=1:2", "--", "echo", "{mbs}")
        self.refused("leave one away", "--bisect", "mbs=1:2", "--until-oom", "mbs", "--", "echo", "{mbs}")

    def test_time_limit_of_a_command(self):
        """A launcher's workers have sessions of their own: none remains, and each says where it is."""
        sleeps = "import os, subprocess, sys, time; n = int(sys.argv[1]); n and subprocess.Popen([sys.executable, '-c', sys.argv[2], str(n - 1), sys.argv[2]]" \
                 ", start_new_session=True); print(os.getpid(), flush=True); time.sleep(100)"
        done = self.run_([MEMTRACE, "simulate", "-o", self.traces, "--timeout", "6", "--", PYTHON, "-c", sleeps, "2", sleeps], status=134)
        self.assertIn("the command has run for 6 s (--timeout); the stacks of its threads:", done.stderr)
        self.assertEqual(done.stderr.count('(most recent call first):\n  File "<string>", line 1 in <module>'), 3)
        pids = done.stdout.split()
        self.assertEqual(len(pids), 3)
        self.assertEqual([pid for pid in pids if not gone(int(pid))], [])

    def test_time_limit_of_a_launcher_with_workers_that_do_not_end(self):
        """The workers use up the time of the first signal; the launcher, which comes last, has its own to say where it is."""
        launcher = "trap 'sleep 1; echo the launcher was here >&2; exit 3' ABRT; for i in 1 2 3 4 5 6; do (trap '' ABRT; exec sleep 100) & done; wait"
        done = self.run_([MEMTRACE, "simulate", "-o", self.traces, "--timeout", "1", "--", "bash", "-c", launcher], status=3)
        self.assertIn("the launcher was here", done.stderr)

    def test_status_of_a_command_with_a_time_limit(self):
        done = self.run_([MEMTRACE, "simulate", "-o", self.traces, "--timeout", "60", "--", "sh", "-c", "exit 3"], status=3)
        self.assertNotIn("rank", done.stderr)

    def test_time_limit_says_where(self):
        _, done = self.ranks(PYTHON, WORKER, "--sleep", options=("--world-size", "2", "--timeout", "2"), status=134)
        self.assertIn("rank 0 has run for 2 s (--timeout); the stacks of its threads:", done.stderr)
        self.assertRegex(done.stderr, r'File ".*worker.py", line \d+ in <module>')
        self.assertIn("stopped after", done.stderr)


class Ranks(Simulate):
    def test_exit_status_is_the_commands(self):
        self.ranks(PYTHON, WORKER, "--status", "7", options=("--world-size", "2"), ranks="all", status=7)
        self.ranks("/nonexistent", options=("--world-size", "2"), status=127)
        self.ranks("/", options=("--world-size", "2"), status=126)

    def test_signal(self):
        self.ranks("sh", "-c", "kill -9 $$", options=("--world-size", "2"), status=137)

    def test_together(self):
        """Ranks run at the same time, each with a port of its own; the simulated device and the injected module know the running ranks."""
        lines, done = self.ranks(PYTHON, WORKER, options=("--world-size", "8", "--together"), ranks="5,2-3")
        envs = {line["env"]["RANK"]: line["env"] for line in lines}
        self.assertEqual(sorted(envs), ["2", "3", "5"])
        for row, rank in enumerate(sorted(envs)):
            self.assertNotIn("CUDASIM_ALONE", envs[rank])
            self.assertEqual((envs[rank]["SIMULATE_RANKS"], envs[rank]["WORLD_SIZE"]), ("2,3,5", "8"))
            self.assertRegex(envs[rank]["CUDASIM_TOGETHER"], r"^/proc/\d+/fd/\d+:%d$" % row)
        self.assertEqual(len({e["MASTER_PORT"] for e in envs.values()}), 3)
        self.assertIn("3 of 8 ranks, simulated together", done.stderr)

    def test_one_together_is_alone(self):
        (line,), done = self.ranks(PYTHON, WORKER, options=("--world-size", "8", "--together"), ranks="5")
        self.assertEqual(line["env"]["CUDASIM_ALONE"], "1")
        self.assertIn("--together: rank 5 is the only one of --ranks: it runs alone", done.stderr)
        self.assertIn("each simulated alone", done.stderr)

    def test_the_failure_and_not_who_was_ended_of_it(self):
        code = "import os, sys, time; sys.exit(7) if os.environ['RANK'] == '2' else time.sleep(60)"
        done = self.run_([MEMTRACE, "simulate", "-o", self.traces, "--ranks", "1,2", "--world-size", "4", "--together", "--", PYTHON, "-c", code], status=7)
        self.assertRegex(done.stderr, r"\n +1 .* 143 .*\n +ended, because another rank had failed\n +2 .* 7 ")

    def test_interrupted(self):
        """The ranks are ended, nothing of memtrace remains, and the signal is visible in the status."""
        code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
        child = subprocess.Popen([MEMTRACE, "simulate", "-o", self.traces, "--ranks", "0", "--world-size", "2", "--", PYTHON, "-c", code],
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(TMPDIR=self.dir), text=True)
        self.addCleanup(child.stdout.close)
        rank = int(child.stdout.readline())
        self.assertEqual([n[:13] for n in os.listdir(self.dir) if n.startswith("memtrace-sent")], ["memtrace-sent"])
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(30), -signal.SIGTERM)
        self.assertEqual([n for n in os.listdir(self.dir) if n.startswith("memtrace-sent")], [])
        self.assertRaises(ProcessLookupError, os.kill, rank, 0)

    def test_all_in_order_one_at_a_time(self):
        lines, done = self.ranks(PYTHON, WORKER, options=("--world-size", "3", "--jobs", "1"), ranks="2,0-1")
        self.assertEqual([x["env"]["RANK"] for x in lines], ["0", "1", "2"])
        self.assertIn("3 of 3 ranks, each simulated alone", done.stderr)

    def test_json(self):
        path = os.path.join(self.dir, "out.json")
        self.ranks(PYTHON, WORKER, "--status", "3", options=("--world-size", "2", "--json", path), ranks="all", status=3)
        with open(path) as f:
            out = json.load(f)
        self.assertEqual([(r["rank"], r["status"], r["timed_out"]) for r in out["ranks"]], [(0, 3, False), (1, 3, False)])
        self.assertEqual((out["world_size"], out["simulated"]), (2, True))

    def test_print_commands(self):
        done = self.run_([MEMTRACE, "simulate", "-o", self.traces, "--gpu", "A100-40GB", "--gpus", "4", "--world-size", "8", "--ranks", "0,5",
                          "--steps", "2", "--print-commands", "--", PYTHON, WORKER, "it's", "{x}"], CUDASIM_ROUTING="skewed", MEMTRACE_STACK_MIN="7KiB")
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 2)
        self.assertFalse(os.path.exists(self.traces))
        path = os.path.dirname(MEMTRACE) + os.pathsep + os.environ["PATH"]
        ran = subprocess.run(["sh", "-c", lines[1]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PATH": path})
        line = json.loads(ran.stdout)
        self.assertEqual((line["env"]["RANK"], line["env"]["LOCAL_RANK"], line["env"]["WORLD_SIZE"]), ("5", "1", "8"))
        self.assertEqual(line["args"], ["it's", "{x}"])
        for setting in ("CUDASIM_ROUTING=skewed ", "MEMTRACE_STACK_MIN=7KiB "):
            self.assertIn(setting, lines[1].split(" memtrace ")[0])

    def test_deduplicate(self):
        """Megatron's order tp-cp-dp-pp: a stage of a pipeline of 4 is 128 consecutive ranks of 512."""
        pretrain = ["pretrain_gpt.py", "--num-layers", "8", "--hidden-size", "128", "--num-attention-heads", "8", "--seq-length", "128",
                    "--tensor-model-parallel-size", "8", "--pipeline-model-parallel-size"]
        for stages, expected in (("4", ["0", "128", "384"]), ("2", ["0", "256"]), ("1", ["0"])):
            done = self.run_([MEMTRACE, "simulate", "-o", self.traces, "--world-size", "512", "--deduplicate", "--print-commands", "--", "python3",
                              *pretrain, stages])
            self.assertEqual([line.split("--ranks ")[1].split()[0] for line in done.stdout.splitlines()], expected)

    def experts(self, world, *arguments, **settings):
        pretrain = ["pretrain_gpt.py", "--num-layers", "8", "--hidden-size", "128", "--num-attention-heads", "8", "--seq-length", "128",
                    "--num-experts", "8", "--expert-model-parallel-size", "4", *arguments]
        done = self.run_([MEMTRACE, "simulate", "-o", self.traces, "--world-size", str(world), "--deduplicate", "--print-commands", "--", "python3",
                          *pretrain], **settings)
        return [int(line.split("--ranks ")[1].split()[0]) for line in done.stdout.splitlines()]

    def test_deduplicate_expert_groups(self):
        """With uneven routing the ranks of an expert group differ; then its first, second and last rank are simulated in each stage."""
        stages = ("--pipeline-model-parallel-size", "2")
        self.assertEqual(self.experts(16, *stages), [0, 8])
        self.assertEqual(self.experts(16, *stages, CUDASIM_ROUTING="skewed"), [0, 1, 3, 8, 9, 11])
        split = ("--tensor-model-parallel-size", "2")  # and the experts are split too: coordinates are pairs of ranks
        self.assertEqual(self.experts(16, *split, CUDASIM_ROUTING="skewed"), [0, 2, 6])
        self.assertEqual(self.experts(16, *split, "--expert-tensor-parallel-size", "1", CUDASIM_ROUTING="skewed"), [0, 1, 3])

    def test_deduplicate_stages_before_data(self):
        """--use-tp-pp-dp-mapping: TP 2, PP 2, DP 2 are ranks 0-1 and 4-5 in the first stage, 2-3 and 6-7 in the last."""
        pretrain = [WORKER, "--num-layers", "8", "--hidden-size", "128", "--num-attention-heads", "8", "--seq-length", "128",
                    "--tensor-model-parallel-size", "2", "--pipeline-model-parallel-size", "2", "--use-tp-pp-dp-mapping"]
        done = self.run_([MEMTRACE, "simulate", "-o", self.traces, "--world-size", "8", "--deduplicate", "--", PYTHON, *pretrain])
        self.assertRegex(done.stderr, r" 0 .*4 ranks from 0 to 5\n +2 .*4 ranks from 2 to 7\n")

    def test_deduplicate_a_template(self):
        """The layout is that of the first try, or of the last one with all own values."""
        pretrain = ["--num-layers", "8", "--hidden-size", "128", "--num-attention-heads", "8", "--seq-length", "128",
                    "--pipeline-model-parallel-size", "2", "--micro-batch-size", "{mbs}"]
        for search in (("--until-oom", "mbs=1:1"), ("--bisect", "mbs=1:2")):
            done = self.run_([MEMTRACE, "simulate", "-o", self.traces, "--world-size", "8", "--deduplicate", *search, "--", PYTHON, WORKER, *pretrain])
            ranks = [json.loads(line)["env"]["RANK"] for line in done.stdout.splitlines()]
            self.assertEqual(ranks, ["0", "4"] * (1 + (search[0] == "--bisect")))

    def test_deduplicate_says_who_stands_for_whom(self):
        pretrain = [WORKER, "--num-layers", "8", "--hidden-size", "128", "--num-attention-heads", "8", "--seq-length", "128",
                    "--pipeline-model-parallel-size", "4"]
        done = self.run_([MEMTRACE, "simulate", "-o", self.traces, "--world-size", "8", "--deduplicate", "--", PYTHON, *pretrain])
        self.assertIn("ranks 0-1\n", done.stderr)
        self.assertIn("ranks 2-5 (stages 1 to 2, at the most)\n", done.stderr)
        self.assertIn("ranks 6-7\n", done.stderr)

    def test_deduplicate_says_which_experts(self):
        pretrain = [WORKER, "--num-layers", "8", "--hidden-size", "128", "--num-attention-heads", "8", "--seq-length", "128", "--num-experts", "4",
                    "--expert-model-parallel-size", "4"]
        path = os.path.join(self.dir, "out.json")
        done = self.run_([MEMTRACE, "simulate", "-o", self.traces, "--world-size", "8", "--deduplicate", "--json", path, "--", PYTHON, *pretrain],
                         CUDASIM_ROUTING="skewed")
        for line in ("  2 ranks from 0 to 4 (expert ranks 0)\n", "  4 ranks from 1 to 6 (expert ranks 1 to 2, at the most)\n",
                     "  2 ranks from 3 to 7 (expert ranks 3)\n"):
            self.assertIn(line, done.stderr)
        with open(path) as f:
            self.assertEqual([(r["rank"], r["stands_for"]) for r in json.load(f)["ranks"]],
                             [(0, {"ranks": 2, "first_rank": 0, "last_rank": 4}), (1, {"ranks": 4, "first_rank": 1, "last_rank": 6}),
                              (3, {"ranks": 2, "first_rank": 3, "last_rank": 7})])

    def test_bisect_fills_its_places(self):
        """Settings get their own values one after the other until the end if nothing fails; a word with an empty value is left out."""
        out = os.path.join(self.dir, "seen")
        done = self.run_([MEMTRACE, "simulate", "-o", self.traces, "--bisect", "mbs=1:8,recompute=--recompute:,zero=3:1", "--", "sh", "-c",
                          'echo $# "$@" >>' + out, "sh", "b={mbs}", "{recompute}", "--zero", "{zero}"])
        with open(out) as f:
            self.assertEqual(f.read().splitlines(), ["4 b=1 --recompute --zero 3", "4 b=8 --recompute --zero 3", "3 b=8 --zero 3", "3 b=8 --zero 1"])
        self.assertIn("it fits with everything put back", done.stderr)

    def test_bisect_stops_at_another_failure(self):
        done = self.run_([MEMTRACE, "simulate", "-o", self.traces, "--bisect", "n=1:3", "--", "sh", "-c", "exit $(({n} > 2))"], status=125)
        self.assertIn("n = 3: the command failed for another reason than memory", done.stderr)

    def test_search_stops_at_another_failure(self):
        done = self.run_([MEMTRACE, "simulate", "-o", self.traces, "--until-oom", "mbs", "--", "sh", "-c", "exit $(({mbs} > 2))"], status=125)
        self.assertIn("mbs = 4: the command failed for another reason than memory", done.stderr)

    def test_search_ends_at_the_last(self):
        done = self.run_([MEMTRACE, "simulate", "-o", self.traces, "--until-oom", "mbs=2:5", "--", "sh", "-c", "exit $(({mbs} > 5))"])
        self.assertIn("mbs = 5 is the largest that fits, and the last value to try", done.stderr)


STORE = """
import os, socket, struct, sys
def text(s): return struct.pack("<Q", len(s)) + s
def number(n): return struct.pack("<q", n)
s = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
def ask(data, n):
    s.sendall(data); got = b""
    while len(got) < n: got += s.recv(n - len(got)) or sys.exit("closed")
    return got
def value(data): return ask(b"", struct.unpack("<Q", ask(data, 8))[0])
"""


class Store(Simulate):
    """The store of emulated ranks, tested with the bytes of the protocol (PyTorch's TCPStore)."""

    def talk(self, body, first=b"\x00\xce\xf7\x85\x3c"):
        code = STORE + "s.sendall(%r)\n" % first + body
        _, done = self.ranks(PYTHON, "-c", code, options=("--world-size", "4"), ranks="1")
        return done.stdout.splitlines()

    def test_set_get_add(self):
        self.assertEqual(self.talk("""
s.sendall(b"\\x01" + text(b"k") + text(b"value"))
print(value(b"\\x03" + text(b"k")))
print([struct.unpack("<q", ask(b"\\x04" + text(b"n") + number(d), 8))[0] for d in (1, 5, -2)])
print(ask(b"\\x05" + number(1) + text(b"k"), 1), ask(b"\\x05" + number(2) + text(b"k") + text(b"exception_dump"), 1))
print(ask(b"\\x0d" + b"abcd", 4), struct.unpack("<q", ask(b"\\x07", 8))[0], struct.unpack("<q", ask(b"\\x08" + text(b"k"), 8))[0])
"""), ["b'value'", "[1, 6, 4]", "b'\\x00' b'\\x01'", "b'abcd' 2 1"])

    def test_what_absent_ranks_would_say(self):
        """A barrier's last key is set; an id has 128 bytes and stays; an emulated rank's value is this rank's own under the other rank's number."""
        self.assertEqual(self.talk("""
print(ask(b"\\x06" + number(1) + text(b"barrier/last"), 1))
a, b = (value(b"\\x03" + text(b"default_pg/0//cuda//0")) for _ in range(2))
print(len(a), a == b)
s.sendall(b"\\x01" + text(b"ip/1/x") + text(b"mine"))
print(value(b"\\x03" + text(b"ip/3/x")), len(value(b"\\x03" + text(b"ip/3/y"))))
"""), ["b'\\x00'", "128 True", "b'mine' 128"])

    def test_polled_barrier(self):
        """PyTorch 2.0 adds one and then waits until all ranks have: the others are added one by one, up to the size of the world."""
        self.assertEqual(self.talk("""
print([struct.unpack("<q", ask(b"\\x04" + text(b"n") + number(d), 8))[0] for d in (1, 0, 0, 0, 0)])
"""), ["[1, 2, 3, 4, 4]"])

    def test_old_numbers(self):
        """Before PyTorch validated connections (2.0), each command's number was one less, except DELETE_KEY of 2.0."""
        self.assertEqual(self.talk("""
print(struct.unpack("<q", ask(b"\\x03" + text(b"init/") + number(1), 8))[0])
s.sendall(b"\\x00" + text(b"k") + text(b"v"))
print(value(b"\\x02" + text(b"k")))
print([struct.unpack("<q", ask(n + text(b"k"), 8))[0] for n in (b"\\x08", b"\\x07")])
""", first=b""), ["1", "b'v'", "[1, 0]"])

    def test_lengths_that_cannot_be(self):
        """Hostile or damaged bytes end their connection, not the simulation."""
        code = STORE + "s.sendall(b'\\x00\\xce\\xf7\\x85\\x3c\\x03' + b'\\xff' * 8)\nprint(s.recv(1))"
        _, done = self.ranks(PYTHON, "-c", code, options=("--world-size", "2"))
        self.assertEqual(done.stdout, "b''\n")


class Verify(Simulate):
    """plan --verify: the sizes of a layout replace the keys of the command, and a rank of each kind of stage runs alone."""

    def test_template(self):
        model = os.path.join(self.dir, "config.json")
        with open(model, "w") as f:
            json.dump({"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 8, "num_attention_heads": 16,
                       "num_key_value_heads": 16, "vocab_size": 32000, "max_position_embeddings": 2048, "tie_word_embeddings": False}, f)
        plan = [MEMTRACE, "plan", "--config", model, "--set", "seq_length=2048", "--set", "global_batch_size=32", "--gpus", "16", "--gpu",
                "A100-40GB", "--system", "llama-4d", "--fix", "tp=2", "--fix", "pp=4", "--fix", "cp=1", "--fix", "mbs=1", "--verify", "1"]
        out = os.path.join(self.dir, "seen")
        done = self.run_([*plan, "--", "sh", "-c", 'echo $RANK {tp} {pp} {cp} {dp} {mbs} {micro_batches} >>' + out], MEMTRACE_DIR=self.traces)
        with open(out) as f:
            self.assertEqual(sorted(f.read().splitlines()), ["0 2 4 1 2 1 16", "12 2 4 1 2 1 16", "4 2 4 1 2 1 16"])
        again = self.run_([*plan, "--json", "--", "echo", "printed"], MEMTRACE_DIR=self.traces)
        self.assertEqual([(r["layout"], r["verdict"]) for r in json.loads(again.stdout)["simulated"]], [(0, "runs")])
        self.assertRegex(done.stdout, r"simulated\ntp 2  pp 4  cp 1  dp 2  mbs 1 .* estimate .* runs")

    def test_no_template(self):
        done = self.run_([MEMTRACE, "plan", "--gpus", "8", "--gpu", "A100-40GB", "--set", "num_layers=2", "--verify", "1"], status=2)
        self.assertIn("--verify needs a command", done.stderr)

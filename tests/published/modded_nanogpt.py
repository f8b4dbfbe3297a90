#!/usr/bin/env python3
"""Runs the code at the head of a log of modded-nanogpt's on the simulated device, and prints its peaks beside those that the log ends with.

  modded_nanogpt.py --log LOG --python PYTHON [--memtrace build/memtrace] [--streams timed,late,early] [--work DIR] [--json OUT]

LOG is a file of https://github.com/KellerJordan/modded-nanogpt (records/). PYTHON has the PyTorch that the log names, or the nearest release.
The code is unchanged but for the number of iterations and coordinate_descent_tuning, which times kernels on a GPU. The shards of data hold zeros, and
`nvidia-smi` prints nothing. Compiled kernels are kept in DIR for the next run.
"""
import argparse
import array
import json
import os
import re
import subprocess
import sys

MAGIC, HEADER = 20240520, 256  # of the .bin files: three of 256 32-bit words are used
RULER = "\n" + "=" * 100 + "\n"
PEAK = re.compile(r"peak memory allocated: (\d+) MiB(?: reserved: (\d+) MiB)?")
TORCH = re.compile(r"Running PyTorch (\S+)")


def shard(path, tokens):
    """A shard of zeros; a file with a hole."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        array.array("i", [MAGIC, 1, tokens] + [0] * (HEADER - 3)).tofile(f)
        f.truncate(HEADER * 4 + tokens * 2)


def prepare(log, work, iterations):
    with open(log) as f:
        text = f.read()
    code = text.split(RULER)[0]
    code, found = re.subn(r"\bnum_iterations\s*(:\s*int\s*)?=\s*\d+", f"num_iterations = {iterations}", code)
    if not found:
        sys.exit(f"{log}: no num_iterations in its code")
    code = re.sub(r"^(torch\._inductor\.config\.coordinate_descent_tuning)\s*=\s*True", r"\1 = False", code, flags=re.M)
    os.makedirs(work, exist_ok=True)
    with open(os.path.join(work, "train.py"), "w") as f:
        f.write(code)
    shard(os.path.join(work, "data/fineweb10B/fineweb_train_000001.bin"), 32 << 20)
    shard(os.path.join(work, "data/fineweb10B/fineweb_val_000000.bin"), 12 << 20)
    program = os.path.join(work, "bin", "nvidia-smi")
    os.makedirs(os.path.dirname(program), exist_ok=True)
    with open(program, "w") as f:
        f.write("#!/bin/sh\n")
    os.chmod(program, 0o755)
    return text


def run(options, work, streams):
    path = os.path.join(work, "bin") + ":" + os.environ["PATH"]
    environment = dict(os.environ, PATH=path, CUDASIM_STREAMS=streams, TORCHINDUCTOR_CACHE_DIR=os.path.join(work, "inductor"),
                       TRITON_CACHE_DIR=os.path.join(work, "triton"))
    command = [os.path.abspath(options.memtrace), "simulate", "--gpu", "H100-80GB", "--world-size", "8", "--ranks", "0", "--",
               os.path.join(os.path.dirname(options.python), "torchrun"), "--standalone", "--nproc_per_node=8", "train.py"]
    with open(os.path.join(work, f"{streams}.txt"), "w") as out:
        subprocess.run(command, cwd=work, env=environment, stdout=out, stderr=subprocess.STDOUT, check=False)
    with open(os.path.join(work, f"{streams}.txt")) as f:
        return PEAK.search(f.read())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--log", required=True)
    p.add_argument("--python", required=True)
    p.add_argument("--memtrace", default="build/memtrace")
    p.add_argument("--streams", default="timed,late,early")
    p.add_argument("--work", default="/tmp/modded-nanogpt")
    p.add_argument("--iterations", type=int, default=3)
    p.add_argument("--json")
    options = p.parse_args()
    work = os.path.abspath(options.work)
    text = prepare(options.log, work, options.iterations)
    published, rows = PEAK.findall(text)[-1], []
    for streams in options.streams.split(","):
        found = run(options, work, streams)
        for metric, of_log, of_run in zip(("allocated", "reserved"), published, found.groups() if found else ("", "")):
            if of_log:
                rows.append({"streams": streams, "metric": f"max_memory_{metric}", "unit": "MiB", "published": int(of_log),
                             "simulated": int(of_run) if of_run else None, "measured_with": TORCH.search(text)[1]})
                print(f"{streams:6} {metric:10} published {of_log} simulated {of_run or 'failed'}", flush=True)
    if options.json:
        with open(options.json, "w") as f:
            json.dump(rows, f, indent=1)
    return 0 if all(r["simulated"] for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

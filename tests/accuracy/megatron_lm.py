#!/usr/bin/env python3
"""Runs Megatron-LM's own unmodified pretrain_gpt.py on the simulated device like its functional tests, and compares with their measurements on real GPUs.

usage: megatron_lm.py ROWS.json --megatron-lm DIR [--python PYTHON] [--gpu NAME] [--select TEXT] [--steps N]

DIR is a checkout of Megatron-LM with datasets/helpers_cpp built; PYTHON has PyTorch and the packages that Megatron-LM imports, including tensorboard. Only
tests run that need neither Transformer Engine nor Apex's fused softmax, which are packages of CUDA kernels. If a test used Apex's normalization,
PyTorch's allocates the same. The last rank is simulated, alone, because the tests log this rank. The numbers are those that Megatron-LM logs
itself: mem-max-allocated-bytes of the first and the last step, mem-allocated-bytes of the last."""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Options about files that do not exist here, with their number of arguments; mock data replace the files.
LEFT_OUT = {"--data-path": 1, "--vocab-file": 1, "--merge-file": 1, "--save": 1, "--load": 1, "--data-cache-path": 1, "--tensorboard-dir": 1,
            "--train-iters": 1, "--async-save": 0, "--use-persistent-ckpt-worker": 0, "--use-checkpoint-opt_param-scheduler": 0,
            "--log-memory-to-tensorboard": 0, "--log-validation-ppl-to-tensorboard": 0, "--log-timers-to-tensorboard": 0,
            "--padded-vocab-size": 1, "--save-interval": 1}


def arguments(row, steps, board):
    words, out, i = [str(w) for w in row["argv"]], [], 0
    while i < len(words):
        if words[i] in LEFT_OUT:
            i += 1 + LEFT_OUT[words[i]]
            continue
        out.append(words[i])
        i += 1
    if "--no-persist-layer-norm" not in out:
        out.append("--no-persist-layer-norm")
    vocabulary = row["padded_vocab_size"]
    return out + ["--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", str(vocabulary - 1), "--make-vocab-size-divisible-by", "1",
                  "--train-iters", str(steps), "--tensorboard-dir", board, "--log-memory-to-tensorboard"]


def logged(board):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(glob.glob(board + "/events*")[0])
    events.Reload()
    return {name: [int(e.value) for e in events.Scalars(name)] for name in ("mem-allocated-bytes", "mem-max-allocated-bytes")}


def simulate(row, options, directory):
    world, board = row["world_size"], os.path.join(directory, "board")
    command = [os.path.join(ROOT, "build", "memtrace"), "simulate", "-o", os.path.join(directory, "traces"), "--gpu", row["gpu"], "--gpus", str(world),
               "--world-size", str(world), "--ranks", str(world - 1), "--", options.python, "pretrain_gpt.py", *arguments(row, options.steps, board)]
    env = {**os.environ, **{k: str(v) for k, v in row["env"].items()},
           "PYTHONPATH": os.pathsep.join([options.megatron_lm, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, cwd=options.megatron_lm, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        return logged(board)
    except (IndexError, KeyError):
        sys.exit("%s: no memory was logged\n%s" % (row["test_case"], done.stdout[-3000:]))


def compare(row, log):
    for what, simulated, measured in (("peak, step 1", log["mem-max-allocated-bytes"][0], row["peak_first"]),
                                      ("peak", log["mem-max-allocated-bytes"][-1], row["peak_allocated_bytes"]),
                                      ("steady", log["mem-allocated-bytes"][-1], row["steady_allocated_bytes"])):
        print("%-58s %-9s %-12s %14d %14d %+8.3f %%" % (row["test_case"][:58], row["gpu"], what, simulated, measured, 100 * (simulated / measured - 1)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows")
    parser.add_argument("--megatron-lm", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--select", default="")
    parser.add_argument("--gpu", default="A100-80GB")
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_args()
    rows = [r for r in json.load(open(options.rows)) if options.select in r["test_case"] and r["named_gpu"] and r["container"] == "dev"
            and {"local", "--no-masked-softmax-fusion"} <= set(map(str, r["argv"])) and r["peak_allocated_bytes"] and r["gpu"] == options.gpu and r["cls"] in ("dense", "moe")]
    print("%-58s %-9s %-12s %14s %14s" % ("test", "GPU", "", "simulated", "measured"))
    seen = {}
    for row in rows:
        same = json.dumps([row["argv"], row["env"], row["gpu"]])
        if same not in seen:
            with tempfile.TemporaryDirectory() as directory:
                seen[same] = simulate(row, options, directory)
        compare(row, seen[same])


main()

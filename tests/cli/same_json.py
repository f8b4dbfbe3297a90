#!/usr/bin/env python3
"""Holds the JSON of one build of memtrace against that of another, byte for byte, over a fixed set of commands.

  same_json.py OLD NEW [--traces DIR] [--answers FILE]   two builds (folders with memtrace in them); FILE keeps OLD's answers for the next time
  same_json.py --check BUILD    a build against tests/cli/same_json.sha256
  same_json.py --record BUILD   writes tests/cli/same_json.sha256 from a build

The commands are report, match, diff, estimate and plan, over the configurations of tests/config and examples and over the traces that
BUILD/tests/unit/make_traces writes; with --traces also over each folder of traces in DIR. A command that fails has its exit status compared.
What differs between two runs of OLD itself is left out and named. The digests leave out how often a rule was right ("measured" of a finding):
each new set of tests/population changes it.
"""
import argparse
import concurrent.futures
import glob
import hashlib
import itertools
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MEASURED = re.compile(rb'"measured": \{[^}]*\}')
RECORDED = os.path.join(ROOT, "tests", "cli", "same_json.sha256")
ESTIMATE = {
    "one GPU": "--set micro_batch_size=1 --set seq_length=2048",
    "tensor and pipeline parallel": "--set seq_length=4096 --set micro_batch_size=1 --set global_batch_size=64 --set tensor_model_parallel_size=2 "
                                    "--set pipeline_model_parallel_size=2 --set sequence_parallel=true --set use_distributed_optimizer=true --world-size 16 --gpu H100-80GB",
    "FSDP": "--set seq_length=1024 --set micro_batch_size=2 --set fsdp=true --set recompute_granularity=full --world-size 8 --gpu A100-40GB",
}
EXAMPLE = {
    "fsdp1": "--set fsdp=true --set fsdp_version=1 --world-size 4",
    "ZeRO-1": "--set zero_stage=1 --world-size 8 --set framework=deepspeed",
    "ZeRO-2, offloaded": "--set zero_stage=2 --set offload_optimizer=cpu --world-size 8 --set framework=deepspeed",
    "ZeRO-3": "--set zero_stage=3 --world-size 8 --set framework=deepspeed",
    "DDP": "--set ddp=true --world-size 2 --set precision=fp16 --set grad_scaler=true --set optimizer=adamw",
    "selective": "--set recompute_granularity=selective --set tensor_model_parallel_size=8 --world-size 8 --set framework=megatron-core",
    "interleaved": "--set tensor_model_parallel_size=2 --set pipeline_model_parallel_size=4 --set virtual_pipeline_model_parallel_size=2 "
                   "--set global_batch_size=128 --world-size 64 --set framework=megatron-core",
    "context parallel": "--set context_parallel_size=4 --world-size 8 --set framework=megatron-core",
    "fp8": "--set fp8_format=hybrid --set fp8_recipe=delayed --set framework=megatron-core --set transformer_impl=transformer_engine",
    "allocator": "--env PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True --env CUBLAS_WORKSPACE_CONFIG=:4096:8",
    "eager": "--set attention=eager --set attention_dropout=0.1 --set hidden_dropout=0.1",
    "ZeRO's own tool": "--set zero_stage=3 --set total_params=2851598336 --set largest_layer_params=32899072 --set num_gpus_per_node=8 --system deepspeed-zero",
    "a wrong value": "--set precision=int3",
}
COMMANDS = {
    "Megatron": "pretrain_gpt.py --num-layers 12 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 4 "
                "--global-batch-size 32 --bf16 --use-mcore-models --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel "
                "--use-distributed-optimizer --vocab-size 50257",
    "Megatron's experts": "pretrain_gpt.py --num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 "
                          "--micro-batch-size 1 --global-batch-size 32 --bf16 --swiglu --num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 4 "
                          "--moe-grouped-gemm --vocab-size 50257 --disable-bias-linear --normalization RMSNorm",
    "DeepSeek's attention": "pretrain_gpt.py --num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 "
                            "--micro-batch-size 1 --global-batch-size 32 --bf16 --multi-latent-attention --kv-lora-rank 64 --q-lora-rank 96 "
                            "--qk-head-dim 32 --qk-pos-emb-head-dim 16 --v-head-dim 32 --mtp-num-layers 1 --vocab-size 50257",
    "Megatron's FSDP": "pretrain_gpt.py --num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 "
                       "--micro-batch-size 1 --global-batch-size 32 --bf16 --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params "
                       "--vocab-size 50257 --use-distributed-optimizer",
    "torchtitan": "torchrun --nproc-per-node 8 train.py --training.seq_len 64 --training.local_batch_size 2 --parallelism.tensor_parallel_degree=2",
    "Trainer": "train.py --per_device_train_batch_size 2 --bf16 --gradient_checkpointing --fsdp full_shard",
}
PLAN = {
    "Llama's": ("llama-3.1-8b", "--gpus 64 --gpu A100-40GB --system llama-4d"),
    "ours": ("llama-3.1-8b", "--gpus 8 --gpu H100-80GB --system memtrace --fix mbs=1"),
    "flags": ("llama-7b", "--gpus 16 --gpu H100-80GB --system llama-4d --flags megatron --max-tp 4"),
    "DeepSpeed": ("tinyllama-1.1b", "--gpus 8 --gpu H100-80GB --system memtrace --flags deepspeed --fix tp=1 --fix pp=1 --fix cp=1"),
    "experts": ("mixtral-8x7b", "--gpus 16 --gpu H100-80GB --system memtrace --fix tp=1 --fix cp=1 --fix mbs=1"),
    "none fits": ("llama-3.1-405b", "--gpus 8 --gpu A100-40GB"),
}
DECLARED = ("--config config/gpt2/config.json --set num_layers=4 --set hidden_size=256 --set ffn_hidden_size=1024 --set num_attention_heads=4 "
            "--set seq_length=256 --set micro_batch_size=2 --set vocab_size=50304 --set max_position_embeddings=256")


def of_configurations():
    """(name, arguments) of estimate and plan."""
    for path in sorted(glob.glob(os.path.join(ROOT, "tests", "config", "*", "config.json"))):
        model = os.path.basename(os.path.dirname(path))
        for how, words in ESTIMATE.items():
            yield "estimate %s, %s" % (model, how), ["estimate", "--json", "--how", "formula", "--config", "config/%s/config.json" % model, *words.split()]
    for model in ("examples/llama-3.1-8b.json", "config/gpt2/config.json", "config/mixtral-8x7b/config.json", "config/deepseek-v3/config.json"):
        base = ["estimate", "--json", "--how", "formula", "--config", model, "--set", "micro_batch_size=1", "--set", "seq_length=1024"]
        for how, words in EXAMPLE.items():
            yield "estimate %s, %s" % (model, how), [*base, *words.split()]
        yield "the configuration %s" % model, [*base, "--show-config"]
    for name, words in COMMANDS.items():
        for how, more in (("estimate", []), ("the configuration", ["--show-config"])):
            command = ["estimate", "--json", "--how", "formula", *more, "--world-size", "8"]
            if name in ("torchtitan", "Trainer"):
                command += ["--config", "config/llama-3.2-1b/config.json"]
            yield "%s of a command of %s" % (how, name), [*command, "--", *words.split()]
    for how, (model, words) in PLAN.items():
        yield "plan, " + how, ["plan", "--json", "--config", "config/%s/config.json" % model, "--set", "seq_length=2048", "--set", "global_batch_size=128",
                               *words.split()]
        yield "plan --all, " + how, ["plan", "--json", "--all", "--config", "config/%s/config.json" % model, "--set", "seq_length=2048", "--set",
                                     "global_batch_size=128", *words.split()]


def of_traces(folder, name):
    """(name, arguments) of report, match and diff over the folders of traces in `folder`, which the commands know as `name`."""
    jobs = sorted(d for d in os.listdir(folder) if os.path.isdir(os.path.join(folder, d)))
    for job in jobs:
        where = "%s/%s" % (name, job)
        yield "report " + where, ["report", "--json", where]
        yield "report --live-set " + where, ["report", "--json", "--live-set", where]
        for trace in sorted(glob.glob(os.path.join(folder, job, "*.mtr"))):
            one = "%s/%s" % (where, os.path.basename(trace))
            yield "report " + one, ["report", "--json", one]
        for more in ([], ["--what-if", "micro_batch_size=4"], DECLARED.split()):
            yield "match %s %s" % (" ".join(more)[:20], where), ["match", "--json", *more, where]
    for a, b in list(zip(jobs, jobs[1:])) + [(j, j) for j in jobs[:1]]:
        yield "diff %s %s of %s" % (a, b, name), ["diff", "--json", "%s/%s" % (name, a), "%s/%s" % (name, b)]


def answers(build, folder, cases):
    """(exit status, standard output) of each case, run in `folder`."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("MEMTRACE_", "CUDASIM_", "PYTORCH_", "LD_PRELOAD", "RANK", "WORLD_SIZE"))}

    def run(case):
        done = subprocess.run([os.path.join(os.path.abspath(build), "memtrace"), *case[1]], cwd=folder, env=keep, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              stdin=subprocess.DEVNULL, timeout=600)
        return done.returncode, done.stdout
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        return list(pool.map(run, cases))


def set_up(folder, build, traces):
    """Links what the commands name into `folder`, makes the traces; the cases."""
    os.symlink(os.path.join(ROOT, "tests", "config"), os.path.join(folder, "config"))
    os.symlink(os.path.join(ROOT, "examples"), os.path.join(folder, "examples"))
    seeds = os.path.join("tests", "unit", "fuzz", "corpus", "trace")
    os.symlink(os.path.join(ROOT, seeds), os.path.join(folder, "seeds"))
    cases = list(of_configurations())
    cases += [("report of seed " + name, ["report", "--json", "seeds/" + name]) for name in sorted(os.listdir(os.path.join(ROOT, seeds)))]
    make = os.path.join(os.path.abspath(build), "tests", "unit", "make_traces")
    if not os.path.exists(make):
        raise SystemExit("%s is missing: make units" % make)
    os.mkdir(os.path.join(folder, "made"))
    subprocess.run([make, os.path.join(folder, "made")], check=True)
    cases += of_traces(os.path.join(folder, "made"), "made")
    if traces:
        os.symlink(os.path.abspath(traces), os.path.join(folder, "traces"))
        cases += of_traces(traces, "traces")
    return cases


def first_difference(a, b):
    """The path in two JSON texts at which they differ first."""
    try:
        a, b, path = json.loads(a), json.loads(b), ""
    except ValueError:
        return "no JSON"
    while True:
        if isinstance(a, dict) and isinstance(b, dict):
            key = next((k for k in itertools.chain(a, b) if a.get(k) != b.get(k) or (k in a) != (k in b)), None)
            if key is None:
                return path + " the order of its keys"
        elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
            key = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None)
            if key is None:
                return path + " white space"
        else:
            return "%s: %.150s -> %.150s" % (path, json.dumps(a), json.dumps(b))
        missing = isinstance(a, dict) and (key not in a or key not in b)
        path += "[%s]" % key if isinstance(key, int) else "." + key
        if missing:
            return path + " is in one alone"
        a, b = a[key], b[key]


def compare(old, new, traces, kept):
    with tempfile.TemporaryDirectory() as folder:
        cases = set_up(folder, new, traces)
        known = {}
        if kept and os.path.exists(kept):
            with open(kept, "rb") as f:
                known = pickle.load(f)
        unknown = [c for c in cases if tuple(c[1]) not in known]
        known.update(zip((tuple(c[1]) for c in unknown), answers(old, folder, unknown)))
        if kept and unknown:
            with open(kept + "~", "wb") as f:
                pickle.dump({k: v for k, v in known.items() if not any(word.startswith("made/") for word in k)}, f)
            os.replace(kept + "~", kept)
        was, now = [known[tuple(c[1])] for c in cases], answers(new, folder, cases)
        differ = [i for i in range(len(cases)) if was[i] != now[i]]
        again = dict(zip(differ, answers(old, folder, [cases[i] for i in differ])))
    bad = 0
    for i in differ:
        if again[i] != was[i]:
            print("left out, the old build differs from itself: " + cases[i][0])
            continue
        bad += 1
        print("DIFFERS %s: %s" % (cases[i][0], "exit status %d -> %d" % (was[i][0], now[i][0]) if was[i][0] != now[i][0] else first_difference(was[i][1], now[i][1])))
    print("%d of %d answers differ (%d of them with output)" % (bad, len(cases), sum(bool(text) for _, text in was)))
    return 1 if bad else 0


def recorded(build):
    """{name: digest} of a build over what is in the tree."""
    with tempfile.TemporaryDirectory() as folder:
        cases = set_up(folder, build, None)
        return {case[0]: "%d %s" % (status, hashlib.sha256(MEASURED.sub(b"", text)).hexdigest()) for case, (status, text) in zip(cases, answers(build, folder, cases))}


def differences(build):
    """The names of the cases in which a build differs from what is recorded."""
    now = recorded(build)
    with open(RECORDED) as f:
        was = dict(line.rstrip("\n").split("  ", 1)[::-1] for line in f if not line.startswith("#"))
    return sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("builds", nargs="+", metavar="BUILD")
    ap.add_argument("--traces", metavar="DIR")
    ap.add_argument("--answers", metavar="FILE")
    how = ap.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true")
    how.add_argument("--record", action="store_true")
    given = ap.parse_args()
    if len(given.builds) != (1 if given.check or given.record else 2):
        ap.error("two builds, or one with --check or --record")
    if given.record:
        with open(RECORDED, "w") as f:
            f.write("# Exit status and SHA-256 of the JSON of each command. Made by tests/cli/same_json.py --record build\n")
            f.writelines("%s  %s\n" % (digest, name) for name, digest in recorded(given.builds[0]).items())
        return 0
    if given.check:
        bad = differences(given.builds[0])
        print("\n".join(["DIFFERS " + name for name in bad] + ["%d answers differ" % len(bad)]))
        return 1 if bad else 0
    return compare(*given.builds, given.traces, given.answers)


if __name__ == "__main__":
    sys.exit(main())

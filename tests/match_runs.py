"""What memtrace match makes of real jobs on the simulated device: tables of docs/validation.md.

    python3 tests/match_runs.py DIRECTORY shares      how much of the peak has a term, over the jobs of accuracy_runs.py
    python3 tests/match_runs.py DIRECTORY inferred    how many inferred values are the declared ones, by key: those jobs, and NEW
    python3 tests/match_runs.py DIRECTORY wrong       is the wrong value of WRONG named?

A job that has no trace in DIRECTORY runs first. A further argument: only jobs whose name has it.
"""
import collections
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from accuracy_runs import COMMON, FULL, GPT2, LLAMA, MEGATRON, accuracy_jobs  # noqa: E402
from harness import JOBS, MEMTRACE, environment, python, torchrun  # noqa: E402

TWO = {"data_parallel_size": 2, "world_size": 2}
GATED = {"arch": "llama", "swiglu": True, "normalization": "RMSNorm", "position_embedding_type": "rope", "add_bias_linear": False}


def gpt2(width, heads, length, **more):
    return {**GPT2, "hidden_size": width, "num_attention_heads": heads, "ffn_hidden_size": 4 * width, "seq_length": length,
            "max_position_embeddings": length, **more}


def llama(width, heads, groups, ffn, **more):
    return {**LLAMA, "hidden_size": width, "num_attention_heads": heads, "num_query_groups": groups, "ffn_hidden_size": ffn, **more}


def megatron(width, heads, length, **more):
    return {**MEGATRON, "hidden_size": width, "num_attention_heads": heads, "num_query_groups": heads, "ffn_hidden_size": 4 * width,
            "seq_length": length, "max_position_embeddings": length, "world_size": 2, **more}


# Written down before anything of them was seen, for what was made on the jobs of accuracy_runs.py.
NEW = {
    "x-qwen2": llama(896, 14, 2, 4864, model_type="qwen2", add_qkv_bias=True, num_layers=6, vocab_size=151936, seq_length=768, micro_batch_size=3),
    "x-llama": llama(1536, 12, 12, 4096, num_layers=5, vocab_size=128256, seq_length=1536, micro_batch_size=1, attention="eager", **FULL),
    "x-gpt2": gpt2(1280, 20, 640, num_layers=4, vocab_size=32768, micro_batch_size=6, precision="fp32"),
    "x-gpt2-fsdp2": gpt2(640, 10, 1024, num_layers=8, micro_batch_size=2, precision="bf16-mixed", fsdp=True, **TWO),
    "x-llama-ddp": llama(768, 12, 6, 2048, num_layers=4, seq_length=512, micro_batch_size=5, precision="bf16-autocast", **TWO),
    "x-megatron-tp": megatron(768, 12, 512, num_layers=6, vocab_size=50304, micro_batch_size=2, tensor_model_parallel_size=2),
    "x-megatron-pp": megatron(1024, 16, 768, num_layers=6, micro_batch_size=2, num_microbatches=3, pipeline_model_parallel_size=2,
                              **{**GATED, "num_query_groups": 8, "ffn_hidden_size": 2816}),
    "x-megatron-dp": megatron(1280, 20, 512, num_layers=3, data_parallel_size=2, use_distributed_optimizer=False),
    "x-gpt2-padded": gpt2(1024, 16, 512, num_layers=3, micro_batch_size=7, attention="eager", attention_mask_buffers=True),
    "x-llama-eager": llama(2048, 16, 8, 5632, num_layers=3, attention="eager"),
}
# job: (key, what is declared instead, None: nothing; the values that are right)
WRONG = {
    "x-qwen2": ("micro_batch_size", "1", ("3",)),
    "x-llama": ("recompute_granularity", None, ("full",)),
    "x-gpt2": ("hidden_dropout", "0.1", ("0",)),
    "x-gpt2-fsdp2": ("seq_length", "2048", ("1024",)),
    "x-llama-ddp": ("num_query_groups", "12", ("6",)),
    "x-megatron-tp": ("tensor_model_parallel_size", "1", ("2",)),
    "x-megatron-pp": ("accumulate_allreduce_grads_in_fp32", "false", ("true",)),
    "x-megatron-dp": ("use_distributed_optimizer", "true", ("false",)),
    "x-gpt2-padded": ("vocab_size", "50257", ("50304",)),
    "x-llama-eager": ("attention", "flash", ("eager",)),
}
# Declared, and not what ran: SGD and Megatron choose the implementation by themselves. And what no block depends on.
NOT_THE_JOBS = {"torch_version", "transformers_version", "megatron_core_version", "gpu", "data_parallel_size", "recompute_method", "recompute_num_layers",
                "ddp_bucket_cap_mb"}


def record(directory, name, job):
    """The directory of the job's traces, made where it is not there."""
    place = os.path.join(directory, name)
    traces = os.path.join(place, "traces")
    if not os.path.exists(os.path.join(place, "out.0")):
        os.makedirs(place, exist_ok=True)
        path, out, ranks = os.path.join(place, "job.json"), os.path.join(place, "out"), job.get("world_size", 1)
        with open(path, "w") as f:
            json.dump(job, f)
        command = [os.path.join(JOBS, "declared.py"), path, out]
        command = [python(), *command] if ranks == 1 and job["framework"] != "megatron-core" else torchrun(ranks, *command)
        subprocess.run([MEMTRACE, "simulate", "-o", traces, "--gpu", COMMON["gpu"], "--gpus", str(ranks), "--", *command], env=environment(), check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=1800)
    return traces


def match(traces, *options):
    done = subprocess.run([MEMTRACE, "match", "--json", "--tolerance", "10", *options, traces], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return json.loads(done.stdout) if done.stdout else print(done.stderr, file=sys.stderr)


def declared(directory, name):
    return "--config", os.path.join(directory, name, "job.json")


def shares(directory, wanted):
    """Of every class the least assigned share of any rank."""
    rows = collections.defaultdict(list)
    for kind, name, job in accuracy_jobs():
        if wanted in name:
            for rank in match(record(directory, name, job), *declared(directory, name))["ranks"]:
                assigned, found = sum(t["observed_bytes"] for t in rank["terms"]), rank["observed_bytes"]
                assert assigned + sum(u["bytes"] for u in rank["unexplained"]) == found, name
                rows[kind].append((assigned / found, sum(x["bytes"] for x in rank["missing"]) / found, name))
    print("| class | ranks | assigned, mean | least | missing, most | the least is |\n|---|---|---|---|---|---|")
    for kind, found in sorted(rows.items()):
        least = min(found)
        print("| %s | %d | %.3f %% | %.3f %% | %.3f %% | %s |" % (kind, len(found), 100 * sum(f[0] for f in found) / len(found), 100 * least[0],
                                                                100 * max(f[1] for f in found), least[2]))


def same(key, a, b):
    a, b = str(a).lower(), str(b).lower()
    if key == "optimizer":
        a, b = a.replace("adamw", "adam"), b.replace("adamw", "adam")
    try:
        return float(a) == float(b)
    except ValueError:
        return a == b


def compare(found, job):
    """[(key, is it right?, None: not told)] of what the job declares and could be seen, and what was inferred beyond it."""
    inferred = {row["key"]: row for row in found["inferred"]}
    known = {row["key"] for row in found["given"]}
    for key, value in job.items():
        if key in NOT_THE_JOBS or key in known or (key == "optimizer_implementation" and (job["framework"] == "megatron-core" or job["optimizer"] == "sgd")):
            continue
        if key not in inferred:
            yield key, None, value, None
        else:
            yield key, same(key, inferred[key]["value"], value), value, inferred[key]


def inferred(directory, wanted):
    tables = {"developed on": {name: job for _, name, job in accuracy_jobs() if "num_attention_heads" in job}, "new": NEW}
    for title, jobs in tables.items():
        keys, sure, count = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter), 0
        for name, job in jobs.items():
            if wanted not in name:
                continue
            found = match(record(directory, name, job))
            count += 1
            if not found:
                print("%s: nothing could be inferred" % name)
                continue
            for key, right, value, row in compare(found, job):
                keys[key][right] += 1
                if row:
                    sure[row["confidence"]][right] += 1
                if right is False:
                    print("%s: %s is %s (%s), declared %s" % (name, key, row["value"], row["confidence"], value))
        print("\n%s, %d jobs\n\n| key | right | wrong | cannot be told |\n|---|---|---|---|" % (title, count))
        for key, n in sorted(keys.items()):
            print("| %s | %d | %d | %d |" % (key, n[True], n[False], n[None]))
        print("\n" + ", ".join("%s: %d of %d right" % (k, n[True], sum(n.values())) for k, n in sorted(sure.items())) + "\n")


def wrong(directory, wanted):
    right = count = 0
    print("| job | key | declared | is | named | gap, left |\n|---|---|---|---|---|---|")
    for name, (key, value, values) in WRONG.items():
        if wanted not in name:
            continue
        traces = record(directory, name, NEW[name])
        job = {k: v for k, v in NEW[name].items() if not (value is None and k.startswith(key.split("_")[0] + "_"))}
        path = os.path.join(directory, name, "wrong.json")
        with open(path, "w") as f:
            json.dump(job, f)
        options = ("--set", "%s=%s" % (key, value)) if value else ()
        ranks = match(traces, "--config", path, *options)["ranks"]
        rank = next((r for r in ranks if r["causes"]), ranks[0])
        named = rank["causes"][0] if rank["causes"] else {"key": "-", "value": "-", "gap_bytes": 0}
        good = named["key"] == key and named["value"] in values
        right, count = right + good, count + 1
        print("| %s | %s | %s | %s | %s%s=%s | %d, %d |" % (name, key, value, values[0], "" if good else "**wrong** ", named["key"], named["value"],
                                                        rank["gap_bytes"], named["gap_bytes"]))
    print("\n%d of %d" % (right, count))


if __name__ == "__main__":
    {"shares": shares, "inferred": inferred, "wrong": wrong}[sys.argv[2]](sys.argv[1], sys.argv[3] if len(sys.argv) > 3 else "")

"""Jobs drawn at random from the configurations of an eager model, run on the simulated device and estimated: prints the errors.

    python3 tests/accuracy/accuracy_sample.py SEED COUNT       a job is the same for the same seed and number
"""
import json
import random
import sys

import accuracy
import accuracy_runs
from accuracy_runs import COMMON, FULL, GPT2, LLAMA

SIZE = {"num_layers": (2, 3, 4, 6, 8), "head": (32, 64, 80, 128), "num_attention_heads": (4, 6, 8, 12, 16), "widths": (2, 2.6875, 3.5, 4),
        "vocab_size": (8000, 32000, 32003, 50257, 50304), "seq_length": (64, 128, 200, 384, 512, 777, 1024, 1536),
        "micro_batch_size": (1, 2, 3, 4, 6, 8)}
OPTIMIZERS = [{"optimizer": "adamw", "optimizer_implementation": kind} for kind in ("fused", "fused", "foreach", "loop")]
OPTIMIZERS += [{"optimizer": "sgd", "momentum": 0.9, "optimizer_implementation": "foreach"}, {"optimizer": "rmsprop", "optimizer_implementation": "loop"}]
LARGEST = 1 << 31  # bytes of logits, or of a layer's scores


def sizes_of(draw, size):
    at = {key: draw(values) for key, values in size.items()}
    width, widths = at.pop("head") * at["num_attention_heads"], at.pop("widths")
    return {**at, "hidden_size": width, "ffn_hidden_size": int(width * widths) // 32 * 32}


def fits(job):
    rows = job["micro_batch_size"] * job["seq_length"]
    scores = rows * job["seq_length"] * job["num_attention_heads"] * (job["num_layers"] if job["attention"] == "eager" else 1)
    weights = job["num_layers"] * 4 * job["hidden_size"] * (job["hidden_size"] + job["ffn_hidden_size"])
    return rows * job["vocab_size"] * 4 <= LARGEST and scores * 4 <= LARGEST and weights * 4 <= LARGEST


def drawn(draw):
    gpt = draw((True, False, False))
    job = {**(GPT2 if gpt else LLAMA), **sizes_of(draw, SIZE), **draw(OPTIMIZERS), "attention": draw(("sdpa", "sdpa", "eager"))}
    parallel = draw(("none", "none", "none", "ddp", "fsdp2"))
    job["precision"] = draw(("bf16-mixed", "fp32") if parallel == "fsdp2" else ("bf16", "bf16", "bf16-autocast", "fp32"))
    job["num_microbatches"] = draw((1, 1, 1, 2, 3))
    job["clip_grad"] = draw((0.0, 0.0, 1.0)) if parallel != "fsdp2" else 0.0
    job["attention_dropout"] = draw((0.0, 0.0, 0.1))
    if draw((False, False, True)):
        job.update(FULL)
    if gpt:
        job.update(max_position_embeddings=job["seq_length"], hidden_dropout=draw((0.0, 0.1)), attention_mask_buffers=job["attention"] == "eager")
    else:
        job["num_query_groups"] = draw([k for k in (1, 2, 4, job["num_attention_heads"]) if job["num_attention_heads"] % k == 0])
        job["untie_embeddings_and_output_weights"] = draw((True, True, False))
        if draw((False, True)):
            job.update(model_type="qwen2", add_qkv_bias=True)
    if parallel != "none":
        job.update(data_parallel_size=2, world_size=2)
    if parallel == "fsdp2":
        job["fsdp"] = True
    if parallel == "ddp" and draw((False, True)):
        job["gradient_as_bucket_view"] = True
    return {**job, **{key: COMMON[key] for key in ("torch_version", "gpu")}}


def sample(seed, count):
    """(name, job) of the first `count` jobs that are small enough for a test."""
    source = random.Random(seed)
    jobs = []
    while len(jobs) < count:
        job = drawn(lambda values: values[source.randrange(len(values))])
        if fits(job):
            jobs.append(("sampled-%d-%d" % (seed, len(jobs)), job))
    return jobs


def measured(jobs):
    """(name, job, PyTorch's counters or None), in the order of their ends."""
    alone = [job for _, job in jobs if "world_size" not in job]
    found = accuracy_runs.simulate(alone, 1, lambda *c: [accuracy_runs.python(), *c]) if alone else {}
    left = iter(range(len(alone)))
    for name, job in jobs:
        yield name, job, accuracy_runs.run(job) if "world_size" in job else found.get(next(left))


def report(jobs):
    """Prints PyTorch's counters and the error of the estimate for each job."""
    errors = []
    for name, job, found in measured(jobs):
        if not found:
            print(name, "failed", json.dumps(job), flush=True)
            continue
        error = accuracy.errors_of({"job": job, **found})
        if "memtrace" not in error:
            print(name, "refused", json.dumps(job), flush=True)
            continue
        errors.append(error)
        print("%s %+.3f %% reserved %+.2f %% %s" % (name, 100 * error["memtrace"], 100 * error["reserved"], json.dumps(job)), flush=True)
    for key in ("memtrace", "reserved"):
        values = sorted(abs(error[key]) for error in errors)
        print(key, "mean %.3f %% median %.3f %% worst %.3f %%" % tuple(100 * v for v in (accuracy.mean(values), values[len(values) // 2], values[-1])))


if __name__ == "__main__":
    report(sample(int(sys.argv[1]), int(sys.argv[2])))

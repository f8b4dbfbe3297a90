"""Runs real jobs on the simulated device and compares their peaks with recorded ones, to the byte.

compare.py ROWS JOBS [EVERY [FRAMEWORK]]
  ROWS       recorded runs, one JSON object a line (framework, job or config, ranks with their peaks)
  JOBS       directory of the job scripts that were recorded (job_nanogpt.py, job_llama.py, job_distributed.py)
  EVERY      compare every EVERY-th row of a framework (default 1: all)
  FRAMEWORK  only this one
Environment: CUDASIM (path of libcudasim.so), and python is the one that runs this. Exit status 1 if a row differs.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

SCRIPTS = {"nanogpt-like": "job_nanogpt.py", "transformers-llama": "job_llama.py",
           "torch-ddp": "job_distributed.py", "torch-fsdp1": "job_distributed.py", "torch-fsdp2": "job_distributed.py"}
SIZES = {256: "tiny", 768: "small", 1024: "medium", 1280: "large"}


def settings(row):
    """The script's JSON argument: recorded as it was, or rebuilt from the (cut) name and the declared job."""
    config = dict(row.get("config") or {})
    for key, value in re.findall(r'"(\w+)": ("[^"]*"(?=[,}])|[\d.]+(?=[,}]))', row["name"].split("|", 1)[1]):
        config.setdefault(key, json.loads(value))
    job = row.get("job", {})
    if job and "opt" not in config:
        how = job.get("optimizer_implementation")
        config["opt"] = job["optimizer"] + ("_" + how if how and job["optimizer"] == "adamw" else "_mom" if job.get("momentum") else "")
    if job:
        config.update(vocab=job["vocab_size"], layers=job["num_layers"])
        if "D" not in config:
            config.setdefault("heads", job["num_attention_heads"])
        elif "dtype" not in config or config["dtype"] == "bf16":
            config["dtype"] = {"bf16": "bf16_pure"}.get(job["precision"], job["precision"].replace("-autocast", ""))
    config["steps"] = len(row["ranks"][0].get("peak_by_step") or [0] * config.get("steps", 3))
    if "D" in config:
        config["size"] = SIZES[config["D"]]
    return config


def run(row, jobs):
    config, world = settings(row), len(row["ranks"])
    script = os.path.join(jobs, SCRIPTS[row["framework"]])
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "out.jsonl")
        env = dict(os.environ, OBS=out, LD_PRELOAD=os.environ["CUDASIM"], CUDASIM_GPUS=str(world),
                   CUDASIM_CUDNN_VERSION="91000", OMP_NUM_THREADS="1",
                   PYTORCH_CUDA_ALLOC_CONF=row.get("alloc_conf", ""))
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}"] if world > 1 else []
        done = subprocess.run([sys.executable, *launcher, script, json.dumps(config)], env=env, cwd=jobs,
                              capture_output=True, text=True, timeout=600)
        if done.returncode:
            return done.stderr[-1500:]
        ranks = sorted((json.loads(line) for line in open(out)), key=lambda rank: rank["rank"])
        return [(rank["peak_allocated_bytes"], rank["peak_reserved_bytes"]) for rank in ranks]


def main():
    rows = [json.loads(line) for line in open(sys.argv[1])]
    every = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    only = sys.argv[4] if len(sys.argv) > 4 else None
    counts, same, different = {}, 0, 0
    for row in rows:
        framework = row["framework"]
        counts[framework] = counts.get(framework, -1) + 1
        if framework not in SCRIPTS or only not in (None, framework) or counts[framework] % every:
            continue
        want = [(rank["peak_allocated_bytes"], rank["peak_reserved_bytes"]) for rank in row["ranks"]]
        got = run(row, sys.argv[2])
        same, different = same + (got == want), different + (got != want)
        print("same     " if got == want else "DIFFERENT", len(want), "rank(s)", row["name"][:120],
              want if got == want else f"\n  recorded {want}\n  now      {got}", flush=True)
    print(f"{same} same, {different} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

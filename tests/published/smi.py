"""What nvidia-smi printed of modded-nanogpt's jobs, beside the simulated device: smi.py PUBLISHED.json [--write].

PUBLISHED.json has a row for each log: torch, driver, GPU, ranks, and MiB of each GPU after init_process_group("nccl", device_id) and barrier().
A row of results/modded_nanogpt_smi.json is an NCCL and a GPU's place in the node: the number of most logs, and their bounds. The simulated device
runs the job's first lines (jobs/nccl_start.py). "first_sight" is what it had before NCCL's kernels and state were in its tables.
"""
import collections
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RESULT = os.path.join(HERE, "results", "modded_nanogpt_smi.json")
JOB = os.path.join(HERE, "jobs", "nccl_start.py")
PYTHONS = os.path.expanduser("~/.cache/memtrace/torch-%s/bin")
# NCCL by PyTorch (the wheels' requirements; nightlies by their date; NVIDIA's container 25.04 has its own 2.26.3), the PyTorch to run, which
# connects as that NCCL does, and the version that the device reports.
NCCL = [(r"2\.6\.|2\.7\.0\.dev", "2.21.5", "2.6", 22105), (r"2\.7\.0\+", "2.26.2", "2.7", 22602), (r"2\.7\.0a0", "2.26.3", "2.7", 22603),
        (r"2\.8\.0\.dev", "2.26.5", "2.7", 22605), (r"2\.8\.0\+", "2.27.3", "2.15", 22703), (r"2\.9|2\.10", "2.27.5", "2.15", 22705),
        (r"2\.11", "2.28.9", "2.15", 22809)]


def simulated(python, version, ranks, rank, gpu):
    """MiB in use after the barrier."""
    folder = PYTHONS % python
    command = [os.path.join(ROOT, "build", "memtrace"), "simulate", "--gpu", gpu, "--gpus", str(ranks), "--ranks", str(rank), "-o", "/dev/shm/nccl_start",
               "--", os.path.join(folder, "torchrun"), "--nproc_per_node", str(ranks), JOB]
    environment = {**os.environ, "PATH": folder + ":" + os.environ["PATH"], "CUDASIM_NCCL_VERSION": str(version)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return float(re.search(r"in use ([\d.]+) MiB", done.stdout).group(1))


def groups(path):
    """Measured MiB, driver and PyTorch by NCCL, PyTorch to run, ranks, GPU's place and name. GPU 0 also has the contexts of the other ranks in many
    logs and is left out."""
    found = collections.defaultdict(list)
    with open(path) as f:
        logs = json.load(f)["rows"]
    for log in logs:
        nccl = next(row[1:] for row in NCCL if re.match(row[0], log["torch"][0]))
        gpu = "H200" if "H200" in log["gpu"] else "H100-80GB"
        places = {0: log["smi"][0]} if log["n"] == 1 else {1: log["smi"][1], 7: log["smi"][7]}
        for place, used in places.items():
            found[(*nccl, log["n"], place, gpu)].append((used, log["driver"][0], log["torch"][0]))
    return found


def cause_of(nccl, ranks, off):
    if not off:
        return "", False
    if nccl == "2.27.3":
        return "not found: 96 MiB more than NCCL 2.27.5 takes with the same kernels, which have 96.2 MiB", True
    if nccl == "2.26.3":
        return "NVIDIA's container, whose NCCL is another binary: the model has PyPI's 2.26.2", False
    if ranks == 1:
        return "2 MiB: not found", True
    return "of eight ranks 6 to 8 MiB are in no source that was read (the driver's tables for peers); drivers differ by 8 MiB", True


def row_of(key, logs, used, first):
    nccl, python, version, ranks, place, gpu = key
    measured = [log[0] for log in logs]
    middle = collections.Counter(measured).most_common(1)[0][0]
    cause, ours = cause_of(nccl, ranks, round(used) - middle)
    job = "NCCL %s, %s" % (nccl, {0: "1 rank", 1: "8 ranks, GPUs 1 to 6", 7: "8 ranks, GPU 7"}[place])
    with_ = "%d log%s, torch %s, driver %s" % (len(logs), "s" * (len(logs) > 1), "; ".join(sorted({log[2] for log in logs})), "; ".join(sorted({log[1] for log in logs})))
    return {"family": "nvidia-smi after NCCL's start", "job": job, "gpu": gpu, "measured_with": with_,
            "simulated_with": "PyTorch %s, CUDASIM_NCCL_VERSION=%d" % (python, version), "metric": "device memory in use after the first barrier",
            "unit": "MiB", "published": middle, "published_low": min(measured), "published_high": max(measured), "simulated": round(used),
            "first_sight": first.get((job, gpu)), "estimate": None, "cause": cause, "ours": ours}


def main():
    first = {}
    if os.path.exists(RESULT):
        with open(RESULT) as f:
            first = {(r["job"], r["gpu"]): r["first_sight"] for r in json.load(f)["rows"]}
    rows = []
    for key, logs in sorted(groups(sys.argv[1]).items()):
        nccl, python, version, ranks, place, gpu = key
        row = row_of(key, logs, simulated(python, version, ranks, place, gpu), first)
        rows.append(row)
        print("%-32s %-9s %5d to %5d  %5d  %+6.2f %%  %d logs" % (row["job"], gpu, row["published_low"], row["published_high"], row["simulated"],
                                                                100 * (row["simulated"] / row["published"] - 1), len(logs)), flush=True)
    page = {"source": "modded-nanogpt, nvidia-smi", "url": "https://github.com/KellerJordan/modded-nanogpt/tree/master/records",
            "command": "python3 tests/published/smi.py PUBLISHED.json --write", "rows": rows}
    if "--write" in sys.argv:
        with open(RESULT, "w") as f:
            json.dump(page, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()

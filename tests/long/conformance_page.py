"""docs/conformance.md, from the results of conformance.py."""
import collections

from conformance_table import FILES, FIRST_SIGHT, NOTES, PROJECTS, REASONS, reason

HEAD = """# Conformance

The tests of memory of PyTorch and of the projects around it, unmodified, on the simulated device (`memtrace simulate --gpu A100-40GB`): `make conformance`
writes this page. The tests' files are fetched or given, not kept: PyTorch's are those of Debian's source package of the same version, or of `PYTORCH_SOURCE`;
those of the other projects are those of PyPI's source archives, or of the folder in the variable of the table below; the archives of DeepSpeed and TRL have
no tests, so that their folders must be given. A rule of `tests/long/conformance_table.py` names the reason of each failure from the failing statement, the
assignments that its names come from, and the error. A test that fails by a comparison of memory is run once more in a process of its own.

A file with `-k` tests much besides memory. Its tests with these words in their names are run: those that are about memory, or read its counters. What tests
ask of `nvidia-smi` (the highest clock, the number of GPUs) is answered by `tests/long/programs/nvidia-smi`.

A test that compares values as well as memory fails at the first value. The last column of "Every failure" says what became of its comparisons of memory:
those before that value hold, and for those behind it the test is run again with its comparisons of values left out: then alone it is not unmodified.
"""

FIRST_SIGHT_TEXT = """The first whole run of each file here. Then `test_sac_ilp.py` had no `nvidia-smi`, `test_common_gpu.py` and `test_offload_states.py` could not be
imported as they were started, `test_big_modeling.py` had one GPU, and `test_autograd.py` and `test_c10d_nccl.py` ran fewer tests. Of the device one thing was
mended after these runs began: all GPUs had one default stream (`test_cuda_multigpu.py`). The first runs of the expandable segments' file, `test_optim.py`,
`test_autograd.py`, `test_c10d_nccl.py`, DeepSpeed's and TRL's were made with that mended; files that are not in this table have no kept figures.
"""


def cell(n):
    return str(n) if n else ""


def table(results):
    used = [r for r in REASONS if any(row["outcome"] == "failed" and reason(row) is r for result in results for row in result["tests"])]
    lines = ["| project | file | GPUs | passed | %s | skipped |" % " | ".join(r.name for r in used), "|---|---|---|---|%s---|" % ("---|" * len(used))]
    gpus = {(f.project, f.path): f for f in FILES}
    for result in results:
        counts = collections.Counter(reason(row).name if row["outcome"] == "failed" else row["outcome"] for row in result["tests"])
        file = gpus[result["project"], result["path"]]
        path = "`%s`%s" % (result["path"], " `-k \"%s\"`" % file.select if file.select else "")
        lines.append("| %s | %s | %d | %s | %s | %s |" % (result["project"], path, file.gpus, cell(counts["passed"] + counts["xfailed"]),
                                                        " | ".join(cell(counts[r.name]) for r in used), cell(counts["skipped"])))
    return lines + ["", "`passed` includes tests that PyTorch expects to fail.", "", "| reason | a test has it if |", "|---|---|",
                    *("| %s | %s |" % (r.name, r.what) for r in used)]


def short(text, limit=150):
    text = " ".join(text.split()).replace("|", "\\|").replace("`", "'")
    return text if len(text) <= limit else text[:limit - 3] + "..."


def memory_of(row):
    """What became of the comparisons of memory of a test that failed elsewhere."""
    said = ["before it: hold"] if row.get("memory_before") else []
    without = row.get("without")
    if without and without["outcome"] == "passed":
        said.append("behind it: hold")
    elif without:
        said.append("behind it: `%s` fails" % short(without["statement"]) if without["statement"] else "behind it: " + without["outcome"])
    return ", ".join(said)


def failures(results):
    lines = ["| reason | test | failing statement | its comparisons of memory |", "|---|---|---|---|"]
    for r in REASONS:
        for result in results:
            for row in result["tests"]:
                if row["outcome"] == "failed" and reason(row) is r:
                    lines.append("| %s | %s | `%s` | %s |" % (r.name, row["test"].split("/")[-1], short(row["statement"] or row["message"]),
                                                              memory_of(row) if r.name == "values" else ""))
    return lines


def write_page(path, results):
    lines = [HEAD, "| project | version | PyTorch | folder of its sources |", "|---|---|---|---|"]
    lines += ["| %s | %s | %s | `%s` |" % (p.name, p.version, p.torch, p.given) for p in PROJECTS.values()]
    lines += ["", "## Results", "", *table(results), "", "## Every failure", "", *failures(results)]
    lines += ["", "## At first sight", "", FIRST_SIGHT_TEXT, "| file | passed | failed |", "|---|---|---|", *("| `%s` | %d | %d |" % row for row in FIRST_SIGHT)]
    lines += ["", "## Notes", "", *("- `%s`: %s" % row for row in NOTES)]
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")

"""The predicted saving of a remedy against its real saving. Each job runs without and with the remedy, on a card that is large enough for
both: the saving predicted from the first run must be within 10 % of the difference between the two runs.

test_diagnosis_remedies.py --table [DIRECTORY] prints the table of docs/validation.md. DIRECTORY keeps the traces; existing ones are used
again."""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import MEMTRACE, Case, table_or_tests  # noqa: E402
from test_diagnosis import DEVELOPED, HELD_BACK  # noqa: E402

CARD = 80 << 10
JOBS = {job.name: job for job in DEVELOPED + HELD_BACK}

# The states of an optimizer show that it steps between two backward passes, which then do not accumulate gradients.
STATES = {"MOMENTUM": "0.9"}
# job, the peak that the remedy lowers, part of the action to try, the remedy's settings, settings for both runs
TRIED = [
    ("logits", "allocated", "in chunks", {}, {}),
    ("logits_upcast", "allocated", "in chunks", {}, {}),
    ("attention", "allocated", "scaled_dot_product_attention", {}, {}),
    ("attention_bf16", "allocated", "scaled_dot_product_attention", {}, {}),
    ("attention_transformers", "allocated", "attn_implementation", {}, {}),
    ("activations", "allocated", "half the micro-batch", {}, {}),
    ("foreach", "allocated", "foreach=False", {}, {}),
    ("foreach_decay", "allocated", "foreach=False", {}, {}),
    ("clip_cat", "allocated", "single gradients", {}, {}),
    ("clip_float", "allocated", "single gradients", {}, {}),
    ("gradients_kept", "allocated", "zero_grad", {}, STATES),
    ("gradients_zeroed_in_place", "allocated", "zero_grad", {}, STATES),
    ("leak_retained", "allocated", "numbers, not tensors", {}, {"STEPS": "16"}),
    ("leak_outputs", "allocated", "numbers, not tensors", {}, {"STEPS": "20"}),
    ("leak_detached", "allocated", "numbers, not tensors", {}, {"STEPS": "20"}),
    ("leak_slow", "allocated", "store it in host memory", {}, {}),
    ("leak_outside", "device", "who allocates", {}, {"STEPS": "30"}),
    ("ref_cycle", "allocated", "break the cycle", {}, {}),
    ("eval_graph", "allocated", "no_grad", {}, {}),
    ("eval_accumulation", "allocated", ".cpu()", {}, {}),
    ("predict_accumulation", "allocated", ".cpu()", {}, {}),
    ("resume_duplicate", "allocated", "map_location", {}, {}),
    ("save_on_gpu", "allocated", "tensor by tensor", {}, {}),
    ("batch_outlier", "allocated", "lengths", {}, {}),
    ("batch_outlier_size", "allocated", "lengths", {}, {}),
    ("ddp_buckets", "allocated", "gradient_as_bucket_view", {}, {}),
    ("replicated_optimizer", "allocated", "ZeroRedundancyOptimizer", {}, {}),
]
ALWAYS = ("attention", "ddp_buckets")


def saving(report, action):
    """The saving of the first finding that proposes the action."""
    for finding in report["findings"]:
        for remedy in finding["remedies"]:
            if action in remedy["action"] and remedy["saving_bytes"] is not None:
                return remedy["saving_bytes"]
    return None


def compare(directory, name, which, action, settings, both):
    """(predicted, measured) in bytes."""
    job, reports = JOBS[name], []
    # if the remedy is a setting, the job is the same
    for when, fixed, more in (("before", False, {}), ("after", not settings, settings)):
        path = os.path.join(directory, name + "-" + when)
        if not os.path.isdir(path):
            done, _ = job.run(path, CARD, fixed=fixed, **both, **more)
            if done.returncode:
                raise RuntimeError(done.stdout[-2000:])
        reports.append(json.loads(subprocess.run([MEMTRACE, "report", "--json", path], check=True, stdout=subprocess.PIPE, text=True).stdout))
    before, after = (max(r["peak"][which + "_bytes"] for r in report["ranks"]) for report in reports)
    return saving(reports[0], action), before - after


class Remedies(Case):
    pass


def add(row):
    def test(self):
        predicted, measured = compare(self.dir, *row)
        self.assertIsNotNone(predicted)
        self.assertGreater(measured, 0)
        self.assertLessEqual(abs(predicted - measured), measured * 0.1, "predicted %d, measured %d" % (predicted, measured))

    setattr(Remedies, "test_" + row[0], test if row[0] in ALWAYS else unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")(test))


for one in TRIED:
    add(one)

def table(directory):
    print("| job | remedy | predicted MiB | measured MiB | off |\n|---|---|---|---|---|")
    for row in TRIED:
        predicted, measured = compare(directory, *row)
        off = "%+.1f %%" % (100 * (predicted - measured) / measured) if predicted and measured else "-"
        print("| %s | %s | %s | %.1f | %s |" % (row[0], row[2], "none" if predicted is None else "%.1f" % (predicted / 2**20), measured / 2**20, off),
              flush=True)


if __name__ == "__main__":
    table_or_tests(table)

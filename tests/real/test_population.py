"""A fixed sample of the jobs with injected faults (tests/population): their causes are known, since each has a fixed form."""
import json
import os
import random
import subprocess
import unittest

from harness import Case, ROOT, environment, python

POPULATION = os.path.join(ROOT, "tests", "population")
MODULES = "jobs_hand,jobs_text,faults_graph,faults_growing,faults_temporaries,faults_optimizer,faults_data"


def needed_less(rows):
    """What table.py takes for the truth of each row."""
    code = "import json, sys; import core, table; core.load(['faults_batch']); print(json.dumps([table.needed_less(r) for r in json.load(sys.stdin)]))"
    done = subprocess.run([python(), "-c", code], input=json.dumps(rows), env=environment(PYTHONPATH=POPULATION), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def seed_of(fault, choices, drawn):
    """A seed with which the fault's first draw is this one."""
    return next(seed for seed in range(99) if random.Random("%s %s" % (fault, seed)).choice(choices) == drawn)


class Truth(unittest.TestCase):
    def test_steps(self):
        """A leak of 10 in each of four steps, of a job that needs 8 without it and failed at 25, in the third step."""
        grows = {"fault": "losses_list", "cause": "graph kept", "fixed_peak": 8, "faulty_peak": 60, "faulty_by_step": [10, 20, 30, 40], "level": 25, "step": 3}
        rows = [grows,
                {**grows, "step": 2},  # the level was above the second step's end
                {**grows, "step": 6},  # two optimizers in a step
                {**grows, "level": 45, "step": 4},  # behind the last step
                {**grows, "faulty_by_step": []},  # the framework's own loop
                {**grows, "step": None}]
        self.assertEqual(needed_less(rows), [22, 22, 22, 52, None, None])

    def test_remedy(self):
        """Half the batch is the remedy of a fixed form that takes two parts, and of no other."""
        batch = {"fault": "batch_too_large", "cause": "batch too large", "fixed_peak": 30, "faulty_peak": 50}
        rows = [{**batch, "seed": seed_of("batch_too_large", [2, 2, 4], parts)} for parts in (2, 4)]
        self.assertEqual(needed_less([*rows, {**batch, "fault": "entropy_of_logits", "cause": "logits"}]), [20, None, None])

    def test_death(self):
        """A convolution's plan finds no memory in the third step, and another one does; the job dies in the fifth."""
        code = """import draw
failure = {"requested_bytes": 5, "survived": True}
failures = [{**failure, "step": 3, "allocated_bytes": 20}, {**failure, "step": 5, "allocated_bytes": 30, "survived": False}]
print(draw.place_of_death({"ranks": [{"inference": None, "oom": failures}]}), draw.place_of_death({"ranks": [{"inference": None, "oom": failures[:1]}]}))"""
        done = subprocess.run([python(), "-c", code], env=environment(PYTHONPATH=POPULATION), stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(done.stdout.strip(), "{'step': 5, 'level': 35} {'step': 3, 'level': 25}")

    def test_pages(self):
        """The pages tell the sums of the sets of draws that are kept, and a set adds to each of them."""
        code = """import collections, json, sys, table
row = {"family": "GAN", "fault": "losses_list", "fault_group": "lists", "cause": "graph kept", "fixed_peak": 8, "faulty_peak": 60, "rule": "GRAPH_KEPT"}
told = [("right", "high"), ("right", "low"), ("wrong", "high"), ("unnamed", None)]
rows = [{**row, "outcome": outcome, "confidence": confidence, **({} if confidence else {"rule": None})} for outcome, confidence in told]
sets = json.loads(table.read(table.KEPT))
of_all, more = table.summed(sets.values()), table.summed([*sets.values(), table.counted(rows, collections.Counter(error=2))])
keys = ("family", "GAN"), ("fault", "losses_list"), ("cause", "graph kept"), ("rule", "GRAPH_KEPT"), ("confidence", "high"), ("part", "others"), ("dropped", "error")
added = [[a - b for a, b in zip(more[key][name], of_all[key].get(name, [0] * 9))] for key, name in keys]
print(json.dumps([[path for path, text in table.pages(sets).items() if text != table.read(path)], added]))"""
        done = subprocess.run([python(), "-c", code], env=environment(PYTHONPATH=POPULATION), stdout=subprocess.PIPE, text=True, check=True)
        differ, added = json.loads(done.stdout)
        self.assertEqual(differ, [], "run tests/population/table.py --write SET")
        self.assertEqual(added, [[4, 2, 1, 1], [4, 2, 1, 1], [4, 2, 1, 1], [2, 3], [1, 2], [4, 2, 1, 0, 0, 0, 0], [2]])

    def test_ran_out(self):
        """PyTorch's own error, and what it says of a convolution none of whose plans finds memory; no other error is one of memory."""
        code = """import torch, serve
for e in torch.OutOfMemoryError("CUDA out of memory."), RuntimeError("GET was unable to find an engine to execute this computation"), RuntimeError("shapes"), ValueError("x"):
    print(serve.ran_out(e))"""
        done = subprocess.run([python(), "-c", code], env=environment(PYTHONPATH=POPULATION), stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(done.stdout.split(), ["True", "True", "False", "False"])


class Population(Case):
    def test_sample(self):
        results = os.path.join(self.dir, "results")
        done = subprocess.run([python(), os.path.join(POPULATION, "draw.py"), "--sample", os.path.join(POPULATION, "sample.jsonl"), "--modules", MODULES,
                               "--workers", "1", "--results", results], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(results) as f:
            outcomes = {(r["job"], r["fault"]): (r["outcome"], r.get("rule"), r.get("error")) for r in map(json.loads, f)}
        self.assertEqual({outcome[0] for outcome in outcomes.values()}, {"right"}, outcomes)


if __name__ == "__main__":
    unittest.main()

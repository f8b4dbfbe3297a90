"""A fixed sample of the jobs with injected faults (tests/population): their causes are known, since each has a fixed form."""
import json
import os
import subprocess
import unittest

from harness import Case, ROOT, environment, python

POPULATION = os.path.join(ROOT, "tests", "population")
MODULES = "jobs_hand,jobs_text,faults_graph,faults_growing,faults_temporaries,faults_optimizer,faults_data"


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

"""make demo, as for a new user."""
import os
import re
import subprocess

from harness import ROOT, Case, environment


class Demo(Case):
    def test_demo(self):
        done = subprocess.run(["make", "-s", "demo"], cwd=ROOT, env=environment(COLUMNS=100), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=360)
        self.assertEqual(done.returncode, 0, done.stdout)
        trained, died = done.stdout.split("The same job on a card of 12 GiB:")
        for words in ("rank 0 of 2", "CausalSelfAttention.forward", "train_gpt2.py", "simulated: nothing here was observed"):
            self.assertIn(words, " ".join(trained.split()))
        for words in ("torch.OutOfMemoryError", "OUT OF MEMORY rank", "asked", "largest cached free block", "cause ATTN_QUADRATIC"):
            self.assertIn(words, " ".join(died.split()))
        where = re.search(r"breakdown +([\d.]+) GiB = (.*?) top ", " ".join(died.split()))
        parts = dict(re.findall(r"([A-Za-z][A-Za-z ]+) ([\d.]+)", where[2]))
        self.assertLessEqual({"activations", "parameters", "CUDA context"}, set(parts))
        self.assertAlmostEqual(float(where[1]), sum(map(float, parts.values())), delta=0.05 * (len(parts) + 1))
        free = re.search(r"asked [\d.]+ MiB, free ([\d.]+) MiB", died)
        self.assertAlmostEqual(float(where[1]) + float(free[1]) / 1024, 12, delta=0.06)
        self.assertTrue(os.path.isdir(os.path.join(ROOT, "build", "demo", "oom")))

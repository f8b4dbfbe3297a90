"""Our own system against the bytes that PyTorch counted in the jobs of tests/accuracy/accuracy_runs.py (tests/accuracy/observed.json)."""
import json
import os
import sys
import unittest

from harness import ROOT

sys.path.insert(0, os.path.join(ROOT, "tests"))
import accuracy  # noqa: E402
import models  # noqa: E402

# Document 001: GPT-2 small on an A100, gradients kept, logits not; bytes at the start of the second step, GiB at the peak.
SEED_001 = {"framework": "nanogpt", "arch": "gpt", "num_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "vocab_size": 50304,
            "seq_length": 1024, "micro_batch_size": 12, "attention": "eager", "precision": "fp16-autocast", "optimizer": "adamw",
            "gpu": "A100-80GB", "torch_version": "2.1.0", "zero_grad_set_to_none": False, "keep_logits": False}


class Kept(unittest.TestCase):
    """The rows of docs/models.md that stay if only some types are run."""
    LAST = [{"type": "bert", "peak_bytes": 1}, {"type": "t5", "peak_bytes": 2}, {"type": "xlm", "error": "Refused"}]

    def test_some_types(self):
        for again in (False, True):
            stay, types = models.kept(self.LAST, ["t5", "new"], again)
            self.assertEqual(([row["type"] for row in stay], types), (["bert", "xlm"], ["t5", "new"]))

    def test_again(self):
        stay, types = models.kept(self.LAST, [], True)
        self.assertEqual(([row["type"] for row in stay], types), (["bert", "t5"], ["xlm"]))

    def test_all(self):
        self.assertEqual(models.kept(self.LAST, [], False), ([], []))

    def test_page(self):
        """The page can be read back: its rows are those of every type that it names, so that a run of one type loses none."""
        rows = list(models.rows_of_page())
        text = "\n".join(models.table(rows)) + "\n"
        with open(models.PAGE, encoding="utf-8") as f:
            self.assertEqual(text.splitlines()[6], f.read().splitlines()[6])
        self.assertEqual(len({row["type"] for row in rows}), len(rows))


class Observed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rows = accuracy.read_rows([accuracy.OBSERVED])
        cls.errors = [(row["name"], accuracy.errors_of(row)) for row in cls.rows]

    def test_enough_rows(self):
        self.assertGreaterEqual(len(self.rows), 20)

    def test_allocated(self):
        values = [errors["memtrace"] for _, errors in self.errors]
        self.assertLessEqual(accuracy.mean(values), 0.003, self.errors)
        for name, errors in self.errors:
            with self.subTest(job=name):
                self.assertLessEqual(abs(errors["memtrace"]), 0.02)

    def test_reserved(self):
        for classes in ({row["class"] for row in self.rows}, ("FSDP1",), ("DeepSpeed ZeRO",)):
            errors_of = {row["name"]: errors["reserved"] for row, (_, errors) in zip(self.rows, self.errors) if row["class"] in classes}
            self.assertLessEqual(accuracy.mean(errors_of.values()), 0.02, errors_of)
            for name, error in errors_of.items():
                with self.subTest(job=name):
                    self.assertLessEqual(abs(error), 0.08)

    def test_steady(self):
        for row in self.rows:
            with self.subTest(job=row["name"]):
                steady = accuracy.estimates_of(row["job"])["memtrace"]["steady_bytes"]
                self.assertLessEqual(abs(steady / row["steady_bytes"] - 1), 0.01)

    def test_terms_add_up(self):
        for row in self.rows:
            with self.subTest(job=row["name"]):
                made = accuracy.estimates_of(row["job"])["memtrace"]
                self.assertEqual(sum(term["bytes"] for term in made["terms"]), made["total_bytes"])
                for stage in made["per_stage"]:
                    self.assertEqual(sum(term["bytes"] for term in stage["terms"]), stage["peak_bytes"])


class Document001(unittest.TestCase):
    def test_peak_and_the_bytes_that_it_cannot_explain(self):
        made = accuracy.estimates_of(SEED_001)["memtrace"]
        self.assertAlmostEqual(made["total_bytes"] / 2**30 / 21.898, 1, delta=0.001)
        self.assertAlmostEqual(made["steady_bytes"] / 2064403456, 1, delta=0.002)
        terms = {term["id"]: term["bytes"] for term in made["terms"]}
        # the 16-bit copies of every linear weight and of the head: 2 (12 x 12 h^2 + v h)
        cache = 2 * (12 * 12 * 768**2 + 50304 * 768)
        self.assertAlmostEqual(terms["parameters.autocast_cache"] / cache, 1, delta=0.05)
        # one workspace for each thread; a block may be up to 1 MiB larger than its tensor
        self.assertGreaterEqual(terms["workspaces.cublas"], 2 * 8519680)
        self.assertLessEqual(terms["workspaces.cublas"], 2 * (8519680 + 2**20))


if __name__ == "__main__":
    unittest.main()

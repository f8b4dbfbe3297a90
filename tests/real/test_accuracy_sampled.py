"""Jobs drawn at random (tests/accuracy/accuracy_sample.py), run now and estimated: the bars of docs/accuracy.md hold for them too."""
import os
import sys
import unittest

from harness import ROOT, Case

sys.path.insert(0, os.path.join(ROOT, "tests"))
import accuracy  # noqa: E402
import accuracy_sample  # noqa: E402
import accuracy_sample_ranks  # noqa: E402


@unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
class Sampled(Case):
    def test_sampled(self):
        errors = []
        for name, job, found in accuracy_sample.measured(accuracy_sample.sample(1, 6) + accuracy_sample_ranks.sample(202, 4)):
            with self.subTest(name, job=job):
                self.assertIsNotNone(found)
                errors.append(accuracy.errors_of({"job": job, **found}))
                self.assertLessEqual(abs(errors[-1]["memtrace"]), 0.02)
                self.assertLessEqual(abs(errors[-1]["reserved"]), 0.08)
        self.assertLessEqual(accuracy.mean([error["memtrace"] for error in errors]), 0.003)


if __name__ == "__main__":
    unittest.main()

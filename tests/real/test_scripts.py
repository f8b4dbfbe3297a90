"""Whole scripts with one mistake each (tests/jobs/died): a fixed sample, and with ALL_JOBS=1 all of them."""
import json
import os
import subprocess
import tempfile
import unittest

from harness import ROOT, python

RUNNER = os.path.join(ROOT, "tests", "population", "scripts.py")
SAMPLE = "swa_snapshots", "diagrams_vision_prefix", "sandpile_gns", "cyclegan_seasons", "lstm_language_model", "sentence_embeddings", "magnet_pinn", "traffic_diffusion_gcn"
# Of each set: scripts, and how many may be told wrongly: three or four more than on the cards of docs/population.md.
SETS = {"first": (74, 12), "second": (44, 6), "third": (34, 3), "fourth": (39, 7), "fifth": (43, 4), "sixth": (28, 5), "seventh": (28, 6),
        "eighth": (30, 5), "ninth": (28, 3), "tenth": (29, 4), "eleventh": (28, 4), "twelfth": (28, 5), "thirteenth": (28, 4), "fourteenth": (28, 4),
        "fifteenth": (28, 3), "sixteenth": (28, 3), "seventeenth": (28, 3), "eighteenth": (28, 4), "nineteenth": (28, 6), "twentieth": (28, 5),
        "twentyfirst": (28, 4), "twentysecond": (28, 5), "twentythird": (28, 4), "twentyfourth": (28, 4),
        "twentyfifth": (28, 4), "twentysixth": (28, 5), "twentyseventh": (28, 4), "twentyeighth": (28, 3), "twentyninth": (28, 3), "thirtieth": (28, 4),
        "thirtyfirst": (28, 3), "thirtysecond": (28, 4), "thirtythird": (28, 3), "thirtyfourth": (28, 4)}


def rows_of(*names):
    with tempfile.TemporaryDirectory() as scratch:
        results = os.path.join(scratch, "rows")
        subprocess.run([python(), RUNNER, "--results", results, *names], stdout=subprocess.DEVNULL, check=True)
        with open(results) as f:
            return [json.loads(line) for line in f]


class Scripts(unittest.TestCase):
    def test_sample(self):
        for row in rows_of(*SAMPLE):
            with self.subTest(row["script"]):
                self.assertEqual(row["outcome"], "right", row.get("message"))
                self.assertGreater(row["faulty_peak"], row["fixed_peak"])

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_all(self):
        for name, (scripts, most) in SETS.items():
            rows = rows_of("--set", name)
            wrong = [r for r in rows if r["outcome"] in ("wrong", "unnamed")]
            with self.subTest(name):
                self.assertGreaterEqual(sum(r["outcome"] == "right" for r in rows), scripts - most, [(r["script"], r["outcome"], r.get("rule")) for r in rows if r["outcome"] != "right"])
                self.assertLessEqual(sum(r.get("confidence") == "high" for r in wrong), 1)


if __name__ == "__main__":
    unittest.main()

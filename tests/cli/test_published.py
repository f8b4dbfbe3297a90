"""docs/published.md is what page.py writes from the results; each difference above one per cent has a cause; one published job runs again."""
import json
import os
import sys
import tempfile
import unittest

from harness import ROOT

sys.path.insert(0, os.path.join(ROOT, "tests", "published"))
sys.path.append(os.path.join(ROOT, "tests", "gpu"))
import cards  # noqa: E402
import liger  # noqa: E402
import page  # noqa: E402
import remake  # noqa: E402

# Streaming multiprocessors by NVIDIA's data sheets: PyTorch's reductions take buffers by their number.
MULTIPROCESSORS = {"A100-SXM4-80GB": 108, "A100-SXM4-40GB": 108, "A100 80GB PCIe": 108, "H100 PCIe": 114, "H100 80GB HBM3": 132, "GeForce RTX 3090": 82,
                   "GeForce RTX 4090": 128, "B200": 148}
ADAM = {"loop": 80436224, "foreach": 96242688, "fused": 105991680}  # as the script's author printed them


class Published(unittest.TestCase):
    def rows(self):
        return [(source["name"], row) for source in page.load() for row in source["rows"]]

    def test_the_page_is_made_from_the_results(self):
        with open(page.PAGE) as f:
            self.assertEqual(f.read(), page.page(), "make published, or python3 tests/published/page.py --write")

    def test_every_difference_above_one_per_cent_has_a_cause(self):
        for name, row in self.rows():
            if page.grade(row) == "more":
                self.assertTrue(row["cause"], "%s: %s" % (name, row["job"]))

    def test_a_row_is_exact_at_its_last_printed_digit(self):
        for published, ours, equal in (("4.00", 4.0039, True), ("14.50", 14.505, True), ("14.50", 14.511, False), (656, 656.57, True), (656, 657.01, False),
                                       (96242688, 96242689, False), ("1.0", 0.94, False)):
            self.assertEqual(page.exact(published, ours), equal, (published, ours))

    def test_every_source_of_sources_has_its_rows(self):
        for name in remake.source_names():
            source = remake.load(name)
            wanted = [(r["job"], r["metric"], str(r["published"])) for one in source["runs"] for r in one["rows"]]
            with open(os.path.join(remake.HERE, "results", name + ".json")) as f:
                found = [(r["job"], r["metric"], str(r["published"])) for r in json.load(f)["rows"]]
            self.assertEqual(wanted, found, name)

    def test_a_publishers_gpu_is_simulated_with_its_multiprocessors(self):
        simulated = {card[0]: card[4] for card in cards.cards(ROOT)}
        self.assertEqual({name: simulated[gpu] for name, gpu in liger.GPUS.items()}, MULTIPROCESSORS)

    def test_a_module_that_transformers_lacks_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "transformers", "models", "llama"))
            script = os.path.join(folder, "script.py")
            for model, missing in (("llama", None), ("llama4", "transformers.models.llama4")):
                with open(script, "w") as f:
                    f.write("import torch\nfrom transformers.models.%s import Config\n" % model)
                self.assertEqual(liger.lacks(folder, script), missing)

    def test_one_published_job(self):
        (job,) = remake.load("adam_forms")["runs"]
        with tempfile.TemporaryDirectory() as runs:
            remake.RUNS = runs
            self.assertEqual(remake.simulate(remake.load("adam_forms"), job, True)["bytes"], ADAM)


if __name__ == "__main__":
    unittest.main()

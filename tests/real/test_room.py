"""The advice for a job that did not fail, and host memory that each step pins."""
import os
import unittest

from harness import JOBS, Case, MiB, python


class Room(Case):
    def job(self, name, *options):
        self.simulate([python(), os.path.join(JOBS, "diagnose_causes.py"), name], *options, MEMTRACE_QUIET=1)
        return self.report()

    def test_a_card_that_is_nearly_full(self):
        """The logits of 4 x 1024 tokens over 50304 words in fp32 are 786 MiB; the loss and its backward pass have three such blocks, of which an eighth stays with eight chunks."""
        report = self.job("logits", "--memory", "3950MiB")
        rank, = report["ranks"]
        self.assertEqual(rank["end"], "exit")
        self.assertGreaterEqual(rank["peak"]["device_bytes"], 0.95 * 3950 * MiB)
        advice, = [f for f in report["findings"] if f["room"]]
        self.assertEqual((advice["rule"], advice["severity"], advice["cause"]), ("LOGITS_SPIKE", "note", False))
        self.assertAlmostEqual(advice["remedies"][0]["saving_bytes"], 3 * 4 * 1024 * 50304 * 4 * 7 // 8, delta=200 * MiB)
        text = " ".join(self.text().split())
        self.assertRegex(text, r"^advice up to 3\.8 GiB of 3\.9 GiB were in use, 9\d\.\d %.*; a finding with a remedy: LOGITS_SPIKE (?:high|medium|low) confidence: .* "
                               r"fix 1\. compute head and loss in eight chunks .* saves about 2\.\d GiB")

    def test_pinned_memory_that_grows(self):
        """20 steps pin a buffer of 32 MiB each, of which one would do. The card is far from full: its advice comes if it is asked for."""
        report = self.job("pinned_kept")
        self.assertEqual(report["ranks"][0]["host_pinned_peak_bytes"], 20 * 32 * MiB)
        waste, = [f for f in report["findings"] if f["severity"] == "warning"]
        self.assertEqual((waste["rule"], waste["cause"]), ("PINNED_GROWS", True))
        self.assertEqual(waste["evidence"]["pinned_per_step"], 32 * MiB)
        self.assertEqual(waste["remedies"][0]["saving_bytes"], 19 * 32 * MiB)
        self.assertIn("diagnose_causes.py", waste["evidence"]["place"])
        self.assertIn("waste       PINNED_GROWS", self.text())
        self.assertNotIn("advice      up to", self.text())
        self.assertIn("advice      up to", self.text("--advise"))


if __name__ == "__main__":
    unittest.main()

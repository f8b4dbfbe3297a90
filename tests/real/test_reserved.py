"""PyTorch's reserved memory after it returned segments, against its own counters."""
import json
import unittest

from harness import Case, JOBS, python


class Reserved(Case):
    def assert_told(self, *words, **settings):
        said = json.loads(self.simulate([python(), JOBS + "/emptied.py", *words], **settings).stdout)
        rank, = self.report()["ranks"]
        self.assertEqual(rank["final"]["reserved_bytes"], said["reserved"])
        self.assertEqual(rank["peak"]["reserved_bytes"], said["max_reserved"])
        return said

    def test_nothing_given_back(self):
        said = self.assert_told()
        self.assertEqual(said["reserved"], said["max_reserved"])

    def test_some_of_it(self):
        said = self.assert_told("some")
        self.assertLess(said["reserved"], said["max_reserved"])

    def test_all_of_it_and_again(self):
        self.assert_told("some", "all", "again")

    def test_expandable_segments(self):
        said = self.assert_told("some", "all", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
        self.assertLess(said["reserved"], said["max_reserved"])


if __name__ == "__main__":
    unittest.main()

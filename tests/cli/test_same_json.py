"""The JSON of report, match, diff, estimate and plan is what it was, byte for byte."""
import unittest

import same_json
from harness import BUILD


class SameJson(unittest.TestCase):
    def test_recorded(self):
        """A change of numbers, keys or text of the JSON is recorded on purpose: tests/cli/same_json.py --record build."""
        self.assertEqual(same_json.differences(BUILD), [])


if __name__ == "__main__":
    unittest.main()

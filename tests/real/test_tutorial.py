"""docs/tutorial.md: its commands print what it shows."""
import unittest

import tutorial


class Tutorial(unittest.TestCase):
    maxDiff = None

    def test_outputs(self):
        with open(tutorial.PAGE) as f:
            pairs = tutorial.run_page(f.read())
        self.assertGreaterEqual(len(pairs), 6)
        for block, now in pairs:
            with self.subTest(tutorial.commands_of(block)[0]):
                self.assertEqual(tutorial.steady(block), tutorial.steady(now))


if __name__ == "__main__":
    unittest.main()

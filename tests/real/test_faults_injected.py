"""Every call of the recorder is made to fail: the job never notices, and docs/reliability.md has the observed results."""
import errno
import re
import tempfile
import unittest

import faults


class Injected(unittest.TestCase):
    def test_table_of_the_page(self):
        with tempfile.TemporaryDirectory() as folder:
            rows = list(faults.rows(folder))
        with open(faults.PAGE) as f:
            page = re.search("<!-- faults -->(.*)<!-- end", f.read(), re.S).group(1)
        self.assertGreater(len(rows), 30)
        for fault, when, status, what in rows:
            with self.subTest(fault=fault, when=when):
                self.assertEqual(status, 0)
                self.assertNotIn("SILENCE", what)
                self.assertNotIn("WRONG", what)
                # how far a run gets before the failing call depends on the machine; the set of possible ends does not
                self.assertIn("| %s |" % fault, page)
                if "events are missing" not in what:        # a busy machine
                    for part in what.split("; "):
                        self.assertIn(part, page)

    def test_the_end_waits_for_the_line(self):
        """No trace can be made, and the job ends while the helper thread is about to say so: here what it does before that takes 200 ms more."""
        with tempfile.TemporaryDirectory() as folder:
            status, _, what = faults.run(folder, LATE="madvise", FAIL="pwrite64,1,%d,ever" % errno.ENOSPC, MEMTRACE_WRITER_PROCESS="0")
            self.assertEqual((status, what), (0, 'no trace; says "not recording: no trace can be made (no space left on device)"'))

"""memtrace-config(5) lists the fields of fields.def, all of them and no others."""
import os
import re
import unittest

from harness import ROOT


class Manual(unittest.TestCase):
    def test_every_field_is_documented(self):
        with open(os.path.join(ROOT, "analyzer", "config", "fields.def")) as f:
            fields = re.findall(r'^FIELD\((\w+), (\w+), "(.*)"\)$', f.read(), re.M)
        with open(os.path.join(ROOT, "docs", "man", "memtrace-config.5")) as f:
            page = f.read()
        shown = re.findall(r'^\.It Ic (\w+) Ar (\w+)\n(.*)$', page, re.M)
        kinds = {"INT": "number", "REAL": "real", "BOOL": "switch", "TEXT": "text"}
        self.assertEqual([(n, kinds[t], h.replace("…", "...")) for n, t, h in fields], shown)


if __name__ == "__main__":
    unittest.main()

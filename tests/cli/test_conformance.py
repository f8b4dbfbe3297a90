"""The rules that name the reason of a failed test of another project (tests/long/conformance_table.py), and what they read."""
import ast
import os
import tempfile
import unittest

import harness  # noqa: F401  adds tests/long to the path
from conformance_statement import comparisons_around, leave_out, speaks_about
from conformance_table import MEMORY, reason

SOURCE = '''
def test_peak(self):
    before = torch.cuda.memory_allocated()
    x = torch.ones(4, device="cuda")
    grown = torch.cuda.memory_allocated() - before
    total = x.sum()
    self.assertEqual(
        grown,
        512,
    )
    self.assertEqual(total.item(), 4)
'''


class Statements(unittest.TestCase):
    def about(self, line, of=speaks_about, *more):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as f:
            f.write(SOURCE)
            f.flush()
            return of(f.name, line, *more)

    def test_comparisons_of_memory_around(self):
        self.assertEqual(self.about(11, comparisons_around, MEMORY), (True, False))
        self.assertEqual(self.about(4, comparisons_around, MEMORY), (False, True))
        self.assertEqual(self.about(8, comparisons_around, MEMORY), (False, False))

    def test_statements_left_out(self):
        tree = ast.parse(SOURCE)
        leave_out(tree, [8, 6])
        self.assertEqual(ast.unparse(tree.body[0].body[3:]), "pass\npass\nself.assertEqual(total.item(), 4)")

    def test_statement_over_lines(self):
        statement, origin, names = self.about(8)
        self.assertEqual(statement, "self.assertEqual( grown, 512, )")
        self.assertEqual(origin, "grown = torch.cuda.memory_allocated() - before\nbefore = torch.cuda.memory_allocated()")
        self.assertLessEqual({"grown", "before"}, names)

    def test_assignments_are_followed(self):
        statement, origin, names = self.about(11)
        self.assertEqual(statement, "self.assertEqual(total.item(), 4)")
        self.assertEqual(origin.splitlines()[0], "total = x.sum()")
        self.assertIn("x", names)

    def test_no_such_file(self):
        self.assertEqual(speaks_about(os.path.join(os.sep, "none"), 1), ("", "", set()))


def failure(message="", statement="", origin="", reads_gpu=False, error="AssertionError", **more):
    return dict(message=message, statement=statement, origin=origin, reads_gpu=reads_gpu, error=error, outcome="failed", **more)


class Reasons(unittest.TestCase):
    def is_(self, name, **row):
        self.assertEqual(reason(failure(**row)).name, name)

    def test_memory(self):
        self.is_("memory", message="Scalars are not equal!", statement="self.assertEqual(grown, 512)", origin="grown = torch.cuda.memory_allocated() - before")
        self.is_("memory", statement='self.assertEqual(stats["reserved_bytes.all.peak"], x)', reads_gpu=True)

    def test_values(self):
        self.is_("values", message="Scalars are not close!", statement="self.assertEqual(total.item(), 4)",
                 origin="free, total = torch.cuda.mem_get_info()", reads_gpu=True)
        self.is_("values", message="Tensor-likes are not close!", statement="self.assertEqual(y, yg)")
        self.is_("values", statement="assert torch.any(torch.ne(list(model.parameters())[0], 0.0))")

    def test_alone(self):
        self.is_("order", statement="self.assertEqual(torch.cuda.memory_allocated(), 0)", alone="passed")

    def test_outside(self):
        self.is_("network", error="URLError", message="<urlopen error [Errno -2] Name or service not known>")
        self.is_("module", error="ModuleNotFoundError", message="No module named 'pulp'")
        self.is_("unsupported", error="RuntimeError", message="cuDNN error: cuDNN: see the message of cudasim.")
        self.is_("durations", statement="self.assertGreater(parent_time + child_time, total_time * 1.4)")
        self.is_("race", message='"Simulate error" does not match "grad can be implicitly created only for scalar outputs"')
        self.is_("timeout", error="Failed", message="Timeout (>600.0s) from pytest-timeout.")
        self.is_("generated code", error="RuntimeError", message='Expected to find "buf0 = "\nSearched string:\n', reads_gpu=True)
        self.is_("unexplained", statement="self.assertEqual(len(names), 3)")


if __name__ == "__main__":
    unittest.main()

"""Document 003's measured tables: the layouts of Llama-3.1 8B and 70B that ran out of memory on A100s with 40 GB and H100s with 94 GB.

The cells were chosen by hand, before the first run: for each model and GPU those next to the limit, and one or two far from it. A rank of the first stage
is simulated alone, with PyTorch 2.15 and its NCCL; the document used 2.3.1 and 2.20.5.

    python3 tests/real/test_frameworks_document_003.py --table      prints the table of validation.md
"""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness import JOBS, LAZY_COMMUNICATORS, Case, python  # noqa: E402

LLAMA = "--llama --fused --attention sdpa --sp --vocab 128256 --kv-heads 8 --steps 2"
MODELS = {"8B": "--layers 32 --hidden 4096 --heads 32 --ffn 14336", "70B": "--layers 80 --hidden 8192 --heads 64 --ffn 28672"}
# model, GPU, sequence, the document's table: (tensor, context, pipeline, micro-batch, GPUs, ran there)
TABLES = {
    ("8B", "A100-40GB", 8192, "Table 3"): (
        (4, 1, 2, 1, 8, True), (4, 1, 2, 2, 8, False), (4, 1, 1, 1, 8, True), (4, 1, 1, 2, 64, False), (2, 2, 2, 1, 8, True),
        (2, 4, 1, 1, 64, True), (2, 1, 2, 1, 64, True), (2, 2, 1, 1, 64, False)),
    ("70B", "A100-40GB", 8192, "Table 6"): (
        (8, 2, 4, 1, 64, False), (8, 2, 4, 1, 128, True), (8, 2, 4, 2, 256, False), (8, 1, 8, 1, 256, True), (8, 4, 2, 1, 128, False),
        (4, 2, 8, 1, 256, False)),
    ("8B", "H100-94GB", 8192, "Table 4"): ((2, 1, 1, 2, 8, True), (2, 1, 1, 2, 4, False), (4, 1, 1, 4, 4, False)),
    ("8B", "H100-94GB", 16384, "Table 10"): ((2, 1, 1, 1, 4, False), (2, 1, 1, 1, 8, True)),
    ("8B", "H100-94GB", 32768, "Table 11"): ((4, 1, 1, 1, 4, True), (2, 2, 1, 1, 4, False)),
}
CELLS = [(*job, *cell) for job, cells in TABLES.items() for cell in cells]


class Tables(Case):
    def simulated(self, model, gpu, seq, _, tp, cp, pp, micro, gpus, __):
        """(whether the job ran here, the device's peak in GiB)"""
        self.traces = os.path.join(self.dir, re.sub(r"\W+", "-", f"{model} {gpu} {seq} {tp} {cp} {pp} {micro} {gpus}"))
        sizes = ["--seq", seq, "--tp", tp, "--cp", cp, "--pp", pp, "--micro-batch", micro, "--accumulate", max(2, pp)]
        command = [python(), "-W", "ignore", os.path.join(JOBS, "megatron_gpt.py"), *MODELS[model].split(), *LLAMA.split(), *map(str, sizes)]
        done = self.simulate(command, "--ranks", "0", "--world-size", str(gpus), "--gpu", gpu, status=None,
                             **LAZY_COMMUNICATORS)
        (rank,) = self.report()["ranks"]
        self.assertEqual(rank["end"], "exit" if done.returncode == 0 else "oom", done.stderr[-2000:])
        return done.returncode == 0, rank["peak"]["device_bytes"] / 2**30

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_cells(self):
        """A layout that ran there runs here. A layout that failed there needs more than the document's 80 % of the card here, because its NCCL
took more for each communicator."""
        for cell in CELLS:
            with self.subTest(cell=cell):
                ran, gib = self.simulated(*cell)
                if cell[-1]:
                    self.assertTrue(ran)
                else:
                    self.assertGreater(gib, 0.8 * int(re.search(r"-(\d+)GB", cell[1]).group(1)))


def table():
    case = Tables("test_cells")
    case.setUp()
    try:
        print("| model | GPU | table | TP, CP, PP, MBS | GPUs | there | simulated | device GiB |\n|---|---|---|---|---|---|---|---|", flush=True)
        words = ("out of memory", "ran")
        agree = 0
        for cell in CELLS:
            ran, gib = case.simulated(*cell)
            agree += ran == cell[-1]
            print("| %s | %s | %s | %d, %d, %d, %d | %d | %s | %s | %.2f |" % (cell[0], cell[1], *cell[3:9], words[cell[-1]], words[ran], gib), flush=True)
        print("\n%d of %d agree." % (agree, len(CELLS)))
    finally:
        case.doCleanups()


if __name__ == "__main__":
    if "--table" in sys.argv:
        table()
    else:
        unittest.main()

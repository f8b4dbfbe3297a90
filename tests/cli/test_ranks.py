"""Real jobs of several ranks: coordinates, outliers, missing and damaged traces. PyTorch's own peaks are the truth."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from harness import BUILD, Case, JOBS, MEMTRACE, MiB, alone, torchrun

SMALL = ["--layers", "2", "--hidden", "128", "--heads", "4", "--vocab", "1000", "--seq", "128"]


def said(done):
    """{rank: the last line that its job printed}"""
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"rank"')]
    return {line["rank"]: line for line in lines}


def record(traces, ranks, *command, **settings):
    case = Case("run_")
    case.dir, case.traces = os.path.dirname(traces), traces
    return said(case.simulate(torchrun(ranks, *command), "--gpus", str(ranks), **settings))


class Ranks(Case):
    def copy_of(self, traces):
        shutil.copytree(traces, self.traces)

    def path_of(self, rank):
        path, = [p for p in self.paths() if "-r%d-" % rank in p]
        return path

    def job(self):
        return self.report()["job"]

    def lines(self, columns):
        text = self.run_([MEMTRACE, "report", self.traces], COLUMNS=columns, NO_COLOR=1, CLICOLOR_FORCE=1).stdout
        self.assertNotIn("\033", text)
        return text.splitlines()


@alone
class ManyRanks(Ranks):
    def test_memory(self):
        """What is kept of a rank is some 10 KiB, whatever the lengths of its texts: the memory that its replay freed is used again."""
        os.mkdir(self.traces)
        subprocess.run([os.path.join(BUILD, "bench", "make_job"), self.traces, "3000", "2000"], check=True)
        for length in 32, 40, 56, 72:
            path = os.path.join(self.dir, "").ljust(length, "x")
            os.symlink(self.traces, path)
            with self.subTest(length=length):
                self.assertLess(self.most_memory("report", "--json", path), 64 * MiB)


class DataParallel(Ranks):
    """Four ranks of DDP; rank 2 holds 64 MiB more."""

    @classmethod
    def setUpClass(cls):
        cls.all = tempfile.mkdtemp(prefix="memtrace-test-")
        cls.addClassCleanup(shutil.rmtree, cls.all, True)
        cls.recorded = os.path.join(cls.all, "traces")
        cls.truth = record(cls.recorded, 4, JOBS + "/odd.py", "2", "64", JOBS + "/gpt.py", *SMALL)

    def setUp(self):
        super().setUp()
        self.copy_of(self.recorded)

    def test_the_odd_rank_sticks_out(self):
        outlier, = self.job()["outliers"]
        peaks = {rank: x["max_memory_allocated"] for rank, x in self.truth.items()}
        self.assertEqual(outlier["rank"], 2)
        self.assertEqual(outlier["bytes"], peaks[2])
        self.assertEqual(outlier["median_bytes"], peaks[0])
        self.assertEqual(outlier["bytes"] - outlier["median_bytes"], 64 * MiB)
        self.assertEqual(outlier["since_step"], 1)

    def test_ranks_are_grouped_by_likeness(self):
        self.assertIsNone(self.job()["layout"])
        self.assertEqual([g["ranks"] for g in self.job()["groups"]], [[0, 1, 3], [2]])

    def test_a_missing_file_is_named(self):
        os.unlink(self.path_of(1))
        self.assertEqual(self.job()["missing_ranks"], [1])
        self.assertIn("missing     rank 1 of 4: there is no trace of it here", self.lines(80))

    def test_damaged_files_are_named(self):
        os.truncate(self.path_of(1), 1000)
        # The header and tables of rank 3 remain, and its records before the cut.
        os.truncate(self.path_of(3), os.path.getsize(self.path_of(3)) // 2)
        job = self.job()
        self.assertEqual(job["missing_ranks"], [1])
        self.assertEqual([os.path.basename(x["trace"]) for x in job["unreadable"]], [os.path.basename(self.path_of(1))])
        text = "\n".join(self.lines(160))
        self.assertRegex(text, r"unreadable .*-r1-.* ends inside its header")

    def test_it_fits(self):
        for columns in (60, 80):
            for line in self.lines(columns):
                if not line.startswith("next"):
                    self.assertLessEqual(len(line), columns, line)

    def test_the_worst_comes_first(self):
        table = [line.split() for line in self.lines(60) if line.endswith("simulated")][:4]
        self.assertEqual([row[0] for row in table], ["2", "0", "1", "3"])


class Pipeline(Ranks):
    """Megatron-core, tp 2 and pp 2: the layout is declared, and the ranks of one stage are a group."""

    def test_stages(self):
        layout = os.path.join(self.dir, "layout.json")
        with open(layout, "w") as f:
            json.dump({"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2}, f)
        truth = record(self.traces, 4, JOBS + "/odd.py", "3", "4096", JOBS + "/megatron_gpt.py", *SMALL, "--tp", "2", "--pp", "2",
                       MEMTRACE_CONFIG=layout)
        job = self.job()
        self.assertEqual(job["layout"], {"tp": 2, "cp": 1, "ep": 1, "dp": 1, "pp": 2})
        self.assertEqual([(s["rank"], s["tp"], s["pp"]) for s in job["seats"]], [(0, 0, 0), (1, 1, 0), (2, 0, 1), (3, 1, 1)])
        self.assertEqual([(g["stage"], g["ranks"]) for g in job["groups"]], [(0, [0, 1]), (1, [2, 3])])
        for group in job["groups"]:
            peaks = [truth[rank]["max_memory_allocated"] for rank in group["ranks"]]
            self.assertEqual(group["least_allocated_bytes"], min(peaks))
            self.assertEqual(group["most_allocated_bytes"], max(peaks))
        # With two ranks neither can be the outlier.
        self.assertEqual(job["outliers"], [])
        self.assertEqual(job["groups"][1]["worst_rank"], 3)
        text = "\n".join(self.lines(100))
        self.assertIn("peak of tensors by pipeline stage", text)
        self.assertIn("rank 3 of 4 (pp 1, tp 1)", text)


class Sharded(Ranks):
    def test_fsdp(self):
        truth = record(self.traces, 2, JOBS + "/gpt.py", *SMALL, "--parallel", "fsdp2")
        job = self.job()
        self.assertEqual([g["ranks"] for g in job["groups"]], [[0, 1]])
        self.assertEqual(job["groups"][0]["most_allocated_bytes"], truth[0]["max_memory_allocated"])
        self.assertEqual((job["outliers"], job["missing_ranks"], job["unreadable"]), ([], [], []))


if __name__ == "__main__":
    unittest.main()

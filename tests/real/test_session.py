"""A failed job of eight ranks and its report, without options: the cause, the change that helps, and its saving."""
import json
import os
import re
import unittest

from harness import JOBS, LAZY_COMMUNICATORS, MEMTRACE, Case, python, torchrun

JOB = ("--num-layers 8 --hidden-size 1024 --num-attention-heads 8 --padded-vocab-size 128256 --seq-length 2048 --tensor-model-parallel-size 4 "
       "--pipeline-model-parallel-size 2 --attention sdpa --sequence-parallel --micro-batch-size").split()


@unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
class Session(Case):
    def run_job(self, where, ranks, memory, micro_batch=2, status=0):
        command = [MEMTRACE, "simulate", "-o", where, "--memory", memory, "--gpus", "8", "--world-size", "8", "--ranks", ranks, "--jobs", "1", "--",
                   python(), os.path.join(JOBS, "megatron_gpt.py"), *JOB, str(micro_batch)]
        self.run_(command, status=status, MEMTRACE_QUIET=1, **LAZY_COMMUNICATORS)
        return json.loads(self.run_([MEMTRACE, "report", "--json", where]).stdout)

    def test_the_last_stage_dies(self):
        """Ranks 2 and 3 belong to the first stage, 6 and 7 to the last, which computes the loss."""
        report = self.run_job(self.traces, "2,3,6,7", "6300MiB", micro_batch=8, status=None)
        ends = {r["rank"]: r["end"] for r in report["ranks"]}
        self.assertEqual(ends, {2: "exit", 3: "exit", 6: "oom", 7: "oom"})
        text = self.run_([MEMTRACE, "report", self.traces], COLUMNS=120).stdout
        flat = " ".join(text.split())
        self.assertRegex(flat, r"^OUT OF MEMORY rank [67] of 8 \(pp 1, tp [23]\) gpu [67] step \d, (forward|backward): loss simulated "
                               r"asked 2\.0 GiB, free [\d.]+ GiB, largest cached free block [\d.]+ MiB, short by [\d.]+ MiB "
                               r"cause PP_LAST_STAGE_LOGITS (high|medium) confidence")
        logits = 8 * 2048 * 128256 // 4 * 4  # b s v/t in fp32
        self.assertEqual({oom["requested_bytes"] for r in report["ranks"] for oom in r["oom"]}, {logits})
        self.assertRegex(flat, r"fix 1\. --cross-entropy-loss-fusion saves about [\d.]+ GiB 2\. --micro-batch-size 4 \(now 8\), slower saves about")
        self.assertRegex(flat, r"breakdown [\d.]+ GiB = parameters .* \+ gradients .* \+ optimizer states .* \+ activations .* \+ NCCL .* \+ CUDA context 0\.6")
        self.assertRegex(flat, r"findings PP_LAST_STAGE_LOGITS on rank [67] ")
        self.assertIn("\nnext        memtrace match %s\n" % self.traces, text)
        for rank in report["ranks"]:
            for oom in rank["oom"]:
                self.assertEqual(sum(oom["by_category"].values()), oom["allocated_bytes"])
                self.assertEqual(sum(oom["by_owner"].values()), rank["device_memory_bytes"] - oom["free_bytes"])
        match = json.loads(self.run_([MEMTRACE, "match", "--json", self.traces], status=None).stdout)
        self.assertEqual({r["rank"] for r in match["ranks"]}, set(ends))

    def test_what_half_the_micro_batch_saves(self):
        """The saving predicted from a run that does not fail, and the same run with the remedy."""
        before, after = (self.run_job(self.traces + str(b), "7", "80GiB", b) for b in (2, 1))
        predicted = next(r["saving_bytes"] for f in before["findings"] for r in f["remedies"] if r["action"].startswith("--micro-batch-size 1 (now 2)"))
        saved = before["ranks"][0]["peak"]["allocated_bytes"] - after["ranks"][0]["peak"]["allocated_bytes"]
        self.assertLessEqual(abs(predicted - saved), saved * 0.1, (predicted, saved))


class Restart(Case):
    def test_a_second_attempt(self):
        """torchrun keeps its store over a restart: the ranks meet all the same. The report shows the attempt that ran out of memory."""
        command = torchrun(2, "--max-restarts", "1", os.path.join(JOBS, "restart.py"))
        done = self.simulate(command, "--gpus", "2", timeout=300, CUDASIM_TIMEOUT=60)
        self.assertIn("done 1 0", done.stdout)
        self.assertIn("done 1 1", done.stdout)
        self.assertEqual(len(self.paths()), 4)
        text = self.run_([MEMTRACE, "report", self.traces], COLUMNS=120).stdout
        self.assertTrue(text.startswith("OUT OF MEMORY"), text)
        self.assertIn("attempts    :0 ran out of memory (shown), :1 did not run out of memory; --run :N shows another", text)
        ends = lambda *run: {r["rank"]: r["end"] for r in self.report(*run)["ranks"]}
        self.assertEqual(ends()[1], "oom")
        self.assertEqual(ends("--run", "oom")[1], "oom")
        self.assertEqual(ends("--run", ":1"), {0: "exit", 1: "exit"})
        runs = json.loads(self.run_([MEMTRACE, "report", "--runs", "--json", self.traces]).stdout)["runs"]
        self.assertEqual([(r["choice"], r["end"], r["ranks"], r["traces_out_of_memory"], r["shown"]) for r in runs],
                         [(":0", "oom", 2, 1, True), (":1", "exit", 2, 0, False)])


if __name__ == "__main__":
    unittest.main()

"""Simulated jobs that cannot continue as they are, or that end: missing peers, exhausted memory."""
import os
import re
import sys
import unittest

from harness import JOBS, MEMTRACE, Case, printed, python, torchrun

ALL = """
import os, sys, time
import torch, torch.distributed as dist
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl", init_method=sys.argv[1], rank=rank, world_size=world)
if rank in map(int, sys.argv[2:]):
    time.sleep(600)
x = torch.ones(4, device="cuda")
dist.all_reduce(x)
print("sum", x.tolist())
"""


class Peers(Case):
    def script(self):
        path = os.path.join(self.dir, "all.py")
        with open(path, "w") as f:
            f.write(ALL)
        return path

    def test_tcp(self):
        """The address of the real job's first rank does not exist here."""
        done = self.simulate([python(), "-W", "ignore", self.script(), "tcp://10.1.2.3:29512"], "--ranks", "3", "--world-size", "4", "--timeout", "200")
        self.assertIn("sum [4.0, 4.0, 4.0, 4.0]", done.stdout)

    def test_a_peer_that_never_comes(self):
        """The message names the call, and the rank for which it waits; no process hangs."""
        done = self.simulate(torchrun(2, self.script(), "env://", "1"), "--gpus", "2", status=1, CUDASIM_TIMEOUT="2")
        self.assertRegex(done.stderr, r"nccl\w+: time limit \(CUDASIM_TIMEOUT\) reached; communicator \S+, rank 0 of 2, waiting for rank\(s\) 1")


class Sent(Case):
    """Rank 6 alone follows the integers that ranks 0, 4 and 7 would broadcast; rank 0 represents 4. Only the requested rank is traced."""

    def test_integers_of_ranks_that_do_not_run(self):
        done = self.simulate([python(), "-W", "ignore", os.path.join(JOBS, "flags.py")], "--ranks", "6", "--world-size", "8")
        self.assertEqual(done.stdout.count("rank "), 1)
        self.assertIn("rank 6 [5, 7] [100, 101, 102, 103, 104] [True]", done.stdout)
        self.assertIn("also running rank 0, unrecorded", done.stderr)
        self.assertIn("also running rank 7, unrecorded", done.stderr)
        self.assertEqual([r["rank"] for r in self.report()["ranks"]], [6])

    def test_ranks_that_were_asked_for(self):
        """Auxiliary ranks run once."""
        done = self.simulate([python(), "-W", "ignore", os.path.join(JOBS, "flags.py")], "--ranks", "0,6,7", "--world-size", "8", "--jobs", "1")
        self.assertEqual(done.stdout.count("[5, 7] [100, 101, 102, 103, 104] [True]"), 3)
        self.assertNotIn("untraced", done.stderr)


    def groups(self, groups, *options):
        return self.simulate([python(), "-W", "ignore", os.path.join(JOBS, "groups.py"), groups], *options)

    def test_senders_that_were_asked_for(self):
        """Rank 2's number is its own, although rank 0 leads a similar group; objects may be passed as keyword arguments."""
        done = self.groups("[[0, 1], [2, 3]]", "--ranks", "2,3", "--world-size", "4", "--jobs", "1")
        self.assertIn("rank 2 has 102", done.stdout)
        self.assertIn("rank 3 has 102", done.stdout)
        self.assertIn("rank 3 objects [3, 3, 3, 3] [0]", done.stdout)
        self.assertEqual(re.findall("also running rank (.), unrecorded", done.stderr), ["0"])

    def test_a_group_like_none_of_rank_0(self):
        done = self.groups("[[1, 3]]", "--ranks", "3", "--world-size", "4")
        self.assertIn("rank 3 has 101", done.stdout)

    def test_together(self):
        """Rank 0 represents rank 2; objects of running ranks are exchanged, and rank 0's objects are its own."""
        done = self.groups("[[0, 1], [2, 3]]", "--ranks", "1,3", "--world-size", "4", "--together")
        self.assertIn("rank 1 has 100", done.stdout)
        self.assertIn("rank 3 has 100", done.stdout)
        self.assertRegex(done.stdout, r"rank 3 objects \[1, 1, 3, 3\] \[0\]")

    def test_objects_and_shapes(self):
        """Objects that rank 2 of 4 gets in the whole job: from rank 0 all of them, along the chain from its neighbours, each of which needs the one before."""
        done = self.simulate([python(), "-W", "ignore", os.path.join(JOBS, "messages.py")], "--ranks", "2", "--world-size", "4")
        self.assertEqual(printed(done.stdout), [{"rank": 2, "run": [{"name": "x" * 50, "layers": 3}], "steps": 77, "own": ["for", 2],
                                                 "told": [1, [0, None]], "shape": 101, "back": 203}])
        self.assertEqual(sorted(re.findall("also running rank (.), unrecorded", done.stderr)), ["0", "1", "3"])


class Memory(Case):
    def test_largest_that_fits(self):
        """512 MiB each on a card of 4 GiB, of which an A100's context takes 507 MiB: seven fit."""
        done = self.simulate([python(), "-c", "import torch; x = [torch.empty(1 << 29, dtype=torch.uint8, device='cuda') for _ in range({n})]"],
                             "--gpu", "A100-40GB", "--memory", "4GiB", "--until-oom", "n=6:9")
        self.assertIn("n = 7 is the largest that fits", done.stderr)

    def test_less_than_the_context(self):
        done = self.simulate([python(), "-c", "import torch; torch.empty(1, device='cuda')"], "--gpu", "A100-40GB", "--memory", "256MiB", status=1)
        self.assertIn("expected more than the 531628032 bytes that the CUDA context of a A100-40GB takes", done.stderr)


class Checkpoint(Case):
    def test_rank_alone(self):
        """A weight of 1,024 x 1,024 floats and its two moments, over 32 ranks: each rank saves and loads all its states, for every coordinator."""
        done = self.simulate(torchrun(8, os.path.join(JOBS, "sharded_checkpoint.py"), os.path.join(self.dir, "saved")), "--world-size", "32", "--ranks", "0,31")
        lines = printed(done.stdout)
        self.assertEqual(sorted(line["rank"] for line in lines), [0, 31])
        for line in lines:
            self.assertEqual(line["held"], 3 * 1024 * 1024 * 4 // 32)
            self.assertTrue(line["held"] <= line["written"] < line["held"] + (64 << 10), line)


class Bisect(Case):
    """Three allocations on a card of 4 GiB, of which an A100's context takes 507 MiB: 3,589 MiB are left."""
    CODE = "import torch; x = [torch.empty(n << 20, dtype=torch.uint8, device='cuda') for n in ({a}, {b}, {c})]"

    def bisect(self, settings, status):
        return self.simulate([python(), "-c", self.CODE], "--gpu", "A100-40GB", "--memory", "4GiB", "--bisect", settings, status=status).stderr

    def test_the_setting_that_does_not_fit(self):
        said = self.bisect("a=64:1024,b=64:2048,c=64:1024", 1)
        self.assertRegex(said, r"everything minimal +699.0 MiB  fits ")
        self.assertRegex(said, r"a = 1024 +1.6 GiB  fits ")
        self.assertRegex(said, r"b = 2048 +3.6 GiB  fits ")
        self.assertRegex(said, r"c = 1024 +3.5 GiB  out of memory ")
        self.assertIn("memory runs out when c is put back", said)
        self.traces = re.search(r"memtrace report (\S+/3-c)", said).group(1)
        self.assertEqual(self.report()["ranks"][0]["end"], "oom")

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_everything_fits(self):
        self.assertIn("it fits with everything put back", self.bisect("a=64:1024,b=64:1024,c=64:1024", 0))

    def test_not_even_the_least(self):
        self.assertIn("not even everything minimal fits", self.bisect("a=1024:64,b=1024:64,c=4096:64", 1))

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_document_000s_list(self):
        """SGD, one sequence of 128, recomputation and ZeRO-3, each set to its own value in turn: the length of the sequence is the one that does not fit."""
        command = [python(), "-W", "ignore", os.path.join(JOBS, "deepspeed_gpt.py"), "--layers", "4", "--hidden", "512", "--heads", "8", "--attention",
                   "eager", "--optimizer", "{optimizer}", "--micro-batch", "{b}", "--seq", "{s}", "--recompute", "{recompute}", "--zero", "{zero}"]
        done = self.simulate(command, "--gpu", "A100-40GB", "--memory", "2560MiB", "--world-size", "4", "--ranks", "0", "--bisect",
                             "optimizer=sgd:adamw,b=1:2,zero=3:1,recompute=full:none,s=128:2048", status=1)
        self.assertIn("memory runs out when s is put back", done.stderr)
        self.assertEqual(done.stderr.count(" fits "), 5)


class Calls(Case):
    def test_not_simulated(self):
        """A call of the CUDA runtime that would return data to the host, from a program without PyTorch."""
        code = "import ctypes; print(ctypes.CDLL(None).cudaGraphClone(None, None))"
        done = self.run_([MEMTRACE, "simulate", "-o", self.traces, "--", sys.executable, "-c", code])
        self.assertIn("cudasim: cudaGraphClone is not simulated", done.stderr)
        self.assertEqual(done.stdout.split()[0], "801")  # cudaErrorNotSupported


if __name__ == "__main__":
    unittest.main()

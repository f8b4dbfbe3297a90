"""Some ranks of a job run together and exchange data, the others are emulated: output and memory equal those of the whole job's ranks."""
import os
import re
import unittest

from harness import JOBS, add_tests, python, torchrun
from test_frameworks import SMALL, Jobs, lines

# name: ranks of the job, ranks that run, job, its arguments.
TOGETHER = {
    "ddp": (4, "0-1", "gpt.py", "--parallel ddp --clip 1 --pause 1"),
    "fsdp1": (4, "1,3", "gpt.py", "--parallel fsdp1 --clip 1"),
    "fsdp2": (4, "1-2", "gpt.py", "--parallel fsdp2"),
    "tensor_parallel": (4, "1-2", "gpt.py", "--parallel tp"),
    "zero1": (4, "1,3", "deepspeed_gpt.py", "--zero 1 --clip 1"),
    "zero3": (4, "1,3", "deepspeed_gpt.py", "--zero 3"),
    "megatron_tensor_pair": (4, "0-1", "megatron_gpt.py", "--tp 2 --pp 2 --sp"),
    "megatron_pipeline_pair": (4, "0,2", "megatron_gpt.py", "--tp 2 --pp 2 --sp"),
    "megatron_stages": (4, "1-2", "megatron_gpt.py", "--tp 2 --pp 2 --sp"),
    "megatron_experts": (4, "0,1", "megatron_gpt.py", "--ep 2 --experts 4 --llama"),
    "megatron_experts_tensor": (4, "1-2", "megatron_gpt.py", "--ep 2 --tp 2 --sp --experts 4 --llama"),
}
SAMPLE = ("ddp",)
OLDER = {  # the same in older versions of PyTorch that have these jobs
    "ddp": ("2.0", "2.1", "2.5", "2.7", "2.11"),
    "fsdp1": ("2.0", "2.1", "2.5", "2.7", "2.11"),
    "fsdp2": ("2.5", "2.7", "2.11"),
    "tensor_parallel": ("2.1", "2.5", "2.7", "2.11"),
}
EQUAL = ("max_memory_allocated", "max_memory_reserved", "peak_bytes", "tensors", "blocks")

TENSORS = """
import json, os
import torch, torch.distributed as dist
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
def value(x):
    return torch.tensor([float(x)], device="cuda")
pair = dist.new_group([1, 2])           # both run
apart = [dist.new_group([0, 1]), dist.new_group([2, 3])]   # one member of each runs
sent = value(100 + rank)
dist.broadcast(sent, src=2)
everybody = [value(0) for _ in range(world)]
dist.all_gather(everybody, value(10 * rank))
largest, inner, outer = value(rank), value(rank), value(rank)
dist.all_reduce(largest, dist.ReduceOp.MAX)
dist.all_reduce(inner, group=pair)
dist.all_reduce(outer, group=apart[rank // 2])
ring = value(0)
for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, value(7 * rank), 3 - rank), dist.P2POp(dist.irecv, ring, 3 - rank)]):
    work.wait()
print(json.dumps({"rank": rank, "sent": sent.item(), "everybody": [e.item() for e in everybody], "largest": largest.item(),
                  "inner": inner.item(), "outer": outer.item(), "ring": ring.item()}), flush=True)
if rank == 1:
    os._exit(3)
dist.barrier()
"""

OBJECTS = """
import json, os
import torch, torch.distributed as dist
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("cpu:gloo,cuda:nccl")
store, keys = dist.distributed_c10d._get_default_store(), []
for step in range(8):
    everybody = [None] * world
    dist.all_gather_object(everybody, [step, rank])
    assert everybody == [[step, 1], [step, 1], [step, 2], [step, 2]], everybody
    dist.barrier()
    keys.append(store.num_keys())
    dist.barrier()
print(json.dumps({"rank": rank, "keys": keys}), flush=True)
"""


class Payloads(Jobs):
    """Values by hand. The running ranks represent the missing ones in turn: of 4 with 0 and 2, rank 1 has the data of 0 and 3 that of 2."""

    def together(self, world, ranks, command, *options, **keys):
        done = self.simulate(command, "--world-size", str(world), "--ranks", ranks, "--together", "--timeout", "400", *options, **keys)
        return lines(done.stdout), done

    def objects(self, *backend):
        told, done = self.together(4, "0,2", [python(), "-W", "ignore", os.path.join(JOBS, "objects.py"), *backend])
        self.assertEqual(sorted(told), [0, 2])
        for rank, line in told.items():
            self.assertEqual(line["lengths"], [[0, 10], [0, 10], [2, 210], [2, 210]])
            self.assertEqual(line["said"], [1, "y", 30000])  # from rank 1
            self.assertEqual(line["own"], ["to", rank])
            self.assertEqual(line["total"], 1 + 1 + 3 + 3)
        self.assertEqual(told[0]["gathered"], [["from", 0], ["from", 0], ["from", 2], ["from", 2]])
        self.assertEqual(re.findall("also running rank (.), unrecorded", done.stderr), ["1"])
        self.assertIn("2 of 4 ranks, simulated together", done.stderr)

    def test_objects(self):
        self.objects()

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_objects_on_the_cpu(self):
        """Without NCCL between the ranks, the store is used."""
        self.objects("cpu:gloo,cuda:nccl")

    def write(self, text):
        path = os.path.join(self.dir, "job.py")
        with open(path, "w") as f:
            f.write(text)
        return [python(), "-W", "ignore", path]

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_objects_do_not_stay_in_the_store(self):
        """After 24 exchanges each rank has its last value in the store, and perhaps the one before."""
        told, _ = self.together(4, "1,2", self.write(OBJECTS))
        for rank in (1, 2):
            self.assertLessEqual(max(told[rank]["keys"]) - min(told[rank]["keys"]), 2 * 2, told[rank]["keys"])

    def test_tensors(self):
        """Also groups of which all members run, or only one; and the failure of one rank ends the other."""
        told, _ = self.together(4, "1,2", self.write(TENSORS), status=3)
        for rank in (1, 2):
            self.assertEqual(told[rank], {"rank": rank, "sent": 102, "everybody": [10, 10, 20, 20], "largest": 2, "inner": 3, "outer": 2 * rank,
                                          "ring": 7 * (3 - rank)})


EXCHANGED = {
    0: {"half": 2, "stripe": 4, "everybody": [0, 0, 2, 2], "said": ["from", 2], "parity": [0, 2], "own": ["to", 0], "gloo": [0, 0, 2, 2],
        "ring": 9, "alone": 50, "parts": [0, 0, 20, 20], "scattered": 0 + 0 + 2 + 2, "from_all": [0, 1, 200, 3]},
    2: {"half": 6, "stripe": 4, "everybody": [0, 0, 2, 2], "said": ["from", 2], "parity": [0, 2], "own": ["to", 2], "gloo": [0, 0, 2, 2],
        "ring": 7, "alone": 50, "parts": [0, 0, 20, 20], "scattered": 2 + 2 + 4 + 4, "from_all": [2, 201, 202, 203]},
}


class Exchanges(Jobs):
    """Every kind of exchange in each version of PyTorch: data of a missing rank is that of its representative, by hand; peaks equal those of the
    whole job."""

    def check(self, name, version):
        job = [os.path.join(JOBS, "exchanges.py")]
        done = self.simulate([python(version), "-W", "ignore", *job], "--gpus", "4", "--world-size", "4", "--ranks", "0,2", "--together", "--timeout", "400")
        told = lines(done.stdout)
        for rank, got in EXCHANGED.items():
            self.assertEqual(told[rank]["got"], got)
        if not os.environ.get("ALL_JOBS"):
            return
        self.traces = os.path.join(self.dir, "whole")
        whole = lines(self.simulate(torchrun(4, *job, version=version), "--gpus", "4").stdout)
        for rank in EXCHANGED:
            self.assertEqual({k: told[rank][k] for k in EQUAL[:2]}, {k: whole[rank][k] for k in EQUAL[:2]})


add_tests(Exchanges, {"2_5": "2.5"}, {v.replace(".", "_"): v for v in ("2.0", "2.1", "2.7", "2.11", "2.15")})


class Together(Jobs):
    """One test for each row, created below: each rank's peaks, tensors and blocks equal those in the whole job."""

    def together_as_whole(self, name, version="2.15"):
        world, ranks, script, arguments = TOGETHER[name]
        whole = self.job(world, script, arguments, version=version)
        self.traces = os.path.join(self.dir, "together")
        done = self.simulate([python(version), "-W", "ignore", os.path.join(JOBS, script), *map(str, SMALL), *arguments.split()], "--gpus", str(world),
                             "--world-size", str(world), "--ranks", ranks, "--together", "--timeout", "400")
        told = lines(done.stdout)
        self.assertEqual(len(told), 2)
        for rank, line in told.items():
            self.assertEqual({k: line[k] for k in EQUAL}, {k: whole[rank][k] for k in EQUAL}, "rank %d" % rank)


def add(name, version="2.15"):
    def test(self):
        self.together_as_whole(name, version)
    if name not in SAMPLE or version != "2.15":
        test = unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")(test)
    setattr(Together, "test_%s_%s" % (name, version.replace(".", "_")), test)


for name in TOGETHER:
    add(name)
    for version in OLDER.get(name, ()):
        add(name, version)

if __name__ == "__main__":
    unittest.main()

"""PyTorch under the preload: its own tools, its versions, backends and Pythons work."""
import os
import subprocess

from harness import JOBS, Case, mtr, python


class Torch(Case):
    def test_profiler_and_history_still_work(self):
        done = self.simulate([python(), "-c", """
import torch
from torch.profiler import profile, ProfilerActivity
x = torch.empty(1, device="cuda")
torch.cuda.memory._record_memory_history()
with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as p:
    for _ in range(5):
        y = torch.empty(1 << 20, device="cuda")
events = [e for e in p.profiler.kineto_results.events() if e.name() == "[memory]"]
trace = torch.cuda.memory._snapshot()["device_traces"][0]
print(len(events), sum(1 for e in trace if e["action"] == "alloc"))
"""])
        plain = self.run_([python(), "-c", "import torch"])
        memory_events, history = map(int, done.stdout.split())
        # 5 allocations and 4 frees inside the profile; all 5 allocations in the history
        self.assertEqual((memory_events, history), (9, 5), plain.stderr)

    def test_peak_of_document_001_by_version(self):
        for version, peak in (("2.5", 24801242112), ("2.15", 24746716160)):
            with self.subTest(version=version):
                self.traces = os.path.join(self.dir, version)
                done = self.simulate([python(version), os.path.join(JOBS, "seed001.py")])
                self.assertEqual(done.stdout.split(), ["124373760", str(peak)])
                self.assertEqual(self.report()["ranks"][0]["peak"]["allocated_bytes"], peak)

    def test_uncached(self):
        """PYTORCH_NO_CUDA_MEMORY_CACHING: every tensor is a cudaMalloc, PyTorch counts nothing; the numbers are counted by hand."""
        self.simulate([python(), "-c", "import torch\na = torch.empty(3 << 20, dtype=torch.uint8, device='cuda')\n"
                       "b = torch.empty(5 << 20, dtype=torch.uint8, device='cuda')\ndel a\nc = torch.empty(1000, dtype=torch.uint8, device='cuda')"],
                      PYTORCH_NO_CUDA_MEMORY_CACHING=1)
        entry = self.report()["ranks"][0]
        self.assertEqual(entry["peak"]["allocated_bytes"], 8 << 20)
        self.assertEqual(entry["peak"]["reserved_bytes"], 8 << 20)

    def test_pinned_host_memory(self):
        self.simulate([python(), "-c", "import torch\nx = torch.empty(1 << 20, device='cuda')\ny = torch.empty(3 << 20, dtype=torch.uint8).pin_memory()"])
        hosts = [r for r in self.trace().records() if r[5] == 13]
        self.assertGreaterEqual(sum(r[2] for r in hosts), 3 << 20)
        self.assertTrue(all(r[6] == 255 for r in hosts))

    def test_python_stacks(self):
        self.simulate([python(), "-c", """
import torch
def innermost():
    return torch.empty(1 << 20, device="cuda")
def höher():
    return innermost()
x = höher()
small = torch.empty(10, device="cuda")
"""])
        trace = self.trace()
        big, small = [r for r in trace.records() if r[5] == 1]
        self.assertEqual(trace.stack(big[3]), [("innermost", "<string>", 4), ("höher", "<string>", 6), ("<module>", "<string>", 7)])
        self.assertEqual(trace.stack(small[3]), [])
        module = trace.modules[trace.stacks[small[3]][0]]
        self.assertEqual(os.path.basename(module), "libc10_cuda.so")

    def test_torch_compile_leaves_one_trace(self):
        """Inductor and its workers load the preload with the same RANK: only the process that allocates writes a trace."""
        done = self.simulate([python(), "-c", """
import os, subprocess, torch
f = torch.compile(lambda x, w: torch.relu(x @ w) + 1)
x = torch.randn(256, 256, device="cuda", requires_grad=True)
f(x, x).sum().backward()
from torch._inductor.async_compile import AsyncCompile
AsyncCompile.warm_pool()
print(len(subprocess.run(["pgrep", "-P", str(os.getpid())], stdout=subprocess.PIPE, text=True).stdout.split()))
"""], RANK=0, WORLD_SIZE=1, MASTER_ADDR="127.0.0.1", MASTER_PORT=29511, TORCHINDUCTOR_CACHE_DIR=os.path.join(self.dir, "cache"),
                             TRITON_CACHE_DIR=os.path.join(self.dir, "triton"), TORCHINDUCTOR_COMPILE_THREADS=4)
        self.assertGreater(int(done.stdout.split()[-1]), 0, "no compile worker was there to be tested")
        self.assertEqual(len(self.paths()), 1, done.stderr)
        self.assertEqual(mtr.Trace(self.paths()[0]).exit_status, 0)

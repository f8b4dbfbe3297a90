"""The trace against PyTorch's own counters, to the byte, on real jobs."""
import json
import os
import unittest

from harness import GPT2, JOBS, Case, python, torchrun

TRUTH = os.path.join(JOBS, "with_truth.py")


class Checks(Case):
    simulated = True

    def check(self, script, *arguments, ranks=1, version="2.15", options=(), whole=True, **settings):
        out = os.path.join(self.dir, "truth")
        script = script if os.path.isabs(script) else os.path.join(JOBS, script)
        command = [TRUTH, out, script, *map(str, arguments)]
        command = [python(version), *command] if ranks == 1 else torchrun(ranks, *command, version=version)
        self.simulate(command, "--gpus", str(ranks), *options, **settings)
        report = self.report("--live-set")
        self.assertEqual(len(report["ranks"]), ranks)
        seen = []
        for entry in report["ranks"]:
            with open("%s.%d" % (out, entry["rank"] or 0)) as f:
                truth = json.load(f)
            torch = truth["devices"][entry["device"]]
            self.assertEqual(entry["rank"] or 0, entry["device"])
            with self.subTest(rank=entry["rank"]):
                self.assertEqual(entry["peak"]["allocated_bytes"], torch["allocated"])
                self.assertEqual(entry["peak"]["reserved_bytes"], torch["reserved"])
                if truth["backend"] == "native":
                    self.assertGreater(torch["allocs"], 100)
                    if whole:
                        self.assertEqual(entry["tensor_allocs"], torch["allocs"])
                        self.assertEqual(entry["tensor_frees"], torch["frees"])
                    self.assertEqual(sorted([b["address"], b["bytes"]] for b in entry["live"]),
                                     sorted([a, n] for d, a, n in truth["blocks"] if d == entry["device"]))
                self.assertEqual(entry["simulated"], self.simulated)
                self.assertEqual(entry["peak"]["device_bytes"], sum(entry["peak"]["by_owner"].values()))
            seen.append((entry, torch))
        return seen


class Truth(Checks):
    def test_gpt2_eager_fp16(self):
        self.check(GPT2, "--batch", 12)

    def test_gpt2_sdpa_bf16(self):
        self.check(GPT2, "--batch", 8, "--flash", "--dtype", "bfloat16")

    def test_gpt2_eager_bf16(self):
        self.check(GPT2, "--batch", 4, "--dtype", "bfloat16")

    def test_gpt2_sdpa_fp16(self):
        self.check(GPT2, "--batch", 4, "--flash")

    def test_llama_1b(self):
        self.check("llama.py", 16)

    def test_ddp(self):
        self.check(GPT2, "--batch", 4, ranks=2)

    def test_fsdp2(self):
        self.check("fsdp2.py", ranks=2)

    def test_expandable_segments(self):
        self.check(GPT2, "--batch", 4, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")

    def test_streams_and_threads(self):
        self.check("streams.py")

    def test_cuda_malloc_async(self):
        """The allocator reports nothing: the pool's own counters are the truth."""
        (entry, torch), = self.check(GPT2, "--batch", 4, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
        self.assertGreater(torch["allocated"], 1 << 30)
        self.assertGreater(entry["events"], 1000)

    def test_pytorch_2_5(self):
        (_, torch), = self.check(GPT2, "--batch", 4, version="2.5")
        self.assertGreater(torch["allocs"], 1000)

    def test_pytorch_2_5_ddp(self):
        self.check(GPT2, "--batch", 2, ranks=2, version="2.5")


@unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
class EveryJob(Checks):
    """The rest of the corpus: larger models, more ranks, allocator settings, both versions."""

    def test_gpt2_medium(self):
        self.check(GPT2, "--layers", 24, "--width", 1024, "--heads", 16, "--batch", 4)

    def test_gpt2_large_sdpa(self):
        self.check(GPT2, "--layers", 36, "--width", 1280, "--heads", 20, "--batch", 2, "--flash", "--dtype", "bfloat16")

    def test_llama_eager(self):
        self.check("llama.py", 8, "eager")

    def test_ddp_4_ranks(self):
        self.check(GPT2, "--batch", 2, ranks=4)

    def test_fsdp2_4_ranks(self):
        self.check("fsdp2.py", ranks=4)

    def test_expandable_ddp(self):
        self.check(GPT2, "--batch", 2, ranks=2, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")

    def test_expandable_2_5(self):
        self.check(GPT2, "--batch", 2, version="2.5", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")

    def test_max_split_size(self):
        self.check("streams.py", PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:64")

    def test_roundup(self):
        self.check("streams.py", PYTORCH_CUDA_ALLOC_CONF="roundup_power2_divisions:4")

    def test_streams_2_5(self):
        self.check("streams.py", version="2.5")

    def test_streams_expandable(self):
        self.check("streams.py", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")

    def test_async_2_5(self):
        self.check(GPT2, "--batch", 2, version="2.5", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")

    def test_small_budget(self):
        """Most of the trace is discarded; the rest still ends with exactly the same live set."""
        (entry, torch), = self.check("streams.py", whole=False, MEMTRACE_BUDGET="512KiB")
        self.assertLess(entry["tensor_allocs"], torch["allocs"])

"""PyTorch's reserved memory, from the driver's events alone, against PyTorch's own counters and the pool's."""
import json
import os

from harness import GPT2, JOBS, Case, mtr, python

POOL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "hooks", "pool_truth.py")


class Torch(Case):
    def held(self, trace, module, kinds):
        """(peak, rest at the end) of the memory of those kinds that the module allocated, whoever freed it"""
        mine, now, peak = {}, 0, 0
        for _, address, n, place, _, kind, _ in trace.records():
            if mtr.KINDS[kind] in kinds and os.path.basename(trace.module(place) or "") == module:
                mine[kind, address] = n
                now += n
                peak = max(peak, now)
            elif kind in mtr.FREE:
                now -= mine.pop((mtr.FREE[kind], address), 0)
        return peak, now

    def test_expandable_segments(self):
        """Reserved memory is the physical memory that libc10_cuda.so allocated, to the byte; no tensor hook is used."""
        for batch in (2, 4):
            with self.subTest(batch=batch):
                self.traces = os.path.join(self.dir, "traces-%d" % batch)
                truth = os.path.join(self.dir, "truth")
                self.simulate([python(), os.path.join(JOBS, "with_truth.py"), truth, GPT2, "--batch", str(batch)],
                              PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
                with open(truth + ".0") as f:
                    torch = json.load(f)["devices"][0]
                trace = self.trace()
                self.assertEqual(trace.lost_events, 0)
                kinds = {mtr.KINDS[r[5]] for r in trace.records()}
                self.assertLessEqual({"PHYSICAL_ALLOC", "MAP"}, kinds)
                peak, _ = self.held(trace, "libc10_cuda.so", ("PHYSICAL_ALLOC", "DEVICE_ALLOC"))
                self.assertEqual(peak, torch["reserved"])
                physical, _ = self.held(trace, "libc10_cuda.so", ("PHYSICAL_ALLOC",))
                self.assertGreater(physical, torch["reserved"] * 9 // 10)
                entry = self.report()["ranks"][0]
                self.assertEqual(entry["peak"]["reserved_bytes"], torch["reserved"])
                self.assertEqual(sum(entry["peak"]["by_owner"].values()), entry["peak"]["device_bytes"])

    def test_native_segments(self):
        truth = os.path.join(self.dir, "truth")
        self.simulate([python(), os.path.join(JOBS, "with_truth.py"), truth, GPT2, "--batch", "2"])
        with open(truth + ".0") as f:
            torch = json.load(f)["devices"][0]
        peak, _ = self.held(self.trace(), "libc10_cuda.so", ("DEVICE_ALLOC",))
        self.assertEqual(peak, torch["reserved"])

    def test_cuda_malloc_async(self):
        """Used and reserved bytes, at the end and at their peaks, equal the pool's attributes."""
        done = self.simulate([python(), POOL, GPT2, "--batch", "4"], PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
        said = [list(map(int, l.split()[1:])) for l in done.stdout.splitlines() if l.startswith("pool ")]
        used, used_peak, reserved, reserved_peak = said[0]
        self.assertGreater(used_peak, 1 << 30)
        trace = self.trace()
        self.assertEqual(trace.lost_events, 0)
        self.assertEqual(trace.peak(0, (8, 9)), used_peak)
        self.assertEqual(sum(r[2] for r in trace.records() if r[5] in (8, 9)), used)
        levels = [r[2] for r in trace.records() if r[5] == 10]
        self.assertEqual((levels[-1], max(levels)), (reserved, reserved_peak))


if __name__ == "__main__":
    import unittest
    unittest.main()

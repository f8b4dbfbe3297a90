"""The caching allocator's model against the real one, event by event: the chosen block, its split, the reserved bytes."""
import os
import subprocess

from harness import BUILD, GPT2, JOBS, ROOT, Case, python

HISTORY = os.path.join(JOBS, "with_history.py")
REPLAY = os.path.join(BUILD, "tests", "unit", "allocator", "allocator_replay")
ALLOCATE = os.path.join(JOBS, "allocate.py")
HF = os.path.join(JOBS, "llama.py")
SMALL = (GPT2, "--layers", 4, "--batch", 4, "--steps", 2)
# job, PYTORCH_CUDA_ALLOC_CONF, device memory
JOBS_AND_SETTINGS = {
    "gpt2": (SMALL, "", None),
    "gpt2_sdpa": ((*SMALL, "--flash", "--dtype", "bfloat16"), "", None),
    "gpt2_expandable": (SMALL, "expandable_segments:True", None),
    "gpt2_split": (SMALL, "max_split_size_mb:128", None),
    "gpt2_rounded": (SMALL, "roundup_power2_divisions:4", None),
    "llama": ((HF, 2), "", None),
    "llama_expandable": ((HF, 2), "expandable_segments:True", None),
    "random": ((ALLOCATE, 1), "", None),
    "random_emptied": ((ALLOCATE, 2, 1, 64, 97), "", None),
    "random_expandable": ((ALLOCATE, 3), "expandable_segments:True", None),
    "random_expandable_emptied": ((ALLOCATE, 4, 1, 64, 97), "expandable_segments:True", None),
    "random_split": ((ALLOCATE, 5, 1, 256), "max_split_size_mb:32", None),
    "random_split_rounding": ((ALLOCATE, 6, 1, 256), "max_split_size_mb:64,max_non_split_rounding_mb:40", None),
    "random_rounded": ((ALLOCATE, 7), "roundup_power2_divisions:[64:8,256:4,>:2]", None),
    "random_full": ((ALLOCATE, 8, 1, 512), "", "6GiB"),
    "random_full_split": ((ALLOCATE, 9, 1, 512), "max_split_size_mb:100", "6GiB"),
    "random_full_expandable": ((ALLOCATE, 10, 1, 512), "expandable_segments:True", "6GiB"),
    "streams": ((ALLOCATE, 11, 4), "", None),
    "streams_emptied": ((ALLOCATE, 12, 4, 64, 97), "", None),
    "streams_expandable": ((ALLOCATE, 13, 4), "expandable_segments:True", None),
}


class Allocator(Case):
    @classmethod
    def setUpClass(cls):
        subprocess.run(["make", "-s", os.path.relpath(REPLAY, ROOT)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)

    def blocks(self):
        """(bytes of the block, reserved bytes at that time) for every allocation of the trace; other levels of the device are ignored"""
        found, reserved = [], 0
        for _, _, size, _, _, kind, _ in self.trace().records():
            if kind == 1:
                found.append([size, None])
            elif kind == 4:
                reserved = size
            if found and kind in (1, 4):
                found[-1][1] = reserved
        return found

    def check(self, job, settings, memory):
        history = os.path.join(self.dir, "history")
        options = ("--memory", memory) if memory else ()
        self.simulate([python(), HISTORY, history, *map(str, job)], *options, **({"PYTORCH_CUDA_ALLOC_CONF": settings} if settings else {}))
        with open(history) as f:
            version, free = f.readline().split()
            version = int(version.split(".")[0]) * 100 + int(version.split(".")[1])
            done = subprocess.run([REPLAY, settings, str(version), free], input=f.read(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        model = [[int(n) for n in line.split()] for line in done.stdout.splitlines()]
        self.assertEqual(done.returncode, 0, "after %d blocks: %s" % (len(model), done.stderr))
        real = self.blocks()
        self.assertGreater(len(real), 200)
        self.assertEqual([size for size, _ in model], [size for size, _ in real])
        self.assertEqual(max(reserved for _, reserved in model), self.trace().level_peak())


def of(row):
    return lambda self: self.check(*row)


for name, row in JOBS_AND_SETTINGS.items():
    setattr(Allocator, "test_" + name, of(row))

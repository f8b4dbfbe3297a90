"""Faults outside of tensors: memory of libraries, and limits."""
import torch

from amounts import peak
from core import Fault, fault

LARGE = 1 << 40  # bytes: a card of this size is not a real one, but measures what the job needs


@fault("library_leaks", "leak outside of PyTorch", "steps")
class LibraryLeaks(Fault):
    """An extension takes device memory with cudaMalloc in each step and does not give it back."""

    def inject(self, target, fixed):
        share, after_step, state = self.rng.uniform(0.08, 0.16), target.after_step, {}
        target.steps, number = self.rng.randint(7, 14), self.rng.choice([1, 2, 4])

        def run_extension(i, loss):
            import ctypes
            after_step(i, loss)
            if not state:
                state["runtime"] = ctypes.CDLL(None)  # where the process's CUDA runtime is found
                state["bytes"] = int(share * peak() / number) + 1
            runtime = state["runtime"]
            for _ in range(number):
                pointer = ctypes.c_void_p()
                if runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(state["bytes"])):
                    raise torch.OutOfMemoryError("the extension got no memory")
                if fixed:
                    runtime.cudaFree(pointer)
        target.after_step = run_extension


@fault("memory_cap", "cap", "loop")
class MemoryCap(Fault):
    """set_per_process_memory_fraction() leaves less than the job needs; the card has more."""
    own_limit = True

    def inject(self, target, fixed):
        share, build = self.rng.uniform(0.3, 0.45), target.build

        def build_with_cap():
            total = torch.cuda.mem_get_info()[1]
            if not fixed and total < LARGE:
                torch.cuda.set_per_process_memory_fraction(share)
            build()
        target.build = build_with_cap

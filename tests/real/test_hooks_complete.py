"""preload/hooks/hooks.def against CUDA's headers: no function that allocates, frees, maps, imports or exports memory is missing.

The rules are patterns of names: a new function of a new toolkit matches one of them, and this test fails until it has a row (or a SKIP with its reason).
"""
import os
import re
import subprocess
import unittest

from harness import PRELOAD, ROOT
from hooks import cuda_headers

HOOKS = os.path.join(ROOT, "preload", "hooks", "hooks.def")
NAMES = os.path.join(ROOT, "tests", "hooks", "driver_names.txt")

MEMORY = re.compile(r"""(?x)
    cuMem\w+ | cuArray(3D)?Create\w* | cuArrayDestroy | cuMipmappedArray(Create|Destroy)
  | cuIpc(Get|Open|Close)MemHandle\w* | cuImportExternalMemory | cuDestroyExternalMemory | cuExternalMemoryGet\w+ | cuMulticast\w+
  | cuGraphAddMem(Alloc|Free)Node | cuGraphAddNode\w* | cuGraph(Launch|Upload|Instantiate)\w* | cuGraphExecDestroy | cuDeviceGraphMemTrim | cuDeviceSetMemPool
  | cu(Green)?Ctx(Create|Destroy|Detach)\w* | cuDevicePrimaryCtx\w+ | cuModule(Load|Unload)\w* | cuLibrary(Load|Unload)\w*
  | cudaMalloc\w* | cudaFree\w* | cudaHost(Alloc|Register|Unregister) | cudaMem(Pool|SetMemPool)\w* | cudaDeviceSetMemPool
  | cudaIpc(Get|Open|Close)MemHandle | cudaImportExternalMemory | cudaDestroyExternalMemory | cudaExternalMemoryGet\w+
  | cudaGraphAddMem(Alloc|Free)Node | cudaGraphAddNode\w* | cudaGraph(Launch|Upload|Instantiate)\w* | cudaGraphExecDestroy | cudaDeviceGraphMemTrim
  | cudaDeviceReset | cudaThreadExit | cudaLibrary(Load|Unload)\w*
  | (cu|cuda)Graphics(Map|Unmap)Resources\w*
  | cuGetProcAddress\w* | cudaGetDriverEntryPoint\w*""")
NCCL = re.compile(r"""(?x)
    ncclComm(Init|Split|Shrink|Grow|Finalize|Destroy|Abort|Revoke|Suspend|Resume|Register|Deregister|Window)\w* | ncclDevComm\w+ | ncclMem\w+
  | ncclGroup(Start|End) | ncclReduce(?!dOp)\w* | nccl(All|Broadcast|Bcast|Send|Recv|Gather|Scatter|PutSignal|Signal|WaitSignal)\w*""")
# Functions that match those rules and move, fill or describe memory, but do not allocate or free any.
OTHERS = re.compile(r"""(?x)
    cuMemcpy\w+ | cuMemcpy | cuMemset(?!MemPool)\w+ | cuMem(Advise|Prefetch|Discard|BatchDecompress)\w* | cuMemGet(?!Handle)\w+
  | cuMemRangeGet\w+ | cuMemHostGet\w+ | (cu|cuda)MemPool(GetAttribute|GetAccess|SetAccess)
  | cuMulticastGetGranularity | cuDevicePrimaryCtx(GetState|SetFlags)\w* | cuModuleGetLoadingMode | cuLibraryLoadingMode""")


def rows():
    """{symbol: the macro of its row}, in order; PTSZ only declares the symbol"""
    with open(HOOKS) as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    found = re.findall(r"^([A-Z][A-Z0-9_]*)\(\s*(\w+)", text, re.M)
    return {symbol: macro for macro, symbol in found if macro != "PTSZ"}


def exported():
    out = subprocess.run(["nm", "-D", "--defined-only", PRELOAD], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines()}


def memory_names(include):
    return {n for n in cuda_headers.declared(include) if MEMORY.fullmatch(n) and not OTHERS.fullmatch(n)}


class Complete(unittest.TestCase):
    maxDiff = None

    def headers(self, include):
        if not include:
            self.skipTest("no such CUDA headers here, and PyPI cannot be reached")
        return include

    def check(self, include):
        names = memory_names(self.headers(include))
        self.assertGreater(len(names), 140)
        missing = sorted(names - set(rows()))
        self.assertFalse(missing, "hooks.def does not name " + " ".join(missing))
        return names

    def test_installed_headers(self):
        names = self.check(cuda_headers.installed())
        for sample in ("cuMemAllocAsync_ptsz", "cudaMallocFromPoolAsync_ptsz", "cuMemMapArrayAsync_ptsz", "cuGraphLaunch_ptsz", "cuMemAlloc"):
            self.assertIn(sample, names)  # the rules match twins and old versions

    def test_cuda_12_headers(self):
        self.check(cuda_headers.of_cuda_12())

    def test_driver_names_of_the_research_table(self):
        with open(NAMES) as f:
            names = [line.strip() for line in f if line.strip() and not line.startswith("#")]
        self.assertEqual(len(set(names)), 91)
        self.assertEqual([n for n in names if n not in rows()], [])

    def test_a_name_left_alone_exists(self):
        """The compiler does not report a misspelt SKIP."""
        known = set()
        for include in (cuda_headers.installed(), cuda_headers.of_cuda_12()):
            known |= cuda_headers.declared(include) if include else set()
        known |= cuda_headers.nccl()
        self.assertEqual([n for n, macro in rows().items() if macro == "SKIP" and n not in known], [])

    def test_nccl(self):
        """Every function that creates, ends, uses or changes a communicator has a row."""
        names = cuda_headers.nccl()
        if not names:
            self.skipTest("no nccl.h here")
        self.assertIn("ncclCommInitRank", names)
        self.assertEqual(sorted(n for n in names - set(rows()) if NCCL.fullmatch(n)), [])

    def test_a_skipped_name_has_its_reason(self):
        with open(HOOKS) as f:
            for line in f:
                if line.startswith("SKIP("):
                    self.assertRegex(line, r'^SKIP\(\w+,\s*"[^"]{4,}"')

    def test_rows_and_exports_are_the_same(self):
        """A row whose name is a header's macro (cuMemAlloc is cuMemAlloc_v2) would define one symbol and name another."""
        hooked = {n for n, macro in rows().items() if macro != "SKIP"}
        cuda = {n for n in exported() if re.match(r"cu[A-Z]|cuda[A-Z]", n)}
        self.assertEqual(sorted(hooked - exported()), [], "rows that libmemtrace.so does not export")
        self.assertEqual(sorted(cuda - hooked), [], "exported CUDA functions without a row")

    def test_no_row_is_named_twice(self):
        with open(HOOKS) as f:
            found = [s for m, s in re.findall(r"^([A-Z][A-Z0-9_]*)\(\s*(\w+)", f.read(), re.M) if m != "PTSZ"]
        self.assertEqual(sorted({n for n in found if found.count(n) > 1}), [])

    def test_no_row_is_a_macro_where_it_is_defined(self):
        """If the older versions are declared, no macro rewrites a name: the name in the row is the exported name."""
        include = self.headers(cuda_headers.installed())
        names = [n for n in rows() if n.startswith("cu")]
        text = cuda_headers.HEADERS + "".join("\nROW %s" % n for n in names)
        seen = re.findall(r"^ROW (\w+)$", cuda_headers.preprocess(include, text, "-D__CUDA_API_VERSION_INTERNAL"), re.M)
        self.assertEqual([(a, b) for a, b in zip(names, seen) if a != b], [])
        self.assertEqual(len(names), len(seen))

    def test_twins_are_hooked_with_their_plain_names(self):
        include = self.headers(cuda_headers.installed())
        hooked = {n for n, macro in rows().items() if macro != "SKIP"}
        declared = cuda_headers.declared(include)
        self.assertEqual(sorted(n + "_ptsz" for n in hooked if n + "_ptsz" in declared and n + "_ptsz" not in hooked), [])


if __name__ == "__main__":
    unittest.main()

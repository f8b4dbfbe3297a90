"""A job without PyTorch, of a moment: one allocation of the driver of BYTES. MEMTRACE_CONFIG may declare a model for it."""
import ctypes
import sys

cuda = ctypes.CDLL("libcuda.so.1")
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
for done in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context),
             cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(int(sys.argv[1])))):
    assert done == 0

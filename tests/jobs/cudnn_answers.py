"""Asks the cuDNN of this Python, for a GPU that is described and not there, which workspace its first plan for each convolution of CASES takes on a GPU.
cudnn_answers.py MAJOR MINOR MULTIPROCESSORS SHARED_OPTIN L2 THREADS BLOCKS MHZ MEMORY_MHZ: a line of JSON each."""
import ctypes
import glob
import json
import os
import sys
import sysconfig

from convolution_cases import CASES

TYPES = {"float32": 0, "float16": 2, "bfloat16": 9}
# cudnnBackendAttributeType_t, cudnnBackendDescriptorType_t and the first attribute of an operation
DATA_TYPE, INT64, FLOAT, MODE, HEURISTIC_MODE, DESCRIPTOR, CHAR = 1, 3, 4, 7, 8, 15, 24
OPERATIONS = {"forward": (10, 700), "input": (12, 706), "filters": (11, 712)}
C_TYPES = {DATA_TYPE: ctypes.c_int, INT64: ctypes.c_int64, FLOAT: ctypes.c_float, MODE: ctypes.c_int, HEURISTIC_MODE: ctypes.c_int, DESCRIPTOR: ctypes.c_void_p}


def library():
    wheels = os.path.join(sysconfig.get_paths()["purelib"], "nvidia")
    for name in ("libcublasLt.so", "libcublas.so", "libnvrtc.so"):
        for path in glob.glob(os.path.join(wheels, "*", "lib", name + ".1?")):
            ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(glob.glob(os.path.join(wheels, "cudnn", "lib", "libcudnn.so.9"))[0])


dnn = library()


def done(status):
    if status:
        text = ctypes.create_string_buffer(1000)
        dnn.cudnnGetLastErrorString(text, len(text))
        sys.exit("cudnn_answers.py: status %d: %s" % (status, text.value.decode()))


def made(kind, *attributes, finalized=True):
    """A descriptor with (name, type, values) set."""
    it = ctypes.c_void_p()
    done(dnn.cudnnBackendCreateDescriptor(kind, ctypes.byref(it)))
    for name, kind, values in attributes:
        array = values if kind == CHAR else (C_TYPES[kind] * len(values))(*[v.value if kind == DESCRIPTOR else v for v in values])
        done(dnn.cudnnBackendSetAttribute(it, name, kind, ctypes.c_int64(len(values)), array))
    if finalized:
        done(dnn.cudnnBackendFinalize(it))
    return it


def tensor(uid, sizes, kind):
    strides = [1]
    for size in sizes[:0:-1]:
        strides.insert(0, strides[0] * size)
    return made(17, (901, DATA_TYPE, [TYPES[kind]]), (902, INT64, sizes), (903, INT64, strides), (906, INT64, [uid]), (900, INT64, [32]))


def workspace(operation, gpu, batch, channels, filters, kernel, size, stride, padding, groups, kind):
    out = (size + 2 * padding - kernel) // stride + 1
    shape = made(1, (100, DATA_TYPE, [0]), (101, MODE, [1]), (106, INT64, [2]), (102, INT64, [1, 1]), (103, INT64, [stride] * 2), (105, INT64, [padding] * 2),
                 (104, INT64, [padding] * 2))
    kind_of, first = OPERATIONS[operation]
    tensors = [tensor(1, [filters, channels // groups, kernel, kernel], kind), tensor(2, [batch, channels, size, size], kind), tensor(3, [batch, filters, out, out], kind)]
    graph = made(15, (801, DESCRIPTOR, [made(kind_of, (first, FLOAT, [1.0]), (first + 1, FLOAT, [0.0]), (first + 2, DESCRIPTOR, [shape]),
                                             *[(first + 3 + i, DESCRIPTOR, [t]) for i, t in enumerate(tensors)])]))
    heuristic = made(4, (201, DESCRIPTOR, [graph]), (200, HEURISTIC_MODE, [0]), (204, DESCRIPTOR, [gpu]))
    configuration, count, size = made(3, finalized=False), ctypes.c_int64(), ctypes.c_int64()
    done(dnn.cudnnBackendGetAttribute(heuristic, 202, DESCRIPTOR, ctypes.c_int64(1), ctypes.byref(count), ctypes.byref(configuration)))
    plan = made(5, (401, DESCRIPTOR, [configuration]), (407, DESCRIPTOR, [gpu]))
    done(dnn.cudnnBackendGetAttribute(plan, 402, INT64, ctypes.c_int64(1), ctypes.byref(count), ctypes.byref(size)))
    return size.value


if __name__ == "__main__":
    major, minor, multiprocessors, shared, l2, threads, blocks, mhz, memory_mhz = map(int, sys.argv[1:])
    properties = {"deviceName": "a GPU", "cudaDeviceId": 0, "deviceVer": major * 100 + minor * 10, "driverVer": 13000, "totalGlobalMem": 24 << 30, "maxGridSize": [2**31 - 1, 65535, 65535],
                  "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "multiProcessorCount": multiprocessors, "smCountOrigin": 0, "warpSize": 32,
                  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": shared, "oversizedSharedMemoryPerBlock": 0, "reservedSharedMemoryPerBlock": 1024, "maxCtasPerSM": blocks,
                  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": threads, "pciDeviceId": 1, "isTccDriver": 0, "supportCoopLaunch": 1, "smClockRateKHz": mhz * 1000,
                  "memClockRateKHz": memory_mhz * 1000, "l2CacheSize": l2}
    gpu = made(38, (2702, CHAR, json.dumps(properties).encode()))
    for name, case in CASES.items():
        print(json.dumps({"convolution": name, **{operation: workspace(operation, gpu, *case) for operation in OPERATIONS}}))

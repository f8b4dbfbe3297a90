"""What CUDA's own headers say: the names they declare, and which symbol each name is at each version."""
import functools
import glob
import os
import re
import subprocess
import sys
import zipfile

CACHE = os.path.expanduser("~/.cache/memtrace")
WHEEL_12 = "nvidia-cuda-runtime-cu12==12.4.127"
HEADERS = "#include <cuda.h>\n#include <cuda_runtime_api.h>\n"
MODES = [(), ("-DCUDA_API_PER_THREAD_DEFAULT_STREAM",), ("-D__CUDA_API_VERSION_INTERNAL",)]


def installed():
    """The folder of the headers that memtrace itself is built with, or None."""
    home = os.environ.get("CUDA_HOME")
    for folder in ([os.path.join(home, "include")] if home else []) + ["/usr/local/cuda/include", os.path.join(CACHE, "cuda-headers", "include")]:
        if os.path.exists(os.path.join(folder, "cuda.h")):
            return folder
    return None


@functools.lru_cache(None)
def of_cuda_12():
    """The folder of the headers in CUDA 12.4's wheel, fetched once; None when it cannot be had."""
    root = os.path.join(CACHE, "cuda-12.4")
    folder = os.path.join(root, "nvidia", "cuda_runtime", "include")
    if not os.path.exists(os.path.join(folder, "cuda.h")):
        os.makedirs(root, exist_ok=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "--platform",
                        "manylinux2014_x86_64", "-d", root, WHEEL_12], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)
        for wheel in glob.glob(os.path.join(root, "*.whl")):
            with zipfile.ZipFile(wheel) as z:
                z.extractall(root)
            os.unlink(wheel)
    return folder if os.path.exists(os.path.join(folder, "cuda.h")) else None


def nccl():
    """Every function of the newest nccl.h of a PyTorch that is here, with those of its device API; empty where there is none."""
    names = set()
    for header in glob.glob(os.path.join(CACHE, "torch-*", "lib", "python3*", "site-packages", "nvidia", "nccl", "include", "**", "*.h"),
                            recursive=True):
        with open(header) as f:
            names |= set(re.findall(r"\bncclResult_t\s+(nccl\w+)\s*\(", f.read()))
    return names


def preprocess(include, text, *options):
    return subprocess.run(["gcc", "-E", "-P", "-x", "c", "-I" + include, *options, "-"], input=text, check=True, stdout=subprocess.PIPE,
                          text=True).stdout


@functools.lru_cache(None)
def declared(include):
    """Every function: as usual, with a default stream per thread, and with the older versions that only libcuda.so declares."""
    names = set()
    for mode in MODES:
        names |= set(re.findall(r"\b(cu(?:da)?[A-Z]\w*)\s*\(", preprocess(include, HEADERS, *mode)))
    return names - {"cuGetProcAddress_v2_ptsz"}  # an inline function, exported by nobody


@functools.lru_cache(None)
def versions(include):
    """{base name: {per-thread: [the CUDA version of its first interface, of its second, ...]}}, as cudaTypedefs.h lists them"""
    with open(os.path.join(include, "cudaTypedefs.h")) as f:
        found = set(re.findall(r"\*\s*PFN_(cu\w+?)_v(\d+)(_pt[ds][sz])?\b", f.read()))
    table = {}
    for base, version, twin in found:
        table.setdefault(base, {}).setdefault(bool(twin), set()).add(int(version))
    return {base: {twin: sorted(v) for twin, v in of.items()} for base, of in table.items()}


def symbol(include, base, version, per_thread):
    """The exported symbol that cuGetProcAddress(base, version) names, or None: the n-th version of a name is its _vn; where there is a twin
    for a default stream per thread, flag 2 names that one."""
    of = versions(include).get(base, {})
    twin = per_thread and min(of.get(True, [version + 1])) <= version
    number = sum(v <= version for v in of.get(twin, ()))
    names = [n for n in declared(include) if re.fullmatch(base + r"(_v\d)?" + (r"_pt[ds][sz]" if twin else ""), n)]
    return sorted(names, key=lambda n: re.search(r"_v\d|$", n).group())[min(number, len(names)) - 1] if number and names else None

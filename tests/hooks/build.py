"""Builds the small programs of this folder for the tests that run them."""
import functools
import glob
import os
import re
import subprocess

from harness import python
from hooks import cuda_headers

HERE = os.path.dirname(os.path.abspath(__file__))
STUB = "xorl %eax, %eax; ret" if os.uname().machine == "x86_64" else "mov w0, #0; ret"


@functools.lru_cache(None)
def cuda_libraries(version="2.15"):
    """The folders of NVIDIA's libraries in the wheel of that PyTorch."""
    root = os.path.dirname(os.path.dirname(python(version)))
    return sorted(glob.glob(os.path.join(root, "lib", "python3*", "site-packages", "nvidia", "*", "lib")))


def compile_(out, source, *options):
    """Compiles SOURCE (of this folder) to OUT; returns OUT."""
    include = cuda_headers.installed()
    command = ["gcc", "-std=gnu17", "-g", "-O1", "-Wall", "-Wextra", "-Wno-deprecated-declarations", os.path.join(HERE, source), "-o", out,
               "-I" + HERE, *(["-I" + include] if include else []), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode or done.stdout:
        raise AssertionError("%s\n%s" % (" ".join(command), done.stdout))
    return out


def library(out, source, *options):
    return compile_(out, source, "-shared", "-fPIC", "-fvisibility=hidden", *options)


def fake_device(folder):
    """What is preloaded between memtrace and the simulated device, for what that refuses."""
    return library(os.path.join(folder, "fake_device.so"), "fake_device.c", os.path.join(HERE, "fake_graphs.c"), "-ldl")


def fake_driver(folder, include, stub=STUB, make=library):
    """libcuda.so.1 in FOLDER: fake_driver.c, and a stub for every other name that cuda.h declares."""
    with open(os.path.join(HERE, "fake_driver.c")) as f:
        own = set(re.findall(r"^EXPORT int (\w+)\(", f.read(), re.M))
    names = sorted(n for n in cuda_headers.declared(include) if re.match(r"cu[A-Z]", n))
    stubs = os.path.join(folder, "stubs.S")
    with open(stubs, "w") as f:
        f.write(".text\n")
        for n in names:
            if n not in own:
                f.write('.balign 16\n.globl %s\n.type %s, %%function\n%s: %s\n' % (n, n, n, stub))
        f.write('.section .note.GNU-stack,"",%progbits\n')
    with open(os.path.join(folder, "interfaces.def"), "w") as f:
        for base, of in sorted(cuda_headers.versions(include).items()):
            for twin, versions in of.items():
                for version in versions:
                    symbol = cuda_headers.symbol(include, base, version, twin)
                    if symbol in names:
                        f.write("INTERFACE(%s, %d, %d, %s)\n" % (base, version, twin, symbol))
    return make(os.path.join(folder, "libcuda.so.1"), "fake_driver.c", stubs, "-I" + folder, "-Wno-strict-prototypes",
                   "-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1")

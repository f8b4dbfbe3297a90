"""memtrace's own programs for a machine that may lack what builds them: made here as far as that goes, otherwise those that came along."""
import glob
import os
import shutil
import subprocess

import runner

PARTS = {"recorder": "libmemtrace.so", "simulator": "libcudasim.so", "memtrace": "memtrace", "hook_cost": os.path.join("bench", "hook_cost.so")}
HEADERS = {"jansson.h": "libjansson-dev", "yaml.h": "libyaml-dev", "uthash.h": "uthash-dev"}
COMPILES = "#include <cuda.h>\n#include <cuda_runtime_api.h>\n"


def says(command, text=None, limit=60):
    """Did the command succeed?"""
    try:
        return subprocess.run(command, input=text, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=limit, universal_newlines=True).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def header_folders(python):
    """Where the CUDA headers may be: a toolkit's, conda's, what tests/setup.sh fetched, and those of PyTorch's own packages."""
    found = [os.path.join(os.environ[name], "include") for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    found += ["/usr/local/cuda/include", "/opt/cuda/include", *sorted(glob.glob("/usr/local/cuda-*/include"), reverse=True)]
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "memtrace")
    found.append(os.path.join(cache, "cuda-headers", "include"))
    found += ["/usr/include", "/usr/lib/cuda/include"]
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(python))) if python else "/usr"
    found += [os.path.join(prefix, "include"), os.path.join(prefix, "targets", "x86_64-linux", "include")]
    for packages in glob.glob(os.path.join(prefix, "lib*", "python3*", "*-packages")):
        found += sorted(glob.glob(os.path.join(packages, "nvidia", "cu*", "include")), reverse=True)
    return [f for f in found if os.path.exists(os.path.join(f, "cuda.h"))]


def missing(compiler, python):
    """([what building needs and is not here], the folder of the CUDA headers or None)"""
    lacks, cuda = [], None
    if not shutil.which("make"):
        lacks.append("make")
    if not compiler:
        return [*lacks, "a C compiler (gcc)"], None
    for folder in header_folders(python):
        if says([compiler, "-E", "-I", folder, "-x", "c", "-"], COMPILES):
            cuda = folder
            break
    if cuda is None:
        lacks.append("the CUDA headers (a CUDA toolkit, or the package nvidia-cuda-runtime)")
    for header, package in HEADERS.items():
        if not says([compiler, "-E", "-x", "c", "-"], "#include <%s>\n" % header):
            lacks.append("%s (%s)" % (header, package))
    return lacks, cuda


def runs(path):
    return os.path.exists(path) and says([path, "--version"])


def loads(path):
    """Can this machine's loader preload the library?"""
    if not os.path.exists(path):
        return False
    try:
        done = subprocess.run(["/bin/true"], env={**os.environ, "LD_PRELOAD": path, "MEMTRACE_QUIET": "1"}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0 and b"cannot be preloaded" not in done.stderr


def parts(folder):
    """{part: path}: what is in the folder and works here."""
    found = {}
    for name, file in PARTS.items():
        path = os.path.join(folder, file)
        good = runs(path) if name == "memtrace" else os.path.exists(path) if name == "hook_cost" else loads(path)
        if good:
            found[name] = path
    triton = os.path.join(folder, "cudasim")
    if "simulator" in found and os.path.exists(os.path.join(triton, "libcuda.so.1")):
        found["triton"] = triton
    return found


def make(root, folder, compiler, cuda, scratch, limit):
    """make as far as it goes; (succeeded, last lines)"""
    command = ["make", "-C", root, "-s", "-k", "-j%d" % (os.cpu_count() or 2), "BUILD=" + folder, "CC=" + compiler,
               *(["CUDA=" + cuda] if cuda else []), "all", os.path.join(folder, "bench", "hook_cost.so")]
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    done = runner.execute(command, environment, scratch, limit)
    return done["status"] == "ok", (done["stderr"][-3000:] + "\n" + (done.get("why") or "")).strip()


def get(root, python, scratch, ready=None, limit=240):
    """{"recorder", "simulator", "memtrace", "triton", "hook_cost": paths; "how", "missing", "log"}. `ready`: a folder to use as it is."""
    if ready:
        return {**parts(ready), "how": "as it came", "missing": [], "log": ""}
    own = os.path.join(root, "build")
    # By name, because the Makefile asks whether it is clang.
    compiler = next((name for name in (os.environ.get("CC"), "gcc", "cc", "clang") if name and shutil.which(name)), None)
    lacks, cuda = missing(compiler, python)
    if not os.path.exists(os.path.join(root, "Makefile")):
        return {**parts(own), "how": "as it came", "missing": [], "log": "there are no sources here"}
    writable = os.access(root, os.W_OK) and (not os.path.exists(own) or os.access(own, os.W_OK))
    # A relative folder, as a later `make` uses it: with another name everything would be compiled again.
    folder = "build" if writable else os.path.join(scratch, "build")
    good, log = False, "not tried"
    if compiler and cuda and shutil.which("make"):
        good, log = make(root, folder, compiler, os.environ.get("CUDA") or cuda, scratch, limit)
    made, came = parts(os.path.join(root, folder)), parts(own)
    how = "made here" if good else "made here as far as it goes" if log != "not tried" else "as it came"
    return {**came, **made, "how": how, "missing": lacks if not good else [], "log": "" if good else log}

"""Every CUDA symbol that PyTorch's libraries leave undefined must come from the simulated device.

exports.py LIBCUDASIM TORCH_LIB_DIR...     exit status 1 and the names, if some do not
NVRTC is left to the real library.
"""
import glob
import re
import subprocess
import sys

CUDA = re.compile(r"(__)?cu(da[A-Z]|[A-Z]|blas|dnn|sparse|solver|fft|rand|pti)|nccl|nvshmem")


def names(path, which):
    out = subprocess.run(["nm", "-D", which, path], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines() if line.strip()}


def main():
    have = names(sys.argv[1], "--defined-only")
    failed = False
    for directory in sys.argv[2:]:
        for path in sorted(glob.glob(directory + "/*.so")):
            missing = sorted(name for name in names(path, "--undefined-only") - have if CUDA.match(name))
            failed |= bool(missing)
            if missing:
                print(path, *missing)
    table = set(re.findall(r"^(?:ENTRY\(|(?:DONE|REFUSE)\(cuda, )(\w+)", open_tables(), re.M))
    driver = {name for name in have if re.match(r"cu[A-Z]", name) and not name.startswith("cuFile")
              and not name.endswith("_ptsz")}
    for name in sorted(driver ^ table):
        print("exported and driver.def disagree about", name)
    return 1 if failed or driver ^ table else 0


def open_tables():
    here = __file__.rsplit("/", 1)[0] + "/../../preload/sim/"
    return "".join(open(here + name).read() for name in ("driver.def", "calls_driver.def"))


if __name__ == "__main__":
    sys.exit(main())

"""The Python whose PyTorch works on a GPU of this machine: the active one, conda's, or one of the usual places."""
import glob
import json
import os
import shutil
import subprocess

# Printed by each Python that is tried. The last import that worked, and what CUDA said, tell why it is not the one.
ASK = r"""
import ctypes, importlib.util, json, platform, sys
out = {"python": platform.python_version(), "executable": sys.executable, "libc": " ".join(platform.libc_ver()), "kernel": platform.release()}

def bus_id():
    text = ctypes.create_string_buffer(64)
    return text.value.decode() if ctypes.CDLL("libcuda.so.1").cuDeviceGetPCIBusId(text, 64, 0) == 0 else None

def details(torch):
    p = torch.cuda.get_device_properties(0)
    yield "devices", torch.cuda.device_count
    yield "uuid", lambda: str(p.uuid)
    yield "cudnn", torch.backends.cudnn.version
    yield "nccl", lambda: ".".join(map(str, torch.cuda.nccl.version()))
    yield "archs", torch.cuda.get_arch_list
    yield "bus_id", bus_id
    yield "modules", lambda: [m for m in ("transformers", "peft", "accelerate", "triton", "numpy") if importlib.util.find_spec(m)]

try:
    import torch
    out.update(torch=torch.__version__, cuda=torch.version.cuda)
    if torch.version.cuda:
        torch.cuda.init()
        p = torch.cuda.get_device_properties(0)
        free, total = torch.cuda.mem_get_info(0)
        out.update(name=p.name, total=total, free=free, capability=[p.major, p.minor], multiprocessors=p.multi_processor_count)
        float(torch.ones(1, device="cuda").cpu().numel())
        out["available"] = True
        for name, ask in details(torch):
            try:
                out[name] = ask()
            except Exception as error:
                out.setdefault("lacks", []).append("%s: %s" % (name, error))
except Exception as error:
    out["error"] = "%s: %s" % (type(error).__name__, str(error)[:500])
print("@" + json.dumps(out))
"""


def candidates(asked=None):
    """The Pythons to try, the likeliest first, each once."""
    if asked:
        return [asked]
    home = os.path.expanduser("~")
    found = []
    for prefix in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if os.environ.get(prefix):
            found.append(os.path.join(os.environ[prefix], "bin", "python"))
    found += [shutil.which("python3"), shutil.which("python")]
    for root in (home, "/opt", "/usr/local"):
        for name in ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "conda"):
            found += [os.path.join(root, name, "bin", "python"), *sorted(glob.glob(os.path.join(root, name, "envs", "*", "bin", "python")))]
    found += sorted(glob.glob("/opt/*/bin/python3")) + sorted(glob.glob("/opt/*/.venv/bin/python3"))
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "memtrace")
    found += sorted(glob.glob(os.path.join(cache, "torch-*", "bin", "python")), reverse=True) + ["/usr/bin/python3"]
    kept, seen = [], set()
    for path in found:
        # A virtual environment's python is a link to its base: the folder tells them apart.
        if path and os.access(path, os.X_OK) and os.path.normpath(path) not in seen:
            seen.add(os.path.normpath(path))
            kept.append(path)
    return kept[:40]


def ask(path, environment, limit=120):
    """What a Python says about its PyTorch."""
    try:
        done = subprocess.run([path, "-c", ASK], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"error": "took longer than %d s" % limit}
    except OSError as error:
        return {"error": str(error)}
    for line in done.stdout.decode(errors="replace").splitlines():
        if line.startswith("@"):
            return json.loads(line[1:])
    return {"error": "ended with status %d: %s" % (done.returncode, done.stderr.decode(errors="replace").strip()[-300:])}


def why_not(answer):
    if answer.get("torch") is None:
        return answer.get("error", "no PyTorch")
    if not answer.get("cuda"):
        return "PyTorch %s is built without CUDA" % answer["torch"]
    return answer.get("error") or "PyTorch %s (CUDA %s) sees no GPU" % (answer["torch"], answer["cuda"])


def find(environment, asked=None):
    """(path, answer, tried): the first Python with a GPU, or None; tried: [(path, why not)]."""
    tried = []
    for path in candidates(asked):
        answer = ask(path, environment)
        if answer.get("available"):
            return path, answer, tried
        tried.append((path, why_not(answer)))
    return None, None, tried

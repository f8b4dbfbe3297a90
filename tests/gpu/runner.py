"""Runs one job one way, within a limit, and keeps what it left: PyTorch's counters, the marks, the trace's summary. No failure goes further."""
import json
import os
import shutil
import signal
import subprocess
import time

import tracefile
from steps import OWN

# Settings of the caller that would change what is compared.
FOREIGN = ("MEMTRACE_", "CUDASIM_", "PYTORCH_", "TEST_GPU_", "NCCL_", "CUBLAS_", "CUDNN_", "TORCHINDUCTOR_", "TORCH_NCCL_", "TORCHELASTIC_")
FOREIGN_NAMES = {"CUDA_MODULE_LOADING", "CUDA_LAUNCH_BLOCKING", "NVIDIA_TF32_OVERRIDE", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
                 "MASTER_ADDR", "MASTER_PORT", "PYTHONSTARTUP"}
PLAIN, RECORDED, SIMULATED = "plain", "recorded", "simulated"
OUT_OF_MEMORY = "out of memory"
TAIL = 4000
LIVE = set()  # processes that run now
GRACE = 10  # seconds that an ended process may take to go


def clean():
    return {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN) and k not in FOREIGN_NAMES}


class Ways:
    """The environment of each way to run a job. `stand_in`: settings of a simulated device that takes the GPU's place, for tests."""

    def __init__(self, build, python, simulated, visible=None, stand_in=None):
        self.build, self.python, self.simulated, self.visible, self.stand_in = build, python, simulated, visible, stand_in

    def preload(self, environment, *libraries):
        found = [self.build[name] for name in libraries if self.build.get(name)]
        kept = environment.get("LD_PRELOAD")
        environment["LD_PRELOAD"] = ":".join(found + ([kept] if kept else []))
        if not environment["LD_PRELOAD"]:
            del environment["LD_PRELOAD"]
        if "simulator" in libraries and self.build.get("triton"):
            environment["TRITON_LIBCUDA_PATH"] = self.build["triton"]

    def on_device(self, **settings):
        """Without the recorder, on the GPU or what takes its place."""
        return self.environment(PLAIN, None, settings)

    def environment(self, way, directory, settings):
        environment = {**clean(), **settings, "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        libraries = [] if way == PLAIN else ["recorder"]
        if way == SIMULATED:
            environment.pop("CUDA_VISIBLE_DEVICES", None)
            environment.update(self.simulated)
            libraries.append("simulator")
        elif self.stand_in is not None:
            environment.update(self.stand_in)
            libraries.append("simulator")
        elif self.visible:
            environment.update(CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=self.visible)
        if libraries:
            self.preload(environment, *libraries)
        if directory:
            environment.update(MEMTRACE_DIR=os.path.join(directory, "traces"), TEST_GPU_MARKS=os.path.join(directory, "marks"),
                               TORCHINDUCTOR_CACHE_DIR=os.path.join(directory, "inductor"), TRITON_CACHE_DIR=os.path.join(directory, "triton"))
        if way != PLAIN:
            environment.setdefault("MEMTRACE_QUIET", "1")
        return environment


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def execute(command, environment, directory, limit):
    """{"status", "rc", "seconds", "stdout", "stderr"}; the process and those that it started are ended at the limit."""
    out, err = os.path.join(directory, "stdout"), os.path.join(directory, "stderr")
    began = time.monotonic()
    found = {"status": "ok", "rc": None, "stdout": "", "stderr": ""}
    try:
        with open(out, "wb") as o, open(err, "wb") as e:
            process = subprocess.Popen(command, env=environment, cwd=directory, stdin=subprocess.DEVNULL, stdout=o, stderr=e, start_new_session=True)
            LIVE.add(process)
            try:
                found["rc"] = process.wait(max(limit, 0.1))
            except BaseException as error:
                kill(process)
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                found.update(status="timeout", why="took longer than %d s" % limit)
            finally:
                LIVE.discard(process)
    except OSError as error:
        found.update(status="failed", why=str(error))
    for name, path in (("stdout", out), ("stderr", err)):
        if os.path.exists(path):
            with open(path, "rb") as f:
                f.seek(max(os.path.getsize(path) - TAIL, 0))
                found[name] = f.read().decode(errors="replace")
    found["seconds"] = round(time.monotonic() - began, 2)
    if found["status"] == "ok" and found["rc"]:
        end = "killed by signal %d" % -found["rc"] if found["rc"] < 0 else "ended with status %d" % found["rc"]
        found.update(status="failed", why="%s: %s" % (end, last_line(found["stderr"])))
    return found


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        pass
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        pass  # it waits in the driver: the other steps go on


def kill_all():
    """After an interruption: what other threads started ends too."""
    for process in list(LIVE):
        kill(process)


def read_json(path):
    try:
        with open(path) as f:
            return json.load(f)
    except (OSError, ValueError):
        return None


def read_lines(path):
    """The JSON lines of a file, as far as they are whole."""
    found = []
    try:
        with open(path) as f:
            for line in f:
                found.append(json.loads(line))
    except (OSError, ValueError):
        pass
    return found


def reported(memtrace, path, truth):
    """More checks of the same form: what `memtrace report` makes of the trace; the device's level at the end within 1 % of cudaMemGetInfo."""
    done = subprocess.run([memtrace, "report", "--json", path], env=clean(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    entry = json.loads(done.stdout.decode())["ranks"][0]
    peak, used = entry["peak"], truth["device"]["cuda"]
    found = [("report: " + name, peak[name + "_bytes"], truth[name], peak[name + "_bytes"] == truth[name]) for name in ("allocated", "reserved")]
    last = entry["timeline"][-1][3]
    return found + [("report: device, 1 %", last, used, abs(last - used) <= used / 100)]


def traced(run, directory, stacks, memtrace):
    """Adds the trace's summary and the recorder's checks to a run."""
    path = tracefile.largest(os.path.join(directory, "traces"))
    if path is None:
        run["trace_error"] = "no trace was written"
        return
    run["trace_bytes"] = os.path.getsize(path)
    try:
        run["trace"] = tracefile.summary(path, stacks)
        if run["truth"] and "allocated" in run["truth"]:
            run["checks"] = tracefile.checks(path, run["truth"])
            if memtrace:
                run["checks"] += reported(memtrace, path, run["truth"])
    except Exception as error:  # a trace that the strict reader refuses is a finding, not the end
        run["trace_error"] = "%s: %s" % (type(error).__name__, error)


def run(ways, way, step, directory, limit, stacks):
    """One job, wrapped in probe.py."""
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    out = os.path.join(directory, "truth")
    environment = ways.environment(way, directory, step.settings)
    environment["MEMTRACE_STACK_MIN"] = "0"
    done = execute([ways.python, os.path.join(OWN, "probe.py"), out, *step.command], environment, directory, limit)
    done["truth"] = read_json(out)
    done["marks"] = (done["truth"] or {}).pop("marks", None) or read_lines(os.path.join(directory, "marks"))
    failure = (done["truth"] or {}).get("error")
    if failure:
        # A GPU that is too small for the job: what was counted until then is compared all the same.
        done.update(status=OUT_OF_MEMORY if failure.startswith("OutOfMemoryError") else "failed", why=failure)
    if way != PLAIN and ways.build.get("recorder"):
        traced(done, directory, stacks, ways.build.get("memtrace"))
    if done["truth"]:
        done["truth"]["blocks"] = len(done["truth"].get("blocks", []))
    return done


def measure(ways, way, step, directory, limit):
    """One timed job: the JSON of its last line of output."""
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    done = execute([ways.python, *step.command], ways.environment(way, directory, step.settings), directory, limit)
    try:
        done["result"] = json.loads(done["stdout"].strip().splitlines()[-1])
    except (ValueError, IndexError):
        done["result"] = None
        if done["status"] == "ok":
            done.update(status="failed", why="it printed no result")
    return done

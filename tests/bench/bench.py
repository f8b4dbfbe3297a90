"""make bench. Every ratio is of runs that took turns; medians with the spread; bars are those of the project's plan."""
import glob
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.join(ROOT, "tests", "bench")
BUILD = os.path.join(ROOT, "build")
TRACER, SIM = os.path.join(BUILD, "libmemtrace.so"), os.path.join(BUILD, "libcudasim.so")
TRACES = os.path.join(BUILD, "bench", "traces")
PYTHON = subprocess.run([os.path.join(ROOT, "tests", "python-env.sh"), "2.15"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def run(command, traced, **settings):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MEMTRACE_", "CUDASIM_"))}
    env.update(LD_PRELOAD=("%s %s" % (TRACER, SIM)) if traced else SIM, MEMTRACE_QUIET="1", MEMTRACE_DIR=TRACES, **settings)
    return subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout


def line(what, value, spread, bar):
    print("%-66s %14s   %-24s %s" % (what, value, spread, bar), flush=True)


def hook():
    runs = [json.loads(run([PYTHON, os.path.join(HERE, "hook_cost.py"), os.path.join(BUILD, "bench", "hook_cost.so")], True)) for _ in range(5)]
    for key in runs[0]:
        depth, size = map(int, key.split())
        medians = sorted(r[key][1] for r in runs)
        what = "ns an event, no stack (512-byte blocks)" if size == 512 else "ns an event, Python stack of %d frames" % depth
        line(what, "%.1f ns" % statistics.median(medians), "%.1f to %.1f in 5 runs" % (medians[0], medians[-1]),
             "bar 60" if size != 512 and depth <= 10 else "")


def steps():
    script, rounds = os.path.join(HERE, "step_time.py"), 11
    modes = {"untraced": (False, "plain"), "memtrace": (True, "plain"), "_record_memory_history()": (False, "history")}
    times = {m: [] for m in modes}
    for _ in range(rounds):
        for mode, (traced, how) in modes.items():
            # the lower quartile: what other users of the machine do only ever adds
            times[mode].append(statistics.quantiles(json.loads(run([PYTHON, script, how, "63"], traced)))[0])
    line("GPT-2 small, processor time of a step on the simulated device", "%.1f ms" % statistics.median(times["untraced"]),
         "%.1f to %.1f" % (min(times["untraced"]), max(times["untraced"])), "")
    for mode in ("memtrace", "_record_memory_history()"):
        ratios = sorted(a / b for a, b in zip(times[mode], times["untraced"]))
        line("  the same under " + mode, "× %.3f" % statistics.median(ratios), "%.3f to %.3f, %d pairs" % (ratios[0], ratios[-1], rounds),
             "bar 1.02" if mode == "memtrace" else "")


def big_trace(events):
    shutil.rmtree(TRACES, ignore_errors=True)
    counted = int(run([PYTHON, os.path.join(HERE, "many_events.py"), str(events)], True, MEMTRACE_BUDGET="2GiB"))
    path, = glob.glob(os.path.join(TRACES, "*.mtr"))
    line("bytes of file an event, %d events" % counted, "%.2f" % (os.path.getsize(path) / counted), "", "bar 36")
    best, memory = [], 0
    for _ in range(5):
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        p = subprocess.Popen([os.path.join(BUILD, "memtrace"), "report", "--json", path], stdout=subprocess.DEVNULL)
        _, _, usage = os.wait4(p.pid, 0)
        best.append(counted / (usage.ru_utime + usage.ru_stime) / 1e6)
        memory = usage.ru_maxrss
        del start, before
    line("report: million events a second of one core", "%.1f" % statistics.median(best), "%.1f to %.1f in 5 runs" % (min(best), max(best)), "bar 10")
    line("report: largest memory, the mapped file's pages included", "%d MiB" % (memory // 1024), "", "")


def start_up():
    def once(preload):
        env = dict(os.environ, **({"LD_PRELOAD": TRACER} if preload else {}))
        start = time.perf_counter()
        subprocess.run(["/bin/true"], env=env)
        return (time.perf_counter() - start) * 1e3

    pairs = [(once(False), once(True)) for _ in range(300)]
    extra = sorted(b - a for a, b in pairs)
    line("start of a process without CUDA, with the preload minus without", "%.3f ms" % statistics.median(extra),
         "%.3f to %.3f (10-90 %%)" % (extra[30], extra[270]), "bar 1")


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["hook", "steps", "trace", "start"]
    print("%-66s %14s   %-24s %s" % ("what", "median", "spread", "bar"))
    for name in chosen:
        {"hook": hook, "steps": steps, "trace": lambda: big_trace(10_000_000), "start": start_up}[name]()

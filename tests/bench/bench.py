"""make bench. Every ratio is of runs that alternate; medians with the spread; the bars are those of the project's plan."""
import glob
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile

import made_snapshots

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.join(ROOT, "tests", "bench")
BUILD = os.path.join(ROOT, "build")
TRACER, SIM = os.path.join(BUILD, "libmemtrace.so"), os.path.join(BUILD, "libcudasim.so")
TRACES = os.path.join(BUILD, "bench", "traces")
PYTHON = subprocess.run([os.path.join(ROOT, "tests", "python-env.sh"), "2.15"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def environment(traced, tracer=TRACER, **settings):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MEMTRACE_", "CUDASIM_"))}
    env.update(LD_PRELOAD=("%s %s" % (tracer, SIM)) if traced else SIM, MEMTRACE_QUIET="1", MEMTRACE_DIR=TRACES, **settings)
    return env


def run(command, traced, **settings):
    return subprocess.run(command, env=environment(traced, **settings), check=True, stdout=subprocess.PIPE, text=True).stdout


def plain(command):
    """Without anything preloaded."""
    return subprocess.run(command, env=dict(os.environ, HF_HUB_OFFLINE="1"), check=True, stdout=subprocess.PIPE, text=True).stdout


over = []  # what is over its bar


def line(what, value, spread, bar):
    print("%-66s %14s   %-24s %s" % (what, value, spread, bar), flush=True)


def limited(what, form, value, spread, bar, is_asked=True):
    """A line of a value that may not be over its bar; without `is_asked` it is shown only."""
    line(what, form % value, spread, "bar %g" % bar if is_asked else "")
    if is_asked and value > bar:
        over.append("%s: %s, bar %g" % (what.strip(), form % value, bar))


def hook(runs=3):
    """Warm and cold, beside PyTorch's own memory history in the same processes: see hook_cost.py."""
    found = [json.loads(run([PYTHON, os.path.join(HERE, "hook_cost.py"), os.path.join(BUILD, "bench", "hook_cost.so")], True)) for _ in range(runs)]

    def row(what, values, bar="", unit="%.1f ns"):
        values = sorted(values)
        line(what, unit % statistics.median(values), (unit + " to " + unit + " in %d runs") % (values[0], values[-1], runs), bar)
        return statistics.median(values)

    row("ns an event, no stack (512-byte blocks), warm", [f["no stack"][1] for f in found])
    for how, quartile, in_words in (("warm", 1, "median"), ("cold", 0, "first quartile"), ("cold", 1, "median")):
        for depth in found[0]["warm"]:
            what = "Python stack of %s frames, %s, %s" % (depth, how, in_words)
            ours = row("ns an event, " + what, [f[how][depth][quartile] for f in found], "bar 60" if how == "warm" and int(depth) <= 10 else "", "%.0f ns")
            theirs = row("  under PyTorch's memory history, more", [f["history"][depth][how][quartile] for f in found], "", "%.0f ns")
            line("  times as much", "%.1f" % (theirs / ours), "", "")
    row("ns of the helper's own processor time an event, beside them", [f["helper"] for f in found])


def shipped(runs=5):
    """The hook of the wheel beside the one of the build, in turns."""
    subprocess.run(["make", "-s", "dist", "PARTS=wheel"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    wheel, = glob.glob(os.path.join(BUILD, "dist", "*.whl"))
    out = os.path.join(BUILD, "bench", "shipped")
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    with zipfile.ZipFile(wheel) as z:
        name, = (n for n in z.namelist() if n.endswith("/libmemtrace.so"))
        z.extract(name, out)
    os.chmod(os.path.join(out, name), 0o755)    # it writes the trace
    command = [PYTHON, os.path.join(HERE, "hook_cost.py"), os.path.join(BUILD, "bench", "hook_cost.so"), "warm"]
    pairs = [[json.loads(run(command, True, tracer=t)) for t in (TRACER, os.path.join(out, name))] for _ in range(runs)]
    for what, value in (("no stack (512-byte blocks)", lambda f: f["no stack"][1]), ("Python stack of 5 frames", lambda f: f["warm"]["5"][1]),
                        ("Python stack of 10 frames", lambda f: f["warm"]["10"][1])):
        for k, which in enumerate(("the build", "the wheel")):
            values = sorted(value(p[k]) for p in pairs)
            line("ns an event of %s, %s, warm" % (which, what), "%.1f" % statistics.median(values), "%.1f to %.1f in %d runs" % (values[0], values[-1], runs), "bar 60")


def steps(rounds=400, warm_up=10):
    """The three modes run side by side on one core and alternate step by step, so other load slows them equally."""
    modes = {"untraced": (False, "plain"), "memtrace": (True, "plain"), "_record_memory_history()": (False, "history")}
    core = max(os.sched_getaffinity(0))
    jobs = {m: subprocess.Popen([PYTHON, os.path.join(HERE, "step_time.py"), how], env=environment(traced), stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, {core}))
            for m, (traced, how) in modes.items()}
    times = {m: [] for m in modes}
    for i in range(rounds + warm_up):
        for mode, job in jobs.items():
            job.stdin.write("\n")
            job.stdin.flush()
            t = float(job.stdout.readline())
            if i >= warm_up:
                times[mode].append(t)
    for job in jobs.values():
        job.stdin.close()
        job.wait()
    line("GPT-2 small, processor time of a step on the simulated device", "%.2f ms" % statistics.median(times["untraced"]),
         "%.2f to %.2f (10-90 %%)" % tuple(statistics.quantiles(times["untraced"], n=10)[k] for k in (0, 8)), "")
    for mode in ("memtrace", "_record_memory_history()"):
        ratios = [a / b for a, b in zip(times[mode], times["untraced"])]
        q = statistics.quantiles(ratios, n=4)
        line("  the same under " + mode, "x %.3f" % statistics.median(ratios), "%.3f to %.3f (25-75 %%), %d pairs" % (q[0], q[2], rounds),
             "bar 1.02" if mode == "memtrace" else "")


def watched(blocks=24, steps_a_block=15):
    """A traced job while `memtrace top` shows it, and while top is stopped, in turns of some seconds. top may run where it likes."""
    shutil.rmtree(TRACES, ignore_errors=True)
    core = max(os.sched_getaffinity(0))
    job = subprocess.Popen([PYTHON, os.path.join(HERE, "step_time.py"), "plain"], env=environment(True), stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, {core}))

    def step():
        began = time.perf_counter()
        job.stdin.write("\n")
        job.stdin.flush()
        return float(job.stdout.readline()), (time.perf_counter() - began) * 1e3
    for _ in range(50):
        step()
    top = subprocess.Popen([os.path.join(BUILD, "memtrace"), "top", "--json", TRACES], stdout=subprocess.DEVNULL)
    times = {signal.SIGCONT: [], signal.SIGSTOP: []}
    for i in range(blocks):
        now = (signal.SIGSTOP, signal.SIGCONT)[(i + i // 2) % 2]    # 0 1 1 0 0 1 1 0: neither comes always first
        top.send_signal(now)
        times[now].append([statistics.fmean(t) for t in zip(*(step() for _ in range(steps_a_block)))])
    top.send_signal(signal.SIGCONT)
    job.stdin.close()
    job.wait()
    top.wait()
    for k, what in enumerate(("processor time of a step", "wall time of a step")):
        ratios = sorted(a[k] / b[k] for a, b in zip(times[signal.SIGCONT], times[signal.SIGSTOP]))
        q = statistics.quantiles(ratios, n=4)
        limited("traced GPT-2 small under memtrace top, " + what, "x %.3f", statistics.median(ratios),
                "%.3f to %.3f (25-75 %%), %d pairs" % (q[0], q[2], len(ratios)), 1.02, k == 0)    # two programs share the wall time of two cores


# What a command uses, written to a descriptor. The kernel counts the memory of the process that starts a command as the command's, so that a small one does.
USED = """
import os, resource, subprocess, sys
status = subprocess.run(sys.argv[2:]).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
os.write(int(sys.argv[1]), b"%f %f" % (used.ru_utime + used.ru_stime, used.ru_maxrss / 1024))
sys.exit(status != 0)
"""


def used_by(command, out=subprocess.DEVNULL):
    """The processor time in seconds, and the largest memory in MiB, of a command that must succeed."""
    told, tells = os.pipe()
    p = subprocess.Popen([sys.executable, "-S", "-c", USED, str(tells), *command], stdout=out, pass_fds=(tells,))
    os.close(tells)
    with open(told) as f:
        said = f.read().split()
    if p.wait():
        sys.exit("bench: %s failed" % " ".join(command))
    return tuple(map(float, said))


def big_trace(events, *live):
    """With some hundred live blocks, or with the given number."""
    shutil.rmtree(TRACES, ignore_errors=True)
    counted = int(run([PYTHON, os.path.join(HERE, "many_events.py"), str(events), *map(str, live)], True, MEMTRACE_BUDGET="2GiB"))
    path, = glob.glob(os.path.join(TRACES, "*.mtr"))
    line("bytes of file an event, %d events" % counted, "%.2f" % (os.path.getsize(path) / counted), "", "bar 36")
    speeds, memory = [], 0
    for _ in range(5):
        seconds, used = used_by([os.path.join(BUILD, "memtrace"), "report", "--json", path])
        speeds.append(counted / seconds / 1e6)
        memory = max(memory, used)
    line("report: million events a second of one core, %d live blocks" % (live[0] if live else 300), "%.1f" % statistics.median(speeds),
         "%.1f to %.1f in 5 runs" % (min(speeds), max(speeds)), "bar 10")
    line("report: largest memory, the mapped file's pages included", "%d MiB" % memory, "", "")


def exports(events):
    """Every format, from the trace of big_trace(): processor time of one core, the file, and the memory it takes."""
    path, = glob.glob(os.path.join(TRACES, "*.mtr"))
    for form in "collapsed", "heaptrack", "perfetto", "pytorch", "csv", "ndjson", "sqlite", "prometheus":
        out = os.path.join(BUILD, "bench", "exported")
        seconds, memory = used_by([os.path.join(BUILD, "memtrace"), "export", "--format", form, "-o", out, path])
        limited("export --format %s: s of one core, %d events" % (form, events), "%.1f", seconds, "file of %d MiB" % (os.path.getsize(out) >> 20), 10)
        limited("  its largest memory, MiB", "%.0f", memory, "", 300)
        os.unlink(out)


def snapshot(entries=600_000, runs=3):
    """PyTorch's memory snapshot with so many events, read by report: processor time of one core."""
    path = os.path.join(BUILD, "bench", "snapshot.pickle")
    made_snapshots.write(path, entries)
    found, memory = zip(*(used_by([os.path.join(BUILD, "memtrace"), "report", "--json", path]) for _ in range(runs)))
    limited("report of a snapshot of %d entries: s of one core" % entries, "%.2f", statistics.median(found),
            "%.2f to %.2f, %d MiB of memory, file of %d MiB" % (min(found), max(found), max(memory), os.path.getsize(path) >> 20), 2)
    os.unlink(path)


def many_ranks(ranks=1024, events=100_000):
    """A job's whole directory, from the page cache."""
    job = os.path.join(BUILD, "bench", "job")
    shutil.rmtree(job, ignore_errors=True)
    os.makedirs(job)
    subprocess.run([os.path.join(BUILD, "bench", "make_job"), job, str(ranks), str(events)], check=True)
    times, memory = [], 0
    for _ in range(5):
        start = time.perf_counter()
        memory = max(memory, used_by([os.path.join(BUILD, "memtrace"), "report", job])[1])
        times.append(time.perf_counter() - start)
    line("report of %d ranks of %d events each" % (ranks, events), "%.1f s" % statistics.median(times),
         "%.1f to %.1f in 5 runs" % (min(times), max(times)), "bar 20")
    line("  its largest memory", "%d MiB" % memory, "", "bar 1024")
    shutil.rmtree(job)


def fleet(ranks=10_240, events=2_000):
    """A job's ranks as records, a report and a page; their records as one file, a report, a page and in the history. The bar is of the time on two idle cores,
    which is at most the processor time."""
    job, records, page, history = (os.path.join(BUILD, "bench", name) for name in ("job", "records", "page.html", "history"))
    shutil.rmtree(job, ignore_errors=True)
    os.makedirs(job)
    subprocess.run([os.path.join(BUILD, "bench", "make_job"), job, str(ranks), str(events)], check=True)
    for what, words, target in (("summarize", ["summarize", job], records), ("report --json", ["report", "--json", job], os.devnull),
                                ("html", ["html", "-o", page, job], os.devnull), ("summarize --merge of records", ["summarize", "--merge", records], os.devnull),
                                ("report --json of records", ["report", "--json", records], os.devnull), ("html of records", ["html", "-o", page, records], os.devnull),
                                ("history add of records", ["history", "--file", history, "add", records], os.devnull)):
        with open(target, "wb") as out:
            seconds, memory = used_by([os.path.join(BUILD, "memtrace"), *words], out)
        limited("%d ranks of %d events, %s: s of processor time" % (ranks, events, what), "%.1f", seconds, "", 30)
        limited("  its largest memory, MiB", "%.0f", memory, "", 128)
    shutil.rmtree(job)
    for path in records, page, history:
        os.unlink(path)


def simulated_steps(rounds=3):
    """Ours and PyTorch's own way to count without a GPU, in turns, both on the simulated device (autograd asks for one). MemTracker goes
    through all modules at each operation, some 14 seconds a step of Llama: that one is measured on one step after the first."""
    script = os.path.join(HERE, "simulated_steps.py")
    for model, count, name in (("gpt2", "4", "GPT-2 small, batch 4"), ("llama1b", "2", "Llama, 1.1B parameters")):
        ours, fake = [], []
        for _ in range(rounds):
            ours.append(json.loads(run([PYTHON, script, "simulated", model, count], True)))
            fake.append(json.loads(run([PYTHON, script, "fake", model, count], False)))
        step, theirs = (statistics.median(r["seconds"] for r in runs) for runs in (ours, fake))
        ratios = sorted(f["seconds"] / o["seconds"] for o, f in zip(ours, fake))
        line("%s: simulated and traced steps a second of processor time" % name, "%.3g" % (1 / step), "", "")
        line("  the same under FakeTensorMode and its MemTracker", "%.3g" % (1 / theirs), "", "")
        line("  times as fast", "%.1f" % statistics.median(ratios), "%.1f to %.1f in %d pairs" % (ratios[0], ratios[-1], rounds), "")
        line("  its peak over ours", "%.3f" % (fake[0]["peak_bytes"] / ours[0]["peak_bytes"]), "", "")


def calls():
    pairs = [[list(map(float, run([os.path.join(BUILD, "bench", "calls")], traced).split())) for traced in (False, True)] for _ in range(15)]
    for i, what in enumerate(("dlsym() of a C library's function", "cudaMalloc or cudaFree on the simulated device")):
        plain, ours = ([p[k][i] for p in pairs] for k in (0, 1))
        extra = sorted(b - a for a, b in zip(plain, ours))
        line(what + ", plain", "%.0f ns" % statistics.median(plain), "%.0f to %.0f" % (min(plain), max(plain)), "")
        line("  through us, more", "%.0f ns" % statistics.median(extra), "%.0f to %.0f, 15 pairs" % (extra[0], extra[-1]), "")


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


def estimate():
    """A million jobs for each system in C; beside it, alternating, a Python estimator for one job."""
    ours, theirs, rounds = {}, {}, 3
    for _ in range(rounds):
        for text in plain([os.path.join(BUILD, "tests", "unit", "estimate", "bench_estimate")]).splitlines():
            ours.setdefault(text.split()[0], []).append(float(text.split()[1]))
        done = json.loads(plain([PYTHON, os.path.join(HERE, "python_estimators.py")]).splitlines()[-1])
        for name, seconds in done.items():
            theirs.setdefault(name, []).append(seconds)
    for system, found in ours.items():
        line("million estimates a second of one core, %s" % system, "%.2f" % statistics.median(found), "%.2f to %.2f in %d runs" % (min(found), max(found), rounds),
             "bar 1")
    mine = statistics.median(ours["deepspeed-zero"])  # a million in a second are one microsecond each
    for name, found in theirs.items():
        value = statistics.median(found)
        line("  " + name, "%.3f ms" % (value * 1e3), "%.3f to %.3f in %d runs" % (min(found) * 1e3, max(found) * 1e3, rounds),
             "%.0f times deepspeed-zero" % (value * 1e6 * mine))
    job = [os.path.join(BUILD, "memtrace"), "plan", "--json", "--config", os.path.join(ROOT, "examples", "llama-3.1-8b.json"), "--set", "seq_length=131072",
           "--set", "global_batch_size=16384", "--gpus", "16384", "--gpu", "H100"]
    megatron = [*job, "--system", "memtrace", "--set", "framework=megatron-core", "--set", "seq_length=8192", "--set", "global_batch_size=4096"]
    largest = [os.path.join(BUILD, "memtrace"), "plan", "--json", "--system", "memtrace", "--set", "framework=megatron-core", "--set", "seq_length=8192",
               "--set", "global_batch_size=4096", "--set", "transformer_impl=transformer_engine", "--gpu", "H100", "--config"]
    models = [("  the same of %s on %s GPUs, s" % (name, gpus), [*largest, os.path.join(ROOT, "tests", "config", name, "config.json"), "--gpus", gpus], 3, bar)
              for name, gpus, bar in (("mixtral-8x7b", "16384", "bar 2"), ("deepseek-v3", "16384", "bar 2"), ("llama-3.1-405b", "16128", "bar 2"))]
    for what, command, runs, bar in (("plan of 16,384 GPUs over its whole space, s", job, 10, "bar 1"),
                                     ("  the same, each layout tensor by tensor, s", megatron, 5, "bar 2"), *models):
        whole = []
        for _ in range(runs):
            began = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            whole.append(time.perf_counter() - began)
        line(what, "%.3f" % statistics.median(whole), "%.3f to %.3f in %d runs" % (min(whole), max(whole), runs), bar)


def model_run():
    """An estimate by a run of the model's step on the simulated device, with no answer of an earlier run in the cache."""
    for name in "llama-3.1-8b", "qwen3-8b", "gpt2-xl":
        times, memory = [], 0
        for _ in range(3):
            with tempfile.TemporaryDirectory() as cache:
                began = time.perf_counter()
                _, used = used_by(["env", "XDG_CACHE_HOME=" + cache, "HF_HUB_OFFLINE=1", os.path.join(BUILD, "memtrace"), "estimate", "--how", "run", "--python", PYTHON,
                                   "--config", os.path.join(ROOT, "tests", "config", name, "config.json")])
                times.append(time.perf_counter() - began)
            memory = max(memory, used)
        limited("estimate by a run of %s's step, s" % name, "%.1f", statistics.median(times), "%.1f to %.1f in %d runs" % (min(times), max(times), len(times)), 30)
        limited("  the largest memory of a process, MiB", "%.0f", memory, "", 4096)


def renderer_seconds():
    """Processor time of each thread of the browser's processes that show pages."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/task/[0-9]*/stat"):
        try:
            with open(path.split("/task/")[0] + "/cmdline") as command, open(path) as stat:
                if "--type=renderer" in command.read():
                    fields = stat.read().rpartition(")")[2].split()
                    found[path] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except OSError:  # it has ended
            pass
    return found


def spike_is_drawn(page):
    """The block of 3 GiB that lives for one event has its height in the whole trace and at the deepest zoom."""
    page.press("p")
    page.run('(() => { const s = document.getElementById("axis"); s.value = "event"; s.dispatchEvent(new Event("change")); })()')
    peak = page.run("(() => { const c = memtrace.page.current.category; return c.totalAt(c.peak()); })()")
    for zoom in "0", *"+" * 24:
        page.press(zoom)
        assert page.run("memtrace.page.timeline.drawn.highestBand") == peak > 3 << 30
    first, last = page.run("memtrace.page.timeline.x.domain()")
    assert last - first < 10


def page(events=10_000_000, rounds=3):
    """The page of many events in Chromium, from opening the file to the first picture; then five zooms. Beside the time, the processor time of
    the busiest thread and of all: on an idle machine with two cores, opening takes at least the one and half of the other. Noise has no bars."""
    sys.path.insert(0, os.path.join(ROOT, "tests"))
    from browser import Page
    folder = os.path.join(BUILD, "bench", "page")
    os.makedirs(folder, exist_ok=True)
    # Of noise, each block has 32 bits that nothing predicts (12 of size, 6 of stack, 14 of its place among the live ones): a page of 27 MB or more.
    for kind, name in ("steps", "steps that are alike"), ("random", "20,000 live blocks replaced at random"), ("noise", "sizes, stacks and times at random too"):
        trace, html = (os.path.join(folder, kind + end) for end in (".mtr", ".html"))
        subprocess.run([os.path.join(BUILD, "bench", "make_page_trace"), trace, kind, str(events)], check=True)
        subprocess.run([os.path.join(BUILD, "memtrace"), "html", trace, "-o", html], check=True, stderr=subprocess.DEVNULL)
        ready, zooms, busiest, used = [], [], [], []
        for _ in range(rounds):
            before = renderer_seconds()
            shown = Page(html)
            threads = [seconds - before.get(thread, 0) for thread, seconds in renderer_seconds().items()]
            busiest.append(max(threads))
            used.append(sum(threads))
            ready.append(shown.run("memtrace.readyMs") / 1e3)
            zooms += shown.run("[1, 2, 3, 4, 5].map(() => { const began = performance.now(); memtrace.page.timeline.scaleBy(3); return performance.now() - began; })")
            if kind != "noise":
                spike_is_drawn(shown)
            shown.close()
        asked = kind != "noise"
        limited("page of %d events, %s: MB" % (events, name), "%.1f", os.path.getsize(html) / 1e6, "", 20, asked)
        limited("  ready in, s", "%.2f", statistics.median(ready), "%.2f to %.2f in %d runs" % (min(ready), max(ready), rounds), 2, asked)
        line("  processor time of the busiest thread, of all, s", "%.2f, %.2f" % (statistics.median(busiest), statistics.median(used)), "", "")
        limited("  a zoom, ms", "%.0f", statistics.median(zooms), "%.0f to %.0f" % (min(zooms), max(zooms)), 100, asked)
    shutil.rmtree(folder)


if __name__ == "__main__":
    parts = {"hook": hook, "shipped": shipped, "steps": steps, "watched": watched, "simulated_steps": simulated_steps, "trace": lambda: (big_trace(10_000_000), exports(10_000_000), snapshot()),
             "live": lambda: big_trace(10_000_000, 20_000), "ranks": many_ranks, "fleet": fleet, "page": page, "calls": calls,
             "start": start_up, "estimate": estimate, "model_run": model_run}
    unknown = [name for name in sys.argv[1:] if name not in parts]
    if unknown:
        sys.exit("bench: %s is none of %s" % (unknown[0], ", ".join(parts)))
    print("%-66s %14s   %-24s %s" % ("what", "median", "spread", "bar"))
    for name in sys.argv[1:] or parts:
        parts[name]()
    if over:
        sys.exit("bench: over the bar:\n  " + "\n  ".join(over))

"""make test-gpu: holds everything against a real GPU within a limit, and writes docs/gpu/GPU.md and GPU.json. run.py --help

Without a GPU it prints that it was skipped. No network is used, and nothing is installed.
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
import builds  # noqa: E402
import compare  # noqa: E402
import costs  # noqa: E402
import page  # noqa: E402
import product  # noqa: E402
import pythons  # noqa: E402
import runner  # noqa: E402
import steps  # noqa: E402
from machine import Machine  # noqa: E402
from tracefile import Stacks  # noqa: E402

LEAST = 5       # seconds left below which no run is started
AT_THE_END = 8  # seconds kept for the last comparison
FINE = "ok", runner.OUT_OF_MEMORY


def options(arguments):
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--limit", type=float, default=float(os.environ.get("LIMIT") or 840), help="seconds for everything (LIMIT; 840)")
    p.add_argument("--out", default=os.environ.get("GPU_OUT"), help="folder for the page and the JSON (GPU_OUT; docs/gpu if it can be written)")
    p.add_argument("--python", help="the Python with PyTorch; default: the first that sees a GPU")
    p.add_argument("--gpu", help="the GPU to simulate, a name of gpus.def; default: this one")
    p.add_argument("--build", help="a folder with memtrace's programs, used as they are")
    p.add_argument("--only", action="append", help="steps whose names contain this; can be repeated")
    p.add_argument("--no-cost", action="store_true", help="leave the cost of recording out")
    p.add_argument("--keep", metavar="DIR", help="keep every run's files and traces here")
    p.add_argument("--stand-in", metavar="NAME=VALUE,...", help="for tests: a simulated device with these settings takes the GPU's place")
    p.add_argument("--small", action="store_true", help="for tests: small models, and one turn of the cost")
    p.add_argument("--fail", action="append", default=[], help="for tests: this step's script does not exist")
    o = p.parse_args(arguments)
    o.build, o.keep, o.out = (path and os.path.abspath(path) for path in (o.build, o.keep, o.out))
    return o


class Interrupted(Exception):
    pass


def interrupt(number, frame):
    raise Interrupted("signal %d" % number)


def say(*words):
    print(*words, flush=True)


class Session:
    """One run of everything: what was found so far is in `results`, which save() writes at any time."""

    def __init__(self, o):
        self.o, self.began = o, time.monotonic()
        self.scratch = o.keep or tempfile.mkdtemp(prefix="memtrace-gpu-")
        os.makedirs(self.scratch, exist_ok=True)
        self.stacks, self.lock, self.folder, self.ended = Stacks(), threading.Lock(), None, False
        self.results = {"format": 1, "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "limit_s": o.limit, "complete": False, "cost": {},
                        "steps": {}, "not_run": [], "product": [], "stacks": self.stacks.texts}

    def limit_of(self, wanted):
        """Seconds that a run may take now, or None if there is no time left for one."""
        left = self.o.limit - AT_THE_END - (time.monotonic() - self.began)
        return None if left < LEAST else min(wanted, left)

    # ---- before the steps

    def prepare(self):
        """Python, GPU and programs; False if there is no GPU."""
        environment = runner.clean()
        self.machine = Machine(steps.ROOT, environment)
        if self.o.stand_in is None and not self.machine.has_driver():
            say("  there is no NVIDIA driver: %s" % (self.machine.smi_why or self.machine.nvml.why))
            return False
        visible = self.machine.choose()
        stand_in = dict(pair.split("=", 1) for pair in self.o.stand_in.split(",")) if self.o.stand_in is not None else None
        first = builds.parts(self.o.build or os.path.join(steps.ROOT, "build")) if stand_in is not None else {}
        ways = runner.Ways(first, None, {}, visible, stand_in)
        python, answer, tried = pythons.find(ways.on_device(), self.o.python)
        if python is None:
            for path, why in tried:
                say("  %s: %s" % (path, why))
            if self.machine.smi_why and not self.machine.by_nvml:
                say("  %s" % self.machine.smi_why)
            return False
        self.machine.found(answer)
        self.results.update(python={k: v for k, v in answer.items() if k != "uuid"}, pythons_tried=tried)
        say("test-gpu: %s, PyTorch %s, %s" % (answer["name"], answer["torch"], python))
        self.get_programs(python)
        settings, same, note = self.machine.simulated(answer)
        if self.o.gpu:
            settings["CUDASIM_GPU"], same, note = self.o.gpu, False, "simulated as %s with the memory of this device, as asked" % self.o.gpu
        self.results.update(simulated_as=note, simulated_settings=settings, same_device=same, machine=self.machine.facts())
        self.results["machine"]["used_before"] = self.machine.used()
        say("test-gpu: " + note)
        self.ways = runner.Ways(self.programs, python, settings, visible, stand_in)
        self.choose_folder(page.slug(answer["name"]))
        return True

    def get_programs(self, python):
        self.programs = builds.get(steps.ROOT, python, self.scratch, self.o.build, self.limit_of(240) or LEAST)
        self.results["build"] = dict(self.programs)
        if self.programs.get("memtrace"):
            done = runner.execute([self.programs["memtrace"], "--version"], runner.clean(), self.scratch, 30)
            self.results["build"]["version"] = done["stdout"].strip()
        for what in self.programs["missing"]:
            say("test-gpu: missing: " + what)
            self.results["not_run"].append(["building", "missing: " + what])
        for part, lost in (("recorder", "no traces: PyTorch's counters only"), ("simulator", "no comparison with the simulated device"),
                           ("memtrace", "the commands are not tried")):
            if part not in self.programs:
                say("test-gpu: no %s: %s" % (builds.PARTS[part], lost))
                self.results["not_run"].append([builds.PARTS[part], lost])

    def choose_folder(self, name):
        for folder in (self.o.out, os.path.join(steps.ROOT, "docs", "gpu"), os.getcwd(), tempfile.gettempdir()):
            try:
                if folder:
                    os.makedirs(folder, exist_ok=True)
                    with tempfile.TemporaryFile(dir=folder):
                        self.folder, self.name = folder, name
                        return
            except OSError as error:
                say("test-gpu: %s cannot be written (%s)" % (folder, error))

    # ---- the steps

    def directory(self, *parts):
        return os.path.join(self.scratch, *(page.slug(p) for p in parts))

    def command(self, step):
        if step.name in self.o.fail:
            return step._replace(command=(step.command[0] + ".missing", *step.command[1:]))
        return step._replace(command=(*step.command, *small(step))) if self.o.small else step

    def lacks(self, step):
        return [m for m in step.needs if m not in self.results["python"].get("modules", [])]

    def cost(self):
        if self.o.no_cost or not self.programs.get("recorder"):
            return
        row, turns = (steps.SHORT_COST, 1) if self.o.small else (steps.COST, costs.TURNS)
        if not steps.chosen([row], self.o.only):
            return
        runs = costs.measure(self.ways, row, self.directory("cost"), self.limit_of, turns)
        self.results["cost"] = {"runs": runs, "summary": costs.summary(runs)}
        say("  cost: %s" % json.dumps(costs.summary(runs)))
        self.save()

    def one(self, step, way):
        """One run, or the reason that there is none."""
        limit = self.limit_of(step.limit)
        if limit is None:
            return {"status": "not started", "why": "no time was left"}
        directory = self.directory(step.name, way)
        before = self.machine.used() if way == runner.RECORDED else None
        found = runner.run(self.ways, way, self.command(step), directory, limit, self.stacks)
        if way == runner.RECORDED:
            found["base"] = {"before": before, "after": self.machine.settled(before)}
        if not self.o.keep:
            shutil.rmtree(directory, ignore_errors=True)
        return found

    def finished(self, name, way, run):
        with self.lock:
            if self.ended:
                return
            step = self.results["steps"][name]
            step[way] = run
            if all(step.get(w) for w in (runner.RECORDED, runner.SIMULATED)):
                try:
                    step["compare"] = compare.compare(step[runner.RECORDED], step[runner.SIMULATED])
                except Exception as error:  # of one step: the others go on
                    step["compare_error"] = "%s: %s" % (type(error).__name__, error)
                    self.results["not_run"].append(["comparing " + name, step["compare_error"]])
                say("  %-28s %s" % (name, outcome(step)))
            self.save()

    def simulate(self, step):
        try:
            run = self.one(step, runner.SIMULATED)
        except Exception as error:
            run = {"status": "failed", "why": "%s: %s" % (type(error).__name__, error)}
        self.finished(step.name, runner.SIMULATED, run)

    def both(self):
        """Every job: on the GPU one after the other, and meanwhile on simulated devices, some at a time."""
        rows = [("probe", s) for s in steps.chosen(steps.PROBES, self.o.only)] + [("job", s) for s in steps.chosen(steps.JOBS, self.o.only)]
        kept = []
        for kind, step in rows:
            if self.lacks(step):
                self.results["not_run"].append([step.name, "this Python lacks %s" % ", ".join(self.lacks(step))])
                continue
            kept.append(step)
            self.results["steps"][step.name] = {"kind": kind, "command": [os.path.basename(step.command[0]), *step.command[1:]],
                                                "settings": step.settings, runner.RECORDED: {}}
        pool = concurrent.futures.ThreadPoolExecutor(max(1, min(4, (os.cpu_count() or 2) // 3)))
        try:
            if self.programs.get("simulator"):
                for step in kept:
                    pool.submit(self.simulate, step)
            for step in kept:
                self.finished(step.name, runner.RECORDED, self.one(step, runner.RECORDED))
        except BaseException:
            pool.shutdown(wait=False, **({"cancel_futures": True} if sys.version_info >= (3, 9) else {}))
            raise
        pool.shutdown(wait=True)

    def run(self):
        self.cost()
        self.both()
        if not self.o.only or "commands" in self.o.only:
            self.results["product"] = product.run(self.ways, self.scratch, self.limit_of)
        if not self.o.small and not self.o.only:
            self.results["hook"] = costs.hook(self.ways, self.scratch, self.limit_of(120))
        self.results["complete"] = not any(r.get("status") == "not started" for s in self.results["steps"].values()
                                           for r in (s[runner.RECORDED], s.get(runner.SIMULATED) or {}))

    # ---- the results

    def save(self):
        """Both files as far as things are known; whole ones only, under their names."""
        if not self.folder:
            return
        self.results["seconds"] = round(time.monotonic() - self.began, 1)
        texts = {".json": json.dumps(self.results, separators=(",", ":"), default=str) + "\n"}
        try:
            texts[".md"] = page.write(self.results)
        except Exception as error:
            say("test-gpu: the page was not written: %s: %s" % (type(error).__name__, error))
        for ending, text in texts.items():
            path = os.path.join(self.folder, self.name + ending)
            with open(path + ".part", "w") as f:
                f.write(self.public(text))
            os.replace(path + ".part", path)

    def public(self, text):
        """Without the folders of this machine: the files are meant to be shown."""
        for folder, name in ((self.scratch, "SCRATCH"), (steps.ROOT, "."), (os.path.expanduser("~"), "~")):
            if len(folder) > 1:
                text = text.replace(folder, name)
        return text

    def close(self):
        if not self.o.keep:
            shutil.rmtree(self.scratch, ignore_errors=True)


def small(step):
    """Options that make a job small, for the tests of this program."""
    script = os.path.basename(step.command[0])
    if script == "train_gpt2.py":
        return "--layers", "2", "--width", "256", "--heads", "4", "--length", "256"
    if script in ("gpt.py", "hf.py"):
        return "--layers", "2", "--hidden", "256", "--heads", "4", "--seq", "256"
    return ()


def outcome(step):
    """One line for the terminal."""
    failed = ["%s: %s" % (w, (step[w].get("why") or step[w]["status"])[:150]) for w in (runner.RECORDED, runner.SIMULATED) if step[w]["status"] != "ok"]
    totals = step.get("compare", {}).get("totals", {})
    text = "  ".join("%s %s" % (q, page.difference(pair)) for q, pair in totals.items())
    bad = [c[0] for c in step[runner.RECORDED].get("checks") or [] if not c[3]]
    return text + (" RECORDER DIFFERS: " + ", ".join(bad) if bad else "") + ("  " + "; ".join(failed) if failed else "")


def count(results):
    """(passed, failed, skipped): recorder checks, runs on the GPU and commands. A difference of the simulated device is a finding, not a failure."""
    good = bad = 0
    for s in results["steps"].values():
        run = s[runner.RECORDED]
        for passed in [c[3] for c in run.get("checks") or []] + ([run["status"] in FINE] if run and run["status"] != "not started" else []):
            good, bad = good + bool(passed), bad + (not passed)
    for done in results["product"]:
        good, bad = good + (done["status"] == "ok"), bad + (done["status"] != "ok")
    return good, bad, len(results["not_run"]) + sum(s[runner.RECORDED].get("status") == "not started" for s in results["steps"].values())


def main(arguments=None):
    o = options(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    session = Session(o)
    try:
        if not session.prepare():
            say("test-gpu: skipped, there is no GPU here")
            say("0 passed, 0 failed, %d skipped" % len(steps.PROBES + steps.JOBS))
            return 0
        session.run()
    except (KeyboardInterrupt, Interrupted) as error:
        say("test-gpu: interrupted (%s): what is known is written" % error)
        session.ended = True
        runner.kill_all()
        session.results["not_run"].append(["the rest", "interrupted"])
    finally:
        session.save()
        session.close()
    if session.folder:
        say("test-gpu: " + os.path.join(session.folder, session.name + ".md"))
    good, bad, skipped = count(session.results)
    say("%d passed, %d failed, %d skipped" % (good, bad, skipped))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

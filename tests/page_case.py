"""What every page of `memtrace html` must show, in Chromium, offline: the figures of `report --json`, the moments of an independent replay."""
import json
import os
import random
import subprocess

import mtr
from browser import Page
from harness import BUILD, MEMTRACE, Case

OUT = os.path.join(BUILD, "page-shots")  # for people to look at
ALLOC, FREE = 1, 2
STATE = """async (event) => { memtrace.goTo(event); const d = document.getElementById("moment").dataset; return [Number(d.bytes), Number(d.blocks)]; }"""
DRAWN = "memtrace.page.timeline.drawn"


def replayed(trace, device, upto):
    """Bytes and blocks that are live after the first `upto` events of tensors."""
    live = {}
    for _, address, size, _, _, kind, on, *_ in trace.records():
        if on == device and kind in (ALLOC, FREE):
            if not upto:
                break
            upto -= 1
            if kind == ALLOC:
                live[address] = size
            else:
                del live[address]
    return sum(live.values()), len(live)


class PageCase(Case):
    """Pages of traces, and what they must show."""

    def html(self, *arguments, name="page.html"):
        path = os.path.join(self.dir, name)
        self.run_([MEMTRACE, "html", *arguments, "-o", path])
        return path

    def open(self, *arguments, **context):
        page = Page(self.html(*arguments), **context)
        self.addCleanup(page.close)
        return page

    def shots(self):
        os.makedirs(OUT, exist_ok=True)
        return OUT

    def made(self, job):
        """A job of make_traces."""
        subprocess.run([os.path.join(BUILD, "tests", "unit", "make_traces"), self.dir], check=True)
        return os.path.join(self.dir, job)

    def report(self, *arguments):
        return json.loads(self.run_([MEMTRACE, "report", "--json", *arguments]).stdout)

    def check_figures(self, page, rank):
        """Each figure of the table is a figure of the report, and none is missing."""
        shown = page.run('Object.fromEntries([...document.querySelectorAll("#facts [data-key]")].map((e) => [e.dataset.key, e.textContent]))')
        wanted = {"peak." + k: rank["peak"][k] for k in ("allocated_bytes", "reserved_bytes", "device_bytes")}
        wanted["peak.capacity"] = rank["device_memory_bytes"]
        for group in "by_category", "by_owner":
            wanted.update({"peak.%s.%s" % (group, k): n for k, n in (rank["peak"][group] or {}).items()})
        for i, oom in enumerate(rank["oom"]):
            wanted.update({"oom.%d.%s" % (i, k): oom[k] for k in oom if k.endswith("_bytes")})
        self.assertEqual(shown, {k: "unknown" if n is None else str(n) for k, n in wanted.items()})

    def check_peak(self, page, rank):
        """The moment of the peak, rebuilt from the events, has the report's bytes, blocks and categories."""
        page.press("p")
        found = page.run('[...Object.values(document.getElementById("moment").dataset)].map(Number)')
        self.assertEqual(found[1:], [rank["peak"]["allocated_bytes"], rank["peak"]["blocks"]])
        levels = page.run("(() => { const c = memtrace.page.current.category; return [...c.levels(c.peak())]; })()")
        self.assertEqual(levels, list(rank["peak"]["by_category"].values()))

    def check_device(self, page, rank):
        peak, owners = page.run("(() => { const o = memtrace.page.current.owner, t = memtrace.page.titles, p = o.peak(); return [p < 0 ? 0 : o.totalAt(p), "
                                "Object.fromEntries([...o.levels(p)].map((n, i) => [t.ownerKeys[i], n]).filter(([, n]) => n))]; })()")
        self.assertEqual(peak, rank["peak"]["device_bytes"])
        self.assertEqual(owners, {k: n for k, n in rank["peak"]["by_owner"].items() if n})

    def check_moments(self, page, path, device=0, count=20):
        """Moments drawn at random, and the peak: live bytes and blocks are those of a replay in Python, and the roots of both trees too."""
        trace = mtr.Trace(path)
        kinds = page.run("[...memtrace.page.current.data.kinds]")
        chosen = random.Random(20).sample(range(len(kinds)), min(count, len(kinds))) + [page.run("memtrace.page.current.category.peak()")]
        for event in sorted(set(chosen)):
            upto = sum(k in (ALLOC, FREE) for k in kinds[:event + 1])
            live = list(replayed(trace, device, upto))
            self.assertEqual(page.run(STATE, event), live, "event %d" % event)
            for key, selector in ("2", "#flame"), ("3", "#treemap-root"):
                page.press(key)
                self.assertEqual(page.run('Number(document.querySelector("%s").dataset.bytes)' % selector), live[0], "event %d" % event)
            page.press("1")
        page.press("4", "5", "1")

    def check_job(self, directory):
        page = self.open(directory)
        report = self.report(directory)["ranks"][page.run("memtrace.state.entry")]
        self.check_figures(page, report)
        self.check_peak(page, report)
        self.check_device(page, report)
        self.check_moments(page, report["trace"] if os.path.isabs(report["trace"]) else os.path.join(self.dir, report["trace"]), report["device"])
        self.assertEqual(page.errors, [])
        return page

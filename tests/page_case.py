"""What every page of `memtrace html` must show, in Chromium, offline: the figures of `report --json`, the moments of an independent replay."""
import collections
import itertools
import json
import os
import random
import subprocess

import mtr
import page_drawn as drawn
from browser import Page
from harness import BUILD, MEMTRACE, Case

OUT = os.path.join(BUILD, "page-shots")  # for people to look at
ALLOC, FREE, OOM = 1, 2, 3  # of the trace, and ALLOC and FREE of the page's events too
SEGMENT, SEGMENT_END, FAILURE = 3, 4, 6  # of the page's events
SEGMENT_KINDS, SEGMENT_ENDS = (5, 18), (6, 19)  # of the trace: device memory, and ranges that are mapped
NOWHERE = "(no "  # how a line without frames begins
STATE = """async (event) => { memtrace.goTo(event); const d = document.getElementById("moment").dataset; return [Number(d.bytes), Number(d.blocks)]; }"""
# What axe finds of a part of the page, or of all of it. Its whole answer, with what is well, takes longer to come here than to be found.
SERIOUS = """async (part) => (await axe.run(part || document, { resultTypes: ["violations"] })).violations
  .filter(({ impact }) => ["serious", "critical"].includes(impact)).map(({ id, nodes }) => [id, nodes.slice(0, 3).map((n) => n.html)])"""
DRAWN = "memtrace.page.timeline.drawn"


def size_text(size):
    """Bytes as the page writes them, of 1 MiB and more."""
    return "%.1f GiB" % (size / 2**30) if size >= 2**30 else "%.1f MiB" % (size / 2**20)


def replayed(trace, device, moments):
    """{moment: ({address: (bytes, stack)} of live blocks, {address: bytes} of the allocator's segments)} after so many events of each."""
    live, segments, blocks, ranges, found = {}, {}, 0, 0, {}
    wanted = collections.deque(sorted(moments))

    def keep():
        while wanted and wanted[0] == (blocks, ranges):
            found[wanted.popleft()] = dict(live), dict(segments)
    keep()
    for _, address, size, stack, _, kind, on, *_ in trace.records():
        if on != device:
            continue
        if kind == ALLOC:
            live[address] = size, stack
        elif kind == FREE:
            del live[address]
        elif kind in SEGMENT_KINDS and "/torch/lib/" in (trace.module(stack) or ""):
            segments[address] = size
        elif kind not in SEGMENT_ENDS or segments.pop(address, None) is None:
            continue
        blocks, ranges = blocks + (kind in (ALLOC, FREE)), ranges + (kind not in (ALLOC, FREE))
        keep()
    assert not wanted
    return found


def holes_of(segments, live):
    """Segments, largest first, those side by side as one: [address, bytes, [(address, bytes) of its blocks]]."""
    found = []
    for address, size in sorted(segments.items()):
        if found and found[-1][0] + found[-1][1] == address:
            found[-1][1] += size
        else:
            found.append([address, size, []])
    for address, (size, _) in sorted(live.items()):
        for segment in found:
            if segment[0] <= address < segment[0] + segment[1]:
                segment[2].append((address, size))
    return sorted(found, key=lambda segment: -segment[1])


def largest_hole(segment):
    address, size, blocks = segment
    edges = [address, *[edge for at, n in blocks for edge in (at, at + n)], address + size]
    return max(after - before for before, after in zip(edges[::2], edges[1::2]))


def frames_of(trace, stack):
    """Frames as the page writes them, innermost first."""
    frames = ["%s %s:%d" % (function or "?", os.path.basename(file), line) if file else function or "?" for function, file, line in trace.stack(stack)]
    module = trace.module(stack)
    return tuple(frames) or ("(no Python stack) " + os.path.basename(module) if module else "(no stack)",)


def place_of(frames):
    """The frames, or NOWHERE if they do not say which code of the job allocated."""
    return NOWHERE if all(f.startswith(NOWHERE) or "eager_router registry.py" in f for f in frames) else tuple(frames)


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
        wanted = {"peak." + k: rank["peak"][k] for k in ("allocated_bytes", "reserved_bytes", "device_bytes")}
        wanted["peak.capacity"] = rank["device_memory_bytes"]
        for group in "by_category", "by_owner":
            wanted.update({"peak.%s.%s" % (group, k): n for k, n in (rank["peak"][group] or {}).items()})
        for i, oom in enumerate(rank["oom"]):
            wanted.update({"oom.%d.%s" % (i, k): oom[k] for k in oom if k.endswith("_bytes")})
        self.assertEqual(page.facts(), {k: "unknown" if n is None else str(n) for k, n in wanted.items()})

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

    def check_events(self, page, kinds, trace, device):
        """Each event of the device is in the page."""
        kinds = collections.Counter(kinds)
        there = collections.Counter(r[5] for r in trace.records() if r[6] == device)
        self.assertEqual([kinds[k] for k in (ALLOC, FREE, FAILURE)], [there[k] for k in (ALLOC, FREE, OOM)])
        self.assertIn(" of {:,},".format(sum(kinds.values())), page.run('document.getElementById("moment").textContent'))

    def check_moments(self, page, path, device=0, count=20):
        """Moments drawn at random, and the peak: live blocks and their stacks are those of a replay in Python, and what both trees have drawn too."""
        trace = mtr.Trace(path)
        kinds = drawn.read(page, drawn.KINDS)
        self.check_events(page, kinds, trace, device)
        peak = page.run("memtrace.page.current.category.peak()")
        chosen = sorted({*random.Random(20).sample(range(len(kinds)), min(count, len(kinds))), peak})
        blocks, ranges = ([*itertools.accumulate(k in wanted for k in kinds)] for wanted in ((ALLOC, FREE), (SEGMENT, SEGMENT_END)))
        after = {event: (blocks[event], ranges[event]) for event in chosen}
        states = replayed(trace, device, set(after.values()))
        for event in chosen:
            live, segments = states[after[event]]
            shown = drawn.read(page, drawn.MOMENT, event)
            with self.subTest(event=event):
                self.assertEqual(shown["live"], [sum(size for size, _ in live.values()), len(live)])
                self.check_stacks(trace, live, shown["rows"])
                self.check_trees(shown)
                wanted = holes_of(segments, live)
                self.check_segments(shown["segments"], wanted)
                if event == peak:
                    self.check_segment_pixels(page, wanted)
        page.press("5", "1")

    def check_stacks(self, trace, live, rows):
        """The rows of the stacks, each with its blocks. What has no Python stack may be shown under the forward pass that it belongs to."""
        sizes, wanted, shown = collections.Counter(), collections.Counter(), collections.Counter()
        for size, stack in live.values():
            sizes[stack] += size
        for stack, size in sizes.items():
            wanted[place_of(frames_of(trace, stack))] += size
        for size, _, _, name, _, frames in rows:
            shown[NOWHERE if name.startswith("backward of ") else place_of(frames)] += size
        self.assertEqual((wanted - shown, shown - wanted), ({}, {}))
        self.assertEqual(sum(row[1] for row in rows), len(live))

    def check_trees(self, moment):
        """The flame graph and the treemap have drawn the stacks' bytes."""
        rows = moment["rows"]
        size, frames = moment["flame"]
        wanted = drawn.flame_of(rows)
        self.assertEqual(size, sum(row[0] for row in rows))
        if rows:
            width = next(w for depth, _, _, w in frames if depth == 0)
            scaled = sorted((len(path) - 1, path[-1], width * size / wanted["all",]) for path, size in wanted.items())
            shown = sorted((depth, name, w) for depth, name, _, w in frames)
            certain = [f for f in scaled if f[2] > 1.01]
            self.assertEqual([f[:2] for f in shown if f[2] > 1.01], [f[:2] for f in certain])
            for there, one in zip((f for f in shown if f[2] > 1.01), certain):
                self.assertAlmostEqual(there[2], one[2], delta=0.01)
        size, rectangles = moment["treemap"]
        self.assertEqual(size, sum(row[0] for row in rows))
        self.check_areas(drawn.treemap_of(rows), rectangles)

    def check_areas(self, wanted, rectangles):
        """A category's part of the treemap, and a module's part of its category, are as large as their parts of the bytes, but for gaps and edges."""
        areas = {tuple(names): (w, h) for depth, names, w, h in rectangles if depth < 3}
        self.assertEqual(len(areas), len(rectangles))
        self.assertLessEqual({names for names in areas if len(names) == 2}, set(wanted))
        sizes = collections.Counter()
        for key, n in wanted.items():
            for depth in range(3):
                sizes[key[:depth]] += n
        for names, (width, height) in areas.items():
            if not names:
                continue
            whole = areas[names[:-1]]
            inner = whole[0] * whole[1] if len(names) == 1 else (whole[0] - 4) * (whole[1] - 22)  # without a category's edges, and the line of its name
            self.assertLessEqual(abs(width * height - inner * sizes[names] / sizes[names[:-1]]), 4 * (width + height) + 30, names)
        shown = sum(n for key, n in wanted.items() if key in areas)
        self.assertGreaterEqual(shown, 0.95 * sizes[()])

    def check_bars(self, shown, changes):
        """Each bar is the part of half a cell that its change is of the largest one."""
        most = max(1, *map(abs, changes.values()))
        for name, change in changes.items():
            self.assertAlmostEqual(shown[name], change / most, delta=0.01, msg=name)

    def check_segments(self, shown, wanted):
        """The segments' bytes, those of their blocks, and the largest hole."""
        used = sum(size for _, _, blocks in wanted for _, size in blocks)
        self.assertEqual(shown, [sum(s[1] for s in wanted), used, max(map(largest_hole, wanted), default=0)])

    def check_segment_pixels(self, page, wanted):
        """The pixels of the largest segments, which are shown: opaque in a block, clear in a hole."""
        for row, (address, size, blocks) in enumerate(wanted[:20]):
            line, = drawn.read(page, drawn.PIXELS, ["#segments", 0, 18 * row + 7, 0, 1])
            byte = wanted[0][1] / len(line)
            edges = [(address - 1, 0), *[(at, at + n) for at, n in blocks]]
            for x, (_, _, _, alpha) in enumerate(line):
                low, high = address + (x - 1.5) * byte, address + (x + 2.5) * byte
                inside = any(a <= low and high <= b for a, b in edges[1:])
                clear = high < address + size and low > address and all(high < a or b < low for a, b in edges[1:])
                if inside or clear or low > address + size + byte:
                    self.assertEqual(alpha > 0, inside, "segment %d, pixel %d" % (row, x))

    def check_axe(self, page, part=None):
        from axe_playwright_python.base import AXE_SCRIPT
        if not page.run("Boolean(window.axe)"):
            page.run(AXE_SCRIPT)
        self.assertEqual(drawn.read(page, SERIOUS, part), [], part)

    def check_rank(self, page, rank):
        self.check_figures(page, rank)
        self.check_peak(page, rank)
        self.check_device(page, rank)

    def check_job(self, directory):
        page = self.open(directory)
        self.check_whole_rank(page, self.report(directory)["ranks"][page.run("memtrace.state.entry")])
        return page

    def check_whole_rank(self, page, report):
        """A rank with every event in the page: its figures, its moments, and the stacks of its peak by category."""
        self.check_rank(page, report)
        self.check_moments(page, report["trace"] if os.path.isabs(report["trace"]) else os.path.join(self.dir, report["trace"]), report["device"])
        page.press("p")
        shown = collections.Counter()
        for size, _, category, *_ in drawn.read(page, drawn.ROWS):
            shown[category] += size
        titles = page.run("Object.fromEntries(memtrace.page.titles.categoryKeys.map((key, i) => [key, memtrace.page.titles.categories[i]]))")
        self.assertEqual(shown, {titles[key]: size for key, size in report["peak"]["by_category"].items() if size})
        self.assertEqual(page.errors, [])

"""What `memtrace html` draws, by mouse and by pixels: the timeline's bands, lines and marks, zoom and drag, the bars of changes, colours, licences."""
import bisect
import hashlib
import json
import os
import re

import mtr
import page_drawn as drawn
from harness import MEMTRACE, ROOT
from page_case import ALLOC, FREE, OOM, STATE, PageCase, size_text

RESERVED = 4


class Job:
    """The records of a made job with one process: times in milliseconds, and what is live after each event of a tensor."""

    def __init__(self, path):
        self.records = [r for r in mtr.Trace(path).records()]
        self.times = [r[0] / 1e6 for r in self.records]
        self.live, self.reserved = [], []
        live = reserved = 0
        for r in self.records:
            live += r[2] if r[5] in (ALLOC, FREE) else 0
            reserved = r[2] if r[5] == RESERVED else reserved
            self.live.append(live)
            self.reserved.append(reserved)

    def last(self, time):
        """The last record until a time."""
        return max(0, bisect.bisect_right(self.times, time) - 1)

    def between(self, values, first, last):
        """Least and most of a level between two times."""
        part = values[self.last(first):self.last(last) + 1]
        return min(part), max(part)


class HtmlDrawn(PageCase):
    def opened(self, kind="steps-out-of-memory"):
        """A page of a made job on its axis of time, the rank that it shows, and its records."""
        page = self.open(self.made(kind))
        page.page.select_option("#axis", "time")
        rank = self.report(self.made(kind))["ranks"][page.run("memtrace.state.entry")]
        return page, rank, Job(rank["trace"])

    def place(self, page, x, y=200, selector="#timeline"):
        page.page.locator(selector).scroll_into_view_if_needed()
        box = page.page.locator(selector).bounding_box()
        return box["x"] + x, box["y"] + y

    def click(self, page, x):
        page.page.mouse.click(*self.place(page, x))

    def test_bands_and_lines(self):
        """The bands are as high as what is live at a time; the lines are where reserved and device are. Also of a part of the trace."""
        page, rank, job = self.opened()
        page.press("p")
        for zoomed in range(2):
            x, y = drawn.Scale(page, "x"), drawn.Scale(page, "y")
            columns, highest, dashes = range(100, 1280, 29), [], 0
            for at in columns:
                column = drawn.column(page, "#timeline canvas", at)
                least, most = job.between(job.live, x.value_at(at - 1), x.value_at(at + 2))
                top = y.value_at(drawn.top_of_bands(column, y.pixel(0)))
                self.assertTrue(least + 2 * y.unit <= top <= most - 2 * y.unit, "at %d: %d is not between %d and %d" % (at, top, least, most))
                marked = [i for i, pixel in enumerate(column) if pixel[3]]
                highest.append(marked[0])
                dashes += any(abs(y.pixel(job.reserved[job.last(x.value_at(at))]) - i) < 2 for i in marked)
            if not zoomed:  # the part that is enlarged does not have the device's peak
                self.assertLess(abs(y.pixel(rank["peak"]["device_bytes"]) - min(highest)), 2.5)
            self.assertGreater(dashes, len(columns) * 0.4)
            self.assertLess(dashes, len(columns) * 0.9)  # the line of reserved is dashed
            page.press("+", "+")
        self.assertEqual(page.errors, [])

    def test_marks(self):
        """The peak, the failure, steps and phases are marked at their times, with their names."""
        page, rank, job = self.opened()
        scale = drawn.Scale(page, "x")
        peak = job.times[job.live.index(max(job.live))]
        failure, = [time for time, r in zip(job.times, job.records) if r[5] == OOM]
        wanted = [(peak, "peak 1.4 GiB"), (failure, "out of memory")]
        step = phase = None
        for start, number, name in rank["phase_starts"]:
            if (number, name) != (step, phase):
                wanted.append((job.times[job.last(start * 1e3 + 1e-6)], name if number == step else "step %d, %s" % (number, name)))
            step, phase = number, name
        lines, texts = (drawn.read(page, what, "#timeline") for what in (drawn.MARKS, drawn.TEXTS))
        self.assertEqual(len(lines), len(texts))
        self.assertEqual({text for _, text in wanted[:2]} - {text for _, text in texts}, set())
        for at, text in texts:
            times = [time for time, name in wanted if name == text]
            place = min((scale.pixel(time) for time in times), key=lambda p: abs(p + 3 - at))
            self.assertTrue(any(abs(line - place) < 0.6 and bad == (text == "out of memory") for line, bad in lines), text)
            self.assertTrue(abs(place + 3 - at) < 0.6 or at < place, text)  # beside its line, or to the left of it at the edge
        self.assertEqual([text for _, text in sorted(texts) if text.startswith("step")], ["step 1, setup"] + ["step %d, forward" % n for n in range(2, 6)])

    def test_clicks(self):
        """A click on a moment shows what is live then; one with Shift the difference from there."""
        page, _, job = self.opened()
        scale = drawn.Scale(page, "x")
        for i in range(6, len(job.times) - 1, 7):
            self.click(page, scale.pixel((job.times[i] + job.times[i + 1]) / 2))
            self.assertEqual(page.run('Number(document.getElementById("moment").dataset.bytes)'), job.live[i])
        page.page.keyboard.down("Shift")
        self.click(page, scale.pixel((job.times[20] + job.times[21]) / 2))
        page.page.keyboard.up("Shift")
        came, went = page.run('Object.values(document.getElementById("difference").dataset).map(Number)')
        self.assertEqual(came - went, job.live[20] - job.live[i])
        self.assertEqual(page.run('[...document.querySelectorAll("#view h3")].map((e) => e.textContent)'), ["Came", "Went"])
        self.assertEqual(page.errors, [])

    def test_wheel_and_drag(self):
        """The wheel enlarges what is under the mouse down to the single event; a drag moves what is visible and not the moment."""
        page, _, job = self.opened()
        for _ in range(4):
            at = round(drawn.Scale(page, "x").pixel(job.times[50]))  # a mouse is at a whole pixel
            page.page.mouse.move(*self.place(page, at))
            seen = page.run("memtrace.page.timeline.transform?.k ?? 1")
            for _ in range(4):
                page.page.mouse.wheel(0, -500)
            page.wait("memtrace.page.timeline.transform.k > %f" % (15.9 * seen))
        scale = drawn.Scale(page, "x")
        at = scale.pixel(job.times[50])
        self.assertLess(abs(scale.unit * 1300), 0.003)  # milliseconds; the next event is one away
        self.click(page, at + 20)
        self.assertEqual(page.run('Number(document.getElementById("moment").dataset.bytes)'), job.live[50])
        moment = page.run("memtrace.state.event")
        before = drawn.Scale(page, "x").value_at(600)
        page.page.mouse.move(*self.place(page, 600))
        page.page.mouse.down()
        page.page.mouse.move(*self.place(page, 800), steps=4)
        page.page.mouse.up()
        self.assertAlmostEqual(drawn.Scale(page, "x").value_at(800), before, 6)
        self.assertEqual(page.run("memtrace.state.event"), moment)
        self.click(page, drawn.Scale(page, "x").pixel(job.times[50]) - 20)
        self.assertEqual(page.run('Number(document.getElementById("moment").dataset.bytes)'), job.live[49])
        for _ in range(20):
            page.page.mouse.wheel(0, 500)
        page.wait("memtrace.page.timeline.transform.k === 1")
        self.assertEqual(page.errors, [])

    def test_clicks_in_trees(self):
        """A frame of the flame graph is enlarged by a click, a module of the treemap shows its blocks."""
        page, _, job = self.opened()
        page.press("p", "2")
        page.page.click('#flame g.frame[name^="AdamW._init_group"]')
        page.wait('[...document.querySelectorAll("#flame g.frame")].some((g) => g.getAttribute("name").startsWith("AdamW._init") && Number(g.getAttribute("width")) > 1200)')
        page.press("3")
        area = max((r for r in drawn.read(page, drawn.TREEMAP) if r[0] == 2), key=lambda r: r[2] * r[3])
        self.assertEqual(area[1][0], "optimizer states")
        page.page.mouse.click(*self.place(page, 150, 200, "#treemap"))
        page.wait("(%s)().some((r) => r[0] === 3)" % drawn.TREEMAP)
        blocks = [r for r in drawn.read(page, drawn.TREEMAP) if r[0] == 3]
        self.assertEqual(len(blocks), 16)  # of 24 MiB each, as make_traces writes them
        for _, _, width, height in blocks:
            self.assertAlmostEqual(width * height, blocks[0][2] * blocks[0][3], delta=0.1 * width * height)
        self.assertEqual(page.errors, [])

    def test_categories(self):
        """What each stack of the made job is for, at moments of every phase."""
        of = {"Module._apply module.py:900": "parameters", "AdamW._init_group adamw.py:4": "optimizer states", "Net.forward net.py:2": "activations",
              "DistributedDataParallel._ddp_init_helper distributed.py:11": "communication", "main train.py:10": "inputs"}
        page, _, job = self.opened("steps")
        seen = set()
        for event in range(5, page.run("memtrace.page.current.data.events"), 6):
            page.run("(event) => memtrace.goTo(event)", event)
            for _, _, category, name, _, frames in drawn.read(page, drawn.ROWS):
                wanted = "gradients" if name.startswith(("backward of ", "(no")) else of[frames[0]]
                self.assertEqual(category, wanted, (event, name))
                seen.add(category)
        self.assertEqual(seen, {"gradients", *of.values()})

    def test_bars_of_changes(self):
        """The bars of a comparison are as long as the changes of its items, to the right if B has more."""
        a, b = (self.made(kind) for kind in ("steps", "steps-out-of-memory"))
        page = self.open(a, b)
        items = json.loads(self.run_([MEMTRACE, "diff", "--json", a, b]).stdout)["items"]
        changes = {"%(kind)s.%(name)s" % i: i["b_bytes"] - i["a_bytes"] for i in items if i["kind"] != "config"}
        bars = drawn.read(page, drawn.BARS, "#diff [data-item]")
        for kind in {i["kind"] for i in items}:
            shown = {name: bar for name, bar in bars.items() if name.startswith(kind + ".")}
            self.check_bars(shown, {name: changes[name] for name in shown})
        self.assertGreater(sum(bar > 0 for bar in bars.values()), 3)
        self.assertTrue(page.run('document.getElementById("headline").textContent').endswith("; B ran out of memory"))
        self.assertEqual(page.errors, [])

    def test_patterns(self):
        """Every second band is hatched, and of two hatched ones beside each other in two directions."""
        page, _, _ = self.opened()
        names = page.run("memtrace.page.titles.categories")
        legend = page.run('[...document.querySelectorAll("#legend span:has(canvas)")].map((e) => e.textContent)')
        swatches = [(name, drawn.read(page, drawn.PIXELS, ["#legend span:nth-child(%d) canvas" % (n + 1), 0, 0, 0, 0])) for n, name in enumerate(legend)]
        self.assertGreater(len(swatches), 4)
        leans = set()
        for name, pixels in swatches:
            i = names.index(name)
            self.assertEqual(len({tuple(p) for row in pixels for p in row}) > 1, i % 2 == 1, name)
            if i % 2:
                # Along a diagonal of the swatch that lies with the hatching, colours vary least.
                spread = [sum(abs(pixels[y][x][c] - pixels[y + 1][x + step][c]) for y in range(1, 10) for x in range(1, 11) for c in range(3)) for step in (-1, 1)]
                leans.add((i % 4, spread[0] < spread[1]))
        self.assertEqual(leans, {(1, False), (3, True)})

    def colours(self, page, selector, x, y, width, height):
        """The colours of a part of a picture, the darkest first, which is the one that is hatched."""
        rows = drawn.read(page, drawn.PIXELS, [selector, x, y, width, height])
        return sorted({tuple(pixel[:3]) for row in rows for pixel in row}, key=sum)

    def test_patterns_in_pictures(self):
        """Blocks are hatched as their category in the legend is: in lifetimes and in the treemap."""
        page, _, _ = self.opened()
        names = page.run("memtrace.page.titles.categories")
        legend = page.run('[...document.querySelectorAll("#legend span:has(canvas)")].map((e) => e.textContent)')
        of = {self.colours(page, "#legend span:nth-child(%d) canvas" % (n + 1), 0, 0, 0, 0)[0]: name for n, name in enumerate(legend)}
        page.press("p", "5")
        bars = drawn.read(page, """() => echarts.getInstanceByDom(document.getElementById("lifetimes")).getZr().storage.getDisplayList(true)
          .filter((e) => e.type === "rect" && e.shape.height === 10 && e.shape.width > 60).map((e) => [e.shape.x, e.shape.y])""")
        seen = set()
        for x, y in bars:
            colours = self.colours(page, "#lifetimes canvas", x + 5, y + 2, 40, 6)
            seen.add(of[colours[0]])
            self.assertEqual(len(colours) > 1, names.index(of[colours[0]]) % 2 == 1, of[colours[0]])
        self.assertEqual(seen, {"parameters", "gradients", "optimizer states", "activations", "communication"})
        page.press("3", "f", "ArrowDown")
        shown, text = {}, None
        while text is None or text.split(":")[0] not in shown:
            if text:
                shown[text.split(":")[0]] = self.colours(page, "#treemap canvas", left + 10, bottom - 34, 24, 24)
                page.press("ArrowRight")
            text, left, bottom = drawn.read(page, """() => { const e = document.activeElement, b = e.getBoundingClientRect(), p = e.parentElement.getBoundingClientRect();
              return [e.getAttribute("aria-label"), b.left - p.left, b.bottom - p.top]; }""")
        self.assertEqual({name: len(colours) > 1 for name, colours in shown.items()}, {name: names.index(name) % 2 == 1 for name in shown})
        self.assertGreater(len(shown), 4)
        self.assertEqual(page.errors, [])

    def test_lifetimes(self):
        """Each of the largest blocks has a bar from its allocation to its end, on the axis of the timeline above it; of a part of it, those that live there."""
        page, _, job = self.opened("steps")
        born, lives = {}, []  # [bytes, allocated at, freed at]
        for time, r in zip(job.times, job.records):
            if r[5] == ALLOC:
                born[r[1]] = [r[2], time, float("inf")]
                lives.append(born[r[1]])
            elif r[5] == FREE:
                born.pop(r[1])[2] = time
        page.press("5")
        counts = []
        for _ in range(2):
            x = drawn.Scale(page, "x")
            left, right = 76, page.run('document.getElementById("timeline").clientWidth') - 14
            inside = sorted((life for life in lives if life[1] <= x.value_at(right) and life[2] > x.value_at(left)), key=lambda life: -life[0])
            least = inside[:80][-1][0]  # of those of this size, which are drawn is not said
            bars = drawn.read(page, drawn.LIFETIMES)
            self.assertEqual([text for text, _, _ in bars], [size_text(size) for size, _, _ in inside[:80]])
            wanted = [(size_text(size), max(left, x.pixel(begin)), right if end == float("inf") else min(right, x.pixel(end))) for size, begin, end in inside if size > least]
            shown = [(text, max(left, begin), min(right, end)) for text, begin, end in bars if text != size_text(least)]
            for bar, life in zip(sorted(shown), sorted(wanted)):
                for seen, meant in zip(bar[1:], life[1:]):
                    self.assertAlmostEqual(seen, meant, delta=1.5)
            counts.append((len(bars), len(shown)))
            page.run("memtrace.page.timeline.range(10.3, 31.7)")
        self.assertGreater(min(min(c) for c in counts), 10)
        self.assertNotEqual(*counts)
        page.page.select_option("#axis", "event")
        (text, begin, _), *_ = drawn.read(page, drawn.LIFETIMES)
        event = round(drawn.Scale(page, "x").value_at(begin))
        before, after = page.run(STATE, event - 1), page.run(STATE, event)
        self.assertEqual([text, after[0] - before[0]], ["192.0 MiB", 192 << 20])
        self.assertEqual(page.errors, [])

    def test_patterns_of_segments(self):
        """The blocks in a segment are hatched if their category is."""
        page, _, _ = self.opened()
        page.press("p")
        for category, hatched in (2, False), (3, True), (4, False), (5, True):
            page.run("(category) => memtrace.page.current.data.blocks.category.fill(category)", category)
            page.press("1", "4")
            row, = drawn.read(page, drawn.PIXELS, ["#segments", 0, 7, 0, 1])
            colours = {tuple(pixel) for pixel in row if pixel[3] == 255 and max(pixel[:3]) - min(pixel[:3]) > 40}
            self.assertEqual(len(colours) > 1, hatched, (category, colours))
        self.assertEqual(page.errors, [])

    def test_licences(self):
        """The licences of the embedded libraries are in the page in full."""
        page, _, _ = self.opened()
        page.run('document.querySelector("footer details").open = true')
        text = " ".join(page.run('document.querySelector("footer details").innerText').split())
        with open(os.path.join(ROOT, "LICENSE")) as f:
            self.assertIn(" ".join(f.read().split()), text)
        for holder in "2010-2023 Mike Bostock", "2010-2016 Mike Bostock", "2001 Robert Penner", "2002 Cynthia Brewer, Mark Harrower, and The Pennsylvania State University", \
                "2008-2012 Charles Karney", "2021 Mapbox", "Baidu Inc.", "Martin Spier":
            self.assertIn(holder, text)
        with open(os.path.join(ROOT, "tests", "setup.sh")) as f:
            pinned = re.findall(r"\.js ([0-9a-f]{64})$", f.read(), re.M)
        self.assertEqual(len(pinned), 3)
        scripts = {hashlib.sha256(text.encode()).hexdigest() for text in page.run("[...document.scripts].map((s) => s.textContent)")}
        self.assertLessEqual(set(pinned), scripts)  # as they were fetched
        self.assertEqual(page.run("[echarts.version, d3.version]"), ["6.0.0", "7.9.0"])
        self.assertIn("Apache ECharts Copyright 2017-2025 The Apache Software Foundation This product includes software developed at", text)  # its NOTICE
        self.assertEqual(page.errors, [])


if __name__ == "__main__":
    import unittest
    unittest.main()

"""The views of `memtrace html`: a search, two moments and a part of the timeline are shown by each of them."""
import os
import subprocess

import mtr
import page_drawn as drawn
from browser import Page
from harness import BUILD
from page_case import ALLOC, FREE, PageCase, size_text

FOUND, BLACK = [146, 70, 254], [0, 0, 0, 255]
RECTANGLES = '[...document.querySelectorAll("#flame rect")].filter((r) => getComputedStyle(r).fill === "rgb(146, 70, 254)").length'
# What has the focus in a picture: role, text, level, and its place in the picture: left, top, width, height.
FOCUSED = """() => { const e = document.activeElement, box = e.getBoundingClientRect(), picture = (e.closest(".picture") || e).getBoundingClientRect();
  return [e.getAttribute("role"), e.getAttribute("aria-label"), Number(e.getAttribute("aria-level")), box.left - picture.left, box.top - picture.top, box.width, box.height]; }"""
PICTURES = {"3": "#treemap canvas", "4": "#segments", "5": "#lifetimes canvas"}


def live_at(trace, upto):
    """{(address, number of its event): bytes} of what is live after the first `upto` events of tensors."""
    live, born = {}, {}
    events = (r for r in trace.records() if r[5] in (ALLOC, FREE) and r[6] == 0)
    for number, (_, address, size, _, _, kind, *_) in zip(range(upto), events):
        if kind == ALLOC:
            born[address] = number
            live[address, number] = size
        else:
            del live[address, born[address]]
    return live


class HtmlViews(PageCase):
    def search(self, page, text):
        page.page.fill("#search", text)
        self.assertEqual(page.run("memtrace.state.search"), text)
        page.press("Enter")  # without it the page waits whether more is typed

    def lit(self, page):
        """How much of each view is in the colour of what is found."""
        found = {"timeline": page.run(drawn.COLOURED, ["#timeline canvas", FOUND])}
        page.press("1")
        found["stacks"] = page.run('document.querySelectorAll("#view tr.found").length')
        page.press("2")
        found["flame"] = page.run(RECTANGLES)
        for key, canvas in PICTURES.items():
            page.press(key)
            found[canvas] = page.run(drawn.COLOURED, [canvas, FOUND])
        return found

    def test_search(self):
        """What is searched lights up in every view, and nothing does without a search."""
        page = self.open(self.made("steps"))
        page.press("p")
        self.assertEqual(set(self.lit(page).values()), {0})
        function = page.run("memtrace.page.current.data.tables.frames[memtrace.page.current.data.tables.stacks.find((s) => s.frames.length).frames[0]][0]")
        page.press("1")
        module = next(row[4] for row in drawn.read(page, drawn.ROWS) if row[4])
        for text in function, ">1KiB", "nn/modules/module.py", module:
            self.search(page, text)
            page.press("Escape")
            for view, amount in self.lit(page).items():
                if (text, view) != (module, "#segments"):  # in which the made job has no block of a module
                    self.assertGreater(amount, 0, (text, view))
        self.search(page, "no such name")
        page.press("Escape")
        self.assertEqual(set(self.lit(page).values()), {0})
        self.assertEqual(page.errors, [])

    def test_search_while_typing(self):
        """Of a text that is typed letter by letter the views are drawn once, behind the last letter; Enter does not wait."""
        page = self.open(self.made("steps"))
        page.run("""(() => { const { timeline } = memtrace.page, show = timeline.show; window.drawn = [];
          timeline.show = function (...all) { window.drawn.push(memtrace.state.search); return show.apply(this, all); }; })()""")
        page.press("/")
        page.page.keyboard.type("forward", delay=10)
        page.wait('!document.getElementById("found").hidden')
        page.page.wait_for_timeout(300)
        self.assertEqual(page.run("window.drawn"), ["forward"])
        self.assertIn("forward", page.run('document.getElementById("found").textContent'))
        page.page.keyboard.type("s")
        page.press("Enter")
        self.assertIn("forwards", page.run('document.getElementById("found").textContent'))
        self.assertEqual(page.errors, [])

    def test_search_adds_up(self):
        """The blocks of write_hostile(): eight of 1,024 bytes, three of whose names have "evil", and one of 4,096 bytes."""
        path = os.path.join(self.dir, "hostile.mtr")
        subprocess.run([os.path.join(BUILD, "bench", "make_page_trace"), path, "hostile", "0"], check=True)
        page = self.open(path)
        page.press("p")
        curve = "(() => { const { found } = memtrace.page.current; return found.totalAt(found.peak()); })()"
        for text, size, blocks in ("recursive", 4096, 1), ("deep.py", 4096, 1), ("evil", 3 * 1024, 3), (">2KiB", 4096, 1), ("<1KiB", 8 * 1024, 8), ("nothing", 0, 0):
            self.search(page, text)
            self.assertEqual(page.run('Object.values(document.getElementById("found").dataset).map(Number)'), [size, blocks], text)
            self.assertEqual(page.run(curve), size, text)
            self.assertEqual(page.run('document.querySelectorAll("#view tr.found").length'), blocks, text)
        self.search(page, "")
        self.assertTrue(page.run('document.getElementById("found").hidden'))
        self.assertEqual(page.errors, [])

    def test_ranks_as_a_grid(self):
        """Ranks lie on their parallel coordinates, are the darker the higher their peak is, and the one that is unlike its group is marked; so are those that failed."""
        for folder, events in (self.traces, 300), (os.path.join(self.dir, "longer"), 900):
            os.mkdir(folder)
            subprocess.run([os.path.join(BUILD, "bench", "make_job"), folder, "16", str(events)], check=True)
        odd = "rank00005.mtr"
        os.replace(os.path.join(self.dir, "longer", odd), os.path.join(self.traces, odd))
        report = self.report(self.traces)
        self.assertEqual([o["rank"] for o in report["job"]["outliers"]], [5])
        page = self.open(self.traces)
        read = """[...document.querySelectorAll("#ranks button")].map((b) => { const { left, top } = b.getBoundingClientRect();
          return [left, top, b.textContent, getComputedStyle(b).backgroundColor.match(/\\d+/g).reduce((sum, n) => sum + Number(n), 0), b.getAttribute("aria-label")]; })"""
        cells = page.run(read)
        self.assertEqual([text for _, _, text, _, _ in cells], ["◆" if rank == 5 else "" for rank in range(16)])
        places = [[sorted({cell[axis] for cell in cells}).index(cell[axis]) for axis in (0, 1)] for cell in cells]
        # Megatron numbers ranks by tp, then dp, then pp.
        self.assertEqual(places, [[rank // 4, rank % 2 * 2 + rank // 2 % 2] for rank in range(16)])
        peaks = [rank["peak"]["allocated_bytes"] for rank in report["ranks"]]
        light = dict(zip(peaks, (cell[3] for cell in cells)))
        self.assertEqual([light[peak] for peak in peaks], [cell[3] for cell in cells])
        self.assertEqual(sorted(light, key=light.get), sorted(light, reverse=True))
        self.assertIn(": %s allocated, %.0f %% of the highest rank, differs from its group" % (size_text(peaks[5]), 100 * peaks[5] / max(peaks)), cells[5][4])
        failed = self.open(self.made("steps-out-of-memory")).run(read)
        self.assertEqual([text for _, _, text, _, _ in failed], ["✕", "✕"])
        for cell in failed:
            self.assertIn(": 3.4 GiB of the device, 87 % of the device, out of memory", cell[4])  # 3,665,821,696 of 4,194,304,000 bytes
        self.assertEqual(page.errors, [])

    def test_two_moments(self):
        """What came and what went between two moments is in the stacks, the flame graphs and the treemaps; segments say what changed."""
        directory = self.made("steps")
        page = self.open(directory)
        tensors = [17, 31]  # before and within the first backward pass
        kinds = page.run("[...memtrace.page.current.data.kinds]")
        first, second = (next(e for e in range(len(kinds)) if sum(k in (ALLOC, FREE) for k in kinds[:e + 1]) == n) for n in tensors)
        trace = mtr.Trace(os.path.join(directory, sorted(os.listdir(directory))[0]))
        ends = [live_at(trace, upto) for upto in tensors]
        came = sum(size for key, size in ends[1].items() if key not in ends[0])
        went = sum(size for key, size in ends[0].items() if key not in ends[1])
        self.assertTrue(came and went)
        page.run("([first, second]) => { memtrace.goTo(first); memtrace.goTo(second, true); }", [first, second])
        for key in "12345":
            page.press(key)
            self.assertEqual(page.run('Object.values(document.getElementById("difference").dataset).map(Number)'), [came, went], key)
        for key, name in ("2", "flame"), ("3", "treemap-root"):
            page.press(key)
            self.assertEqual(page.run('["came", "went"].map((p) => Number(document.getElementById(`%s-${p}`).dataset.bytes))' % name), [came, went])
        page.press("4")
        change = page.run('Object.values(document.getElementById("segments-change").dataset).map(Number)')
        page.press("c")
        totals = [page.run("(event) => { memtrace.goTo(event); const { held, used } = document.getElementById('segments-text').dataset; return [Number(held), Number(used)]; }", e)
                  for e in (first, second)]
        self.assertEqual(change, [after - before for before, after in zip(*totals)])
        self.assertFalse(page.run('Boolean(document.getElementById("segments-change"))'))
        self.assertEqual(page.errors, [])

    def focused(self, page, path, sizes):
        """The place of the node that has the focus, which is that of a path of names, with its bytes in its text."""
        role, text, level, *box = drawn.read(page, FOCUSED)
        name, amount = text.split(", ")[0].rsplit(": ", 1)
        self.assertEqual([role, name, level], ["treeitem", path[-1], len(path)])
        self.assertEqual(amount, size_text(sizes[path]))
        self.assertIn(", %.1f %% of all" % (100 * sizes[path] / sizes[path[:1]]), text)
        self.assertEqual(page.run('[document.getElementById("tip").hidden, document.getElementById("tip").textContent]'), [False, text])
        self.assertNotEqual(page.run("getComputedStyle(document.activeElement).outlineStyle"), "none")
        return box

    def check_frame(self, page, path, sizes):
        """The focus is upon the frame of a path."""
        box = self.focused(page, path, sizes)
        frames = [f for f in drawn.read(page, drawn.FLAME) if f[0] == len(path) - 1 and f[1] == path[-1]]
        near = min(frames, key=lambda f: abs(f[2] - box[0]))
        for seen, wanted in zip(box, [near[2], 20 * near[0], near[3], 20]):
            self.assertAlmostEqual(seen, wanted, delta=0.6)
        return box

    def test_flame_by_keyboard(self):
        """The keyboard alone leads through the frames of a flame graph, each of which has the bytes of the stacks; Enter enlarges one, Escape leads back."""
        page = self.open(self.made("steps-out-of-memory"))
        page.press("p", "1")
        sizes = drawn.flame_of(drawn.read(page, drawn.ROWS))
        page.press("2", "f")
        whole = self.check_frame(page, ("all",), sizes)
        event = page.run("memtrace.state.event")
        inside = [("all",)]
        while len(inside) < 2:  # down to frames beside each other
            inside = sorted(path for path in sizes if path[:-1] == inside[0])
            page.press("ArrowDown")
            self.check_frame(page, inside[0], sizes)
        second = inside[1]
        page.press("ArrowRight")
        narrow = self.check_frame(page, second, sizes)
        page.press("ArrowLeft", "ArrowRight", "Enter")
        self.assertGreater(whole[2], narrow[2])
        self.assertAlmostEqual(self.check_frame(page, second, sizes)[2], whole[2], delta=0.6)
        page.press("Escape")
        self.assertEqual(self.check_frame(page, second, sizes), narrow)
        page.press("Enter", "Backspace", "ArrowUp")
        self.check_frame(page, second[:-1], sizes)
        self.assertEqual(page.run("memtrace.state.event"), event)  # the arrows are not those of the timeline
        self.check_axe(page, "#view")
        page.press("Tab")
        self.assertEqual(page.run('[document.activeElement.closest(".picture"), document.getElementById("tip").hidden]'), [None, True])
        page.press("?")
        self.assertIn("the flame graph or the treemap", page.run('document.getElementById("help").textContent'))
        self.assertEqual(page.errors, [])

    def test_treemap_by_keyboard(self):
        """The same of the modules of a treemap: the largest category, its module, and the blocks of that."""
        page = self.open(self.made("steps-out-of-memory"))
        page.press("p", "1")
        sizes = {}
        for (category, module), size in drawn.treemap_of(drawn.read(page, drawn.ROWS)).items():
            for path in ("all",), ("all", category), ("all", category, module):
                sizes[path] = sizes.get(path, 0) + size
        page.press("3", "f")
        self.focused(page, ("all",), sizes)
        category, module = (max((path for path in sizes if len(path) == n), key=sizes.get) for n in (2, 3))
        for path in category, module:
            page.press("ArrowDown")
            *_, width, height = self.focused(page, path, sizes)
            self.assertTrue(any(abs(w - width) + abs(h - height) < 1 for _, names, w, h in drawn.read(page, drawn.TREEMAP) if names == list(path[1:])), path)
        self.assertEqual({depth for depth, *_ in drawn.read(page, drawn.TREEMAP)}, {0, 1, 2})
        page.press("Enter")
        self.focused(page, module, sizes)
        page.wait("(%s)().some((r) => r[0] === 3)" % drawn.TREEMAP)
        blocks = [r for r in drawn.read(page, drawn.TREEMAP) if r[0] == 3]
        self.assertEqual(len(blocks), 16)  # of 24 MiB each, as make_traces writes them
        page.press("ArrowDown")
        block = drawn.read(page, FOCUSED)
        self.assertIn(": 24.0 MiB, ", block[1])
        self.assertTrue(any(abs(w - block[5]) + abs(h - block[6]) < 1 for _, _, w, h in blocks))
        page.press("Escape")
        self.focused(page, module, sizes)
        page.press("Escape")
        self.focused(page, category, sizes)
        page.wait("!(%s)().some((r) => r[0] === 3)" % drawn.TREEMAP)
        self.check_axe(page, "#view")
        page.run("memtrace.goTo(memtrace.state.event - 1, true)")  # the view is drawn anew: the focus stays in a picture
        self.assertEqual(drawn.read(page, FOCUSED)[0], "treeitem")
        self.assertEqual(page.run('[...document.querySelectorAll(".picture")].map((e) => e.getAttribute("aria-label").split(", ").pop())'), ["went"])
        self.assertEqual(page.errors, [])

    def test_the_part_that_is_shown(self):
        """The part of the axis is in the address, and the lifetimes are those of that part."""
        directory = self.made("steps")
        page = self.open(directory)
        page.press("p", "5")
        hint = 'document.querySelector("#view .hint").textContent'
        whole = page.run("[memtrace.page.timeline.x.domain(), location.hash.includes('zoom')]")
        before = page.run(hint)
        self.assertFalse(whole[1])
        page.press(*"++++++++")
        shown = page.run("memtrace.page.timeline.x.domain()")
        self.assertAlmostEqual((whole[0][1] - whole[0][0]) / (shown[1] - shown[0]), 256, 3)
        self.assertIn("zoom=", page.run("location.hash"))
        self.assertNotEqual(page.run(hint), before)
        again = Page(os.path.join(self.dir, "page.html"), page.run("location.hash"))
        self.addCleanup(again.close)
        for end in 0, 1:
            self.assertAlmostEqual(again.run("memtrace.page.timeline.x.domain()")[end], shown[end], 6)
        self.assertEqual(again.run(hint), page.run(hint))
        again.run("location.hash = location.hash.replace(/&?zoom=[^&]*/, '')")
        again.wait("!location.hash.includes('zoom') && memtrace.page.timeline.shownRange() === null")
        page.press("0")
        self.assertNotIn("zoom", page.run("location.hash"))
        self.assertEqual(page.run(hint), before)
        wrong = Page(os.path.join(self.dir, "page.html"), "#zoom=5,a&zoom=7")
        self.addCleanup(wrong.close)
        self.assertEqual(wrong.run("memtrace.page.timeline.shownRange()"), None)
        self.assertEqual(page.errors + again.errors + wrong.errors, [])

    def test_print(self):
        """Nothing of a print is cut: the report, its first paragraph, what changed, and the grid of ranks; also of 64 rows of them."""
        failed, steps = (self.made(job) for job in ("steps-out-of-memory", "steps"))
        cut = """["summary", "verdict", "diff", "ranks"].map((id) => document.getElementById(id))
          .filter((e) => e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1).map((e) => e.id)"""
        for jobs in [failed], [steps, failed]:
            page = self.open(*jobs)
            text = page.run('document.getElementById("verdict").textContent')
            for job in jobs:
                self.assertIn("memtrace html %s" % job, text)
            page.page.emulate_media(media="print")
            page.page.set_viewport_size({"width": 1047, "height": 718})  # the room of an A4 page in pixels of CSS
            self.assertEqual(page.run(cut), [])
            pdf = page.page.pdf(prefer_css_page_size=True)
            self.assertEqual(pdf.count(b"/Type /Page\n") or pdf.count(b"/Type /Page "), 2)
        page.run("""(() => { const grid = document.createElement("div"); grid.className = "grid"; grid.style.cssText = "display:grid;gap:2px;grid-auto-rows:22px;--rows:64";
          for (let i = 0; i < 64; i++) grid.append(document.createElement("button"));
          document.getElementById("ranks-box").hidden = false; document.getElementById("ranks").replaceChildren(grid); })()""")
        self.assertLessEqual(page.run('document.querySelector("#ranks .grid").getBoundingClientRect().height'), 24 / 25.4 * 96)
        self.assertEqual(page.errors, [])

    def test_print_of_a_dark_page(self):
        """A print is black on white, and its timelines are drawn for paper: their texts are neither wide nor narrow, their lines are black."""
        failed, steps = (self.made(job) for job in ("steps-out-of-memory", "steps"))
        for jobs in [failed], [steps, failed]:
            page = self.open(*jobs, color_scheme="dark")
            page.page.emulate_media(media="print", color_scheme="dark")
            page.page.set_viewport_size({"width": 1047, "height": 718})
            self.assertEqual(page.run('["color", "backgroundColor"].map((name) => getComputedStyle(document.body)[name])'), ["rgb(27, 31, 36)", "rgb(255, 255, 255)"])
            page.wait('[...document.querySelectorAll(".timeline:not([hidden]) canvas")].every((c) => c.width === 1047)')
            page.run('window.dispatchEvent(new Event("beforeprint"))')
            for place in ["#timeline", "#timeline-b"][:len(jobs)]:
                scales = page.run('(place) => { const { a, b, c, d } = document.querySelector(`${place} svg`).getScreenCTM(); return [a, b, c, d]; }', place)
                for scale, wanted in zip(scales, (1, 0, 0, 1)):
                    self.assertAlmostEqual(scale, wanted, delta=0.01)
                self.assertAlmostEqual(page.run("(place) => document.querySelector(`${place} canvas`).width", place), 2 * 1047, delta=2)
                self.assertGreater(page.run(drawn.COLOURED, [place + " canvas", BLACK]), 1000)
            page.page.emulate_media(media="screen", color_scheme="dark")
            page.wait('[...document.querySelectorAll(".timeline:not([hidden]) canvas")].every((c) => c.width < 1047)')
            page.run('window.dispatchEvent(new Event("afterprint"))')
            self.assertEqual(page.run(drawn.COLOURED, ["#timeline canvas", BLACK]), 0)
            self.assertEqual(page.errors, [])


if __name__ == "__main__":
    import unittest
    unittest.main()

"""The page of five jobs: out of memory, Megatron, expandable segments with fragmentation, 512 ranks, A against B; with figures, keys and axe."""
import base64
import json
import os
import shutil
import subprocess
import tempfile

import page_drawn as drawn
from browser import Page
from harness import BUILD, GPT2, JOBS, MEMTRACE, ROOT, python
from page_case import DRAWN, STATE, PageCase, size_text

FOCUS = "(() => { const e = document.activeElement; return e.id || e.parentElement.id || e.tagName; })()"
VIEWS = {"1": "#view table", "2": "#flame svg", "3": "#treemap canvas", "4": "#segments-text", "5": "#lifetimes canvas"}


# An image as 68 by 60 pixels.
SMALL = """async (address) => {
  const image = new Image();
  image.src = address;
  await image.decode();
  const c = new OffscreenCanvas(68, 60).getContext("2d", { willReadFrequently: true });
  c.imageSmoothingQuality = "high";
  c.drawImage(image, 0, 0, 68, 60);
  return [...c.getImageData(0, 0, 68, 60).data];
}"""


def bytes_of(path):
    with open(path, "rb") as f:
        return f.read()


class HtmlJobs(PageCase):
    jobs, pages, found = {}, {}, {}  # by name: the paths of its traces, its page, and what the report says

    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.mkdtemp(prefix="memtrace-jobs-")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.place, True)
        for kept in cls.jobs, cls.pages, cls.found:
            kept.clear()

    def job(self, name):
        """The traces of a job, which runs once for all tests."""
        if name not in self.jobs:
            self.traces = os.path.join(self.place, name)
            self.jobs[name] = getattr(self, "make_" + name)() or [self.traces]
        return self.jobs[name]

    def make_demo(self):
        """The failure of `make demo`."""
        self.simulate([python(), "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", GPT2], "--memory", "12GiB", "--gpus", "2", status=None,
                      OMP_NUM_THREADS=1)

    def make_megatron(self):
        job = [python(), "-W", "ignore", os.path.join(JOBS, "megatron_gpt.py"), *("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
               "--layers 4 --hidden 256 --heads 4 --seq 256 --steps 2").split()]
        self.simulate(job, "--world-size", "4", "--ranks", "0-3", OMP_NUM_THREADS=1)

    def make_expandable(self):
        self.simulate([python(), "-W", "ignore", os.path.join(JOBS, "diagnose_causes.py"), "fragmented"], "--memory", "3400MiB", status=None, OMP_NUM_THREADS=1,
                      PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")

    def make_ranks(self):
        os.mkdir(self.traces)
        subprocess.run([os.path.join(BUILD, "bench", "make_job"), self.traces, "512", "200"], check=True)

    def make_comparison(self):
        os.mkdir(self.traces)
        subprocess.run([os.path.join(BUILD, "tests", "unit", "make_traces"), self.traces], check=True)
        return [os.path.join(self.traces, name) for name in ("steps", "steps-out-of-memory")]

    def page_of(self, name, **context):
        """The page of a job, which is made once for all tests."""
        if name not in self.pages:
            self.pages[name] = self.html(*self.job(name), name=os.path.join(self.place, name + ".html"))
        page = Page(self.pages[name], **context)
        self.addCleanup(page.close)
        return page

    def reports(self, name):
        """The rank of each entry of the job's page."""
        if name not in self.found:
            found = [self.report(path)["ranks"] for path in self.job(name)]
            self.found[name] = found[0] if name != "comparison" else [ranks[0] for ranks in found]
        return self.found[name]

    def check_each_rank(self, page, ranks):
        for _ in ranks:
            entry = page.run("memtrace.state.entry")
            self.check_whole_rank(page, ranks[entry])
            self.next_rank(page, (entry + 1) % len(ranks))

    def next_rank(self, page, entry):
        page.press("n")
        page.wait("memtrace.state.entry === %d && memtrace.page.current === memtrace.page.shown.get(%d)" % (entry, entry))

    def test_out_of_memory(self):
        page = self.page_of("demo")
        self.assertGreater(page.run("memtrace.page.report.ranks[memtrace.state.entry].oom.length"), 0)
        self.check_each_rank(page, self.reports("demo"))
        directory, = self.job("demo")
        text = self.run_([MEMTRACE, "report", directory]).stdout
        self.assertIn(page.run('document.getElementById("summary").textContent').split("\n")[0], text)
        self.assertIn(" memtrace html %s\n" % directory, text)

    def test_megatron(self):
        """Tensor and pipeline parallelism: each of the four ranks."""
        page, ranks = self.page_of("megatron"), self.reports("megatron")
        self.assertEqual([r["rank"] for r in ranks], [0, 1, 2, 3])
        seats = page.run('[...document.querySelectorAll("#ranks button")].map((b) => b.getAttribute("aria-label"))')
        for rank, label in enumerate(seats):
            self.assertIn("tp %d" % (rank % 2), label)
            self.assertIn("pp %d" % (rank // 2), label)
        shown = ranks[page.run("memtrace.state.entry")]["peak"]
        self.assertGreater(shown["device_bytes"], 20 * shown["reserved_bytes"])  # NCCL's buffers
        self.assertLess(drawn.Scale(page, "y").value_at(22), 1.1 * shown["reserved_bytes"])  # the bands have the room
        self.assertIn("device, beyond the picture: up to %s" % size_text(shown["device_bytes"]), page.run('document.getElementById("legend").textContent'))
        self.check_each_rank(page, ranks)

    def test_expandable_segments(self):
        """Fragmentation in expandable segments: segments and holes are what the allocator says that it holds and uses."""
        page, ranks = self.page_of("expandable"), self.reports("expandable")
        self.check_each_rank(page, ranks)
        page.press("p", "4")
        held, used, hole = page.run('Object.values(document.getElementById("segments-text").dataset).map(Number)')
        self.assertGreater(page.run("memtrace.page.current.data.segments.length"), 20)  # ranges that are mapped one by one
        moment = page.run("(() => { const { reserved } = memtrace.page.current; return reserved.totalAt(reserved.changeAt(memtrace.state.event)); })()")
        self.assertEqual([held, used], [moment, ranks[0]["peak"]["allocated_bytes"]])
        self.assertGreater(hole, 0)

    def test_512_ranks(self):
        """The rank that the report shows and the lowest are whole; every other has its record and its curve."""
        page, ranks = self.page_of("ranks"), self.reports("ranks")
        self.assertEqual(page.run("memtrace.page.index.streams.length"), 2)
        cells = page.run('[...document.querySelectorAll("#ranks button")].map((b) => Number(b.dataset.bytes))')
        self.assertEqual(cells, [r["peak"]["device_bytes"] or r["peak"]["allocated_bytes"] for r in ranks])
        worst = page.run("memtrace.state.entry")
        self.check_whole_rank(page, ranks[worst])
        other, = (entry for entry in page.run("memtrace.page.index.streams.map((s) => s.entry)") if entry != worst)
        page.page.click('#ranks button[data-entry="%d"]' % other)
        page.wait("memtrace.state.entry === %d" % other)
        self.check_whole_rank(page, ranks[other])
        page.page.click('#ranks button[data-entry="77"]')
        page.wait("memtrace.state.entry === 77")
        self.check_figures(page, ranks[77])
        self.assertIn("--ranks 77", page.run('document.getElementById("missing").textContent'))
        self.assertEqual(page.run(DRAWN)["highestBand"], ranks[77]["peak"]["allocated_bytes"])
        self.assertIn("Every event of 2 of the 512 ranks", page.run('document.getElementById("footer").textContent'))
        page.run("memtrace.goTo(memtrace.page.current.category.peak())")
        self.assertIn("allocated %.1f MiB, " % (ranks[77]["peak"]["allocated_bytes"] / 2**20), page.run('document.getElementById("moment").textContent'))
        page.run('memtrace.page.report.ranks[78].timeline = []')  # as of a record that was too long for one
        page.page.click('#ranks button[data-entry="78"]')
        page.wait("memtrace.state.entry === 78")
        self.assertIn("nothing is drawn", page.run('document.getElementById("missing").textContent'))
        self.assertEqual(page.run("(() => { const c = memtrace.page.timeline.canvas; return [c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((n) => n), "
                                  "memtrace.page.timeline.svg.selectAll('*').size()]; })()"), [False, 0])
        page.press("n")
        page.wait("memtrace.state.entry === 79")
        self.assertEqual(page.run(DRAWN)["highestBand"], ranks[79]["peak"]["allocated_bytes"])
        self.assertEqual(page.errors, [])

    def test_comparison(self):
        """A against B: both timelines on one axis of steps, the items of `diff`, and each job's own figures."""
        a, b = self.job("comparison")
        page = self.page_of("comparison")
        items = [i for i in json.loads(self.run_([MEMTRACE, "diff", "--json", a, b]).stdout)["items"] if i["kind"] != "config"]
        shown = page.run('[...document.querySelectorAll("#diff [data-item]")].map((e) => [e.dataset.item, Number(e.dataset.a), Number(e.dataset.b)])')
        wanted = [["%(kind)s.%(name)s" % i, i["a_bytes"], i["b_bytes"]] for i in items if i["kind"] == "peak" or i["a_bytes"] or i["b_bytes"]]
        self.assertGreater(len(wanted), 10)
        self.assertEqual(sorted(shown), sorted(wanted))
        self.assertEqual(page.run('["canvas", "svg"].map((e) => document.querySelectorAll(`.timeline ${e}`).length)'), [2, 2])
        self.assertEqual(page.run("memtrace.state.axis"), "step")
        domains = page.run("memtrace.page.timelines.map((t) => t.x.domain())")
        self.assertEqual(domains[0], domains[1])
        self.assertTrue(self.run_([MEMTRACE, "diff", a, b]).stdout.endswith("\nnext        memtrace html %s %s\n" % (a, b)))
        self.assertNotIn("memtrace html", self.run_([MEMTRACE, "diff", a, a]).stdout)  # nothing to see
        for entry in 1, 0:
            self.check_side(page, entry, self.reports("comparison")[entry])
            page.press("+")
            self.assertEqual(*page.run("memtrace.page.timelines.map((t) => t.x.domain().join())"))
            self.next_rank(page, 1 - entry)
        self.assertEqual(page.errors, [])
        self.assertIn("one rank is compared", self.run_([MEMTRACE, "html", "--ranks", "0-1", a, b], status=2).stderr)
        ranks = os.path.join(os.path.dirname(a), "megatron")
        again = self.open(*[os.path.join(ranks, f) for f in sorted(os.listdir(ranks))[:2]])  # ranks of one job
        self.assertFalse(again.run("memtrace.page.index.compares"))

    def check_side(self, page, entry, rank):
        """A job of a comparison: its figures, its moments, and the step of an event by hand, from where the report says that steps begin."""
        self.assertEqual(page.run("[memtrace.state.entry, memtrace.page.report.ranks[%d].trace]" % entry), [entry, rank["trace"]])
        self.check_whole_rank(page, rank)
        steps = {step: start for start, step, _ in reversed(rank["phase_starts"]) if step}
        at = page.run("(() => { const c = memtrace.page.current.data, t = memtrace.page.timeline.axis; const e = c.events >> 1; return [c.times[e], t.position(e)]; })()")
        step = max(n for n in steps if steps[n] * 1000 <= at[0])
        if step + 1 in steps:
            self.assertAlmostEqual(at[1], step + (at[0] / 1000 - steps[step]) / (steps[step + 1] - steps[step]), 5)

    def test_by_keyboard(self):
        """Each of the five jobs, without a mouse: peak, failure, views, levels, axes, zoom, difference, search, ranks, the other job, the list of keys."""
        for name in "demo", "megatron", "expandable", "ranks", "comparison":
            with self.subTest(name):
                page, ranks = self.page_of(name), self.reports(name)
                entry = page.run("memtrace.state.entry")
                self.check_rank(page, ranks[entry])
                self.walk_moments(page, ranks[entry])
                self.walk_views(page)
                self.walk_timeline(page)
                if name == "comparison":
                    self.next_rank(page, 1 - entry)
                    self.check_rank(page, ranks[1 - entry])
                elif len(ranks) > 1:
                    self.walk_ranks(page, ranks)
                self.assertEqual(page.errors, [])

    def tab_to(self, page, place, most=60):
        """Presses the tabulator key until the focus is there: there is no trap on the way."""
        for _ in range(most):
            if page.run(FOCUS) == place or page.run('document.getElementById("%s")?.contains(document.activeElement)' % place):
                return
            page.press("Tab")
        self.fail("the tabulator key does not lead to %s" % place)

    def walk_moments(self, page, rank):
        """The failures one by one, with the report's live bytes; then the difference of two moments."""
        for oom in rank["oom"]:
            page.press("o")
            self.assertEqual(page.run("memtrace.page.current.data.kinds[memtrace.state.event]"), 6)
            self.assertEqual(int(page.run('document.getElementById("moment").dataset.bytes')), oom["allocated_bytes"])
        page.press("p")
        peak = page.run("memtrace.state.event")
        page.press("ArrowLeft", "ArrowLeft", "ArrowRight")
        self.assertEqual(page.run("memtrace.state.event"), peak - 1)
        page.press("c", "Shift+ArrowLeft")
        came, went = page.run('Object.values(document.getElementById("difference").dataset).map(Number)')
        moment = page.run("memtrace.state.event")
        page.press("c")
        before, after = page.run(STATE, peak - 1), page.run(STATE, moment)
        self.assertEqual(came - went, after[0] - before[0])

    def walk_views(self, page):
        for key, shown in VIEWS.items():
            page.press(key)
            self.assertTrue(page.run('Boolean(document.querySelector("%s"))' % shown), shown)
        page.press("1")
        self.tab_to(page, "search")
        page.press("/")
        function = page.run("memtrace.page.current.data.tables.frames[memtrace.page.current.data.tables.stacks.find((s) => s.frames.length).frames[0]][0]")
        page.page.keyboard.type(function)
        page.press("Escape", "p")
        self.assertIn("search=", page.run("location.hash"))
        self.tab_to(page, "tabs")
        page.press("Tab", "Enter")
        self.assertEqual(page.run("memtrace.state.view"), "flame")
        page.press("?")
        self.assertTrue(page.run('document.getElementById("help").open'))
        page.press("Escape")
        self.assertFalse(page.run('document.getElementById("help").open'))

    def walk_timeline(self, page):
        page.press("s")
        self.assertEqual(page.run("memtrace.state.stacked"), "owner")
        page.press("s", "a")
        whole = page.run("memtrace.page.timeline.x.domain()")
        page.press("+", "+", "+")
        first, last = page.run("memtrace.page.timeline.x.domain()")
        self.assertAlmostEqual((last - first) * 8 / (whole[1] - whole[0]), 1, 3)
        page.press("-", "0")
        self.assertEqual(page.run("memtrace.page.timeline.x.domain()"), whole)

    def walk_ranks(self, page, ranks):
        """With the arrows to the next rank of the grid, which Enter opens; the focus stays in the grid."""
        self.tab_to(page, "ranks")
        chosen = page.run("memtrace.state.entry")
        to = chosen + 1 if chosen + 1 < len(ranks) else chosen - 1
        page.press("ArrowRight" if to > chosen else "ArrowLeft", "Enter")
        page.wait("memtrace.state.entry === %d && memtrace.page.current === memtrace.page.shown.get(%d)" % (to, to))
        self.check_figures(page, ranks[to])
        page.wait("document.activeElement.dataset.entry === '%d'" % to)

    def test_accessible(self):
        """axe finds nothing serious on any of the five pages, in any view, light, dark and printed; each prints on two pages. The pictures stay for people."""
        for name in "demo", "megatron", "expandable", "ranks", "comparison":
            path = self.html(*self.job(name), name=name + ".html")
            for scheme in "light", "dark":
                with self.subTest(name, scheme=scheme):
                    self.check_scheme(path, name, scheme)

    def check_scheme(self, path, name, scheme):
        page = Page(path, color_scheme=scheme)
        self.addCleanup(page.close)
        self.assertEqual(page.run("getComputedStyle(document.body).backgroundColor"), {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 19, 24)"}[scheme])
        self.check_axe(page)
        page.shot(os.path.join(self.shots(), "%s-%s.png" % (name, scheme)), full_page=True)
        if name in ("demo", "comparison"):
            self.check_views(page, name, scheme)
        if scheme == "light":
            pdf = page.page.pdf(prefer_css_page_size=True)
            with open(os.path.join(self.shots(), name + ".pdf"), "wb") as f:
                f.write(pdf)
            self.assertEqual(pdf.count(b"/Type /Page\n") or pdf.count(b"/Type /Page "), 2)
            page.page.emulate_media(media="print")
            self.check_axe(page)
        self.assertEqual(page.errors, [])

    def check_views(self, page, name, scheme):
        """Each view, two moments compared, stacks that are opened, and the list of keys."""
        for view, shown in VIEWS.items():
            page.press(view)
            page.wait('Boolean(document.querySelector("%s"))' % shown)
            self.check_axe(page, "#view")
            if name == "demo":
                if shown.endswith("canvas"):
                    page.page.wait_for_timeout(500)  # the texts of a chart appear within half a second
                page.page.locator("#view").screenshot(path=os.path.join(self.shots(), "view-%s-%s.png" % (page.run("memtrace.state.view"), scheme)))
        page.press("1", "c", "Shift+ArrowLeft")
        page.run('document.querySelectorAll("details").forEach((d, i) => { if (i < 9) d.open = true; })')
        self.check_axe(page, "#view")
        page.press("c", "p", "?")
        self.check_axe(page, "#help")
        page.press("Escape")

    def test_picture(self):
        """The README's picture is the page of `make demo` as it is drawn now. PICTURE=FILE writes it there; `make picture` does."""
        page = self.open(*self.job("demo"), "--redact")
        path = os.path.join(self.shots(), "oom.png")
        end = page.run('document.getElementById("legend").getBoundingClientRect().bottom')
        page.shot(path, full_page=True, clip={"x": 0, "y": 0, "width": 1360, "height": round(end) + 16})
        kept = os.environ.get("PICTURE") or os.path.join(ROOT, "docs", "page.png")
        if os.environ.get("PICTURE"):
            shutil.copy(path, kept)
        # Fonts, the rank that failed first and times may differ a little.
        now, then = (page.run(SMALL, "data:image/png;base64," + base64.b64encode(bytes_of(file)).decode()) for file in (path, kept))
        self.assertLess(sum(abs(a - b) > 40 for a, b in zip(now, then)) / len(now), 0.03)


if __name__ == "__main__":
    import unittest
    unittest.main()

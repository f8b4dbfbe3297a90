"""The page of `memtrace html`: a spike, hostile names, lost records, an estimate, keys, outputs."""
import glob
import json
import os
import pickle
import subprocess

import page_drawn as drawn
from browser import Page
from harness import BUILD, GPT2, MEMTRACE, ROOT, python
from page_case import DRAWN, STATE, PageCase, size_text

GPT = dict(framework="nanogpt", arch="gpt", hidden_size=768, num_attention_heads=12, ffn_hidden_size=3072, vocab_size=50304, seq_length=1024,
           max_position_embeddings=1024, position_embedding_type="learned_absolute", normalization="LayerNorm", add_bias_linear=False, norm_bias=False,
           untie_embeddings_and_output_weights=False, swiglu=False, attention="eager", attention_mask_buffers=True, attention_dropout=0.0, hidden_dropout=0.0,
           precision="fp16-autocast", optimizer="adamw", clip_grad=0.0, optimizer_implementation="fused")  # examples/train_gpt2.py


class Html(PageCase):
    def test_ranks(self):
        directory = self.made("megatron")
        page = self.check_job(directory)
        ranks, shown = self.report(directory)["ranks"], page.run("memtrace.state.entry")
        for rank in (ranks[(shown + n) % len(ranks)] for n in (1, 2)):
            page.press("n")
            page.wait("memtrace.state.entry === %d && memtrace.page.current.data.entry === %d" % (rank["rank"], rank["rank"]))
            self.check_figures(page, rank)
            self.check_peak(page, rank)
        self.assertEqual(page.errors, [])

    def test_ranks_in_a_hurry(self):
        """Whoever is opened last is shown, also if its data are there first; what is chosen meanwhile is of the rank that is still shown."""
        directory = self.made("megatron")
        path = self.html("--ranks", "0,1", directory)
        ranks = self.report(directory)["ranks"]
        press = "for (const key of %s) document.dispatchEvent(new KeyboardEvent('keydown', { key }))"
        page = Page(path, "#entry=0")
        self.addCleanup(page.close)
        page.run(press % '["n", "n"]')  # rank 2 has its record only
        page.wait("memtrace.page.streams.has(1)")
        page.page.wait_for_timeout(50)
        self.assertEqual(page.run("[memtrace.state.entry, memtrace.page.current.isRecord, memtrace.page.shown.has(2)]"), [2, True, True])
        self.assertIn("no events", page.run('document.getElementById("moment").textContent'))
        page = Page(path, "#entry=0")
        self.addCleanup(page.close)
        page.run(press % '["n", "s", "ArrowRight"]')
        page.wait("memtrace.state.entry === 1")
        self.check_figures(page, ranks[1])
        self.check_peak(page, ranks[1])
        self.assertEqual(page.errors, [])

    def test_the_answer_first(self):
        """The headline is the failure or the highest peak, with the report's numbers; below it stands what the report says first. Both are in the page's data."""
        read = '["headline", "summary"].map((id) => document.getElementById(id).textContent)'
        failed, steps = (self.made(job) for job in ("steps-out-of-memory", "steps"))
        for job, begin in (failed, "OUT OF MEMORY, rank 0 of 2, step 7, forward"), (steps, "2 ranks, highest peak %s in tensors"), (self.page_trace("steps", 200), "peak %s in tensors"):
            page = self.open(job)
            headline, summary = page.run(read)
            self.assertEqual(headline, page.run("memtrace.page.index.headline"))
            peak = self.report(job)["ranks"][page.run("memtrace.state.entry")]["peak"]["allocated_bytes"]
            self.assertTrue(headline.startswith(begin % size_text(peak) if job != failed else begin), headline)
            verdict = page.run('document.getElementById("verdict").textContent')
            self.assertEqual(verdict, self.run_([MEMTRACE, "report", job], COLUMNS=100).stdout)
            self.assertTrue(verdict.startswith(summary))
            self.assertTrue(verdict.endswith(" memtrace html %s\n" % job))
            self.assertEqual(page.run("document.title"), "memtrace: " + headline)
        page = self.open(steps, failed)
        self.assertIn(page.run(read)[1], page.run('document.getElementById("verdict").textContent'))
        self.assertTrue(page.run(read)[1].startswith("A   "))
        self.assertEqual(page.errors, [])

    def test_a_rank_that_cannot_be_read(self):
        """Damaged events are said to be, with the trace and what to do; the page stays as it was, and the next rank is opened."""
        directory = self.made("megatron")
        path = self.html("--ranks", "0-2", directory)
        ranks = self.report(directory)["ranks"]
        page = Page(path, "#entry=0")
        self.addCleanup(page.close)
        blob = "document.getElementById(`b${memtrace.page.index.streams.find((s) => s.entry === 1).kinds}`)"
        page.run("(() => { const e = %s; window.whole = e.textContent; e.textContent = 'AAAA'; })()" % blob)
        page.press("n")
        page.wait('!(document.getElementById("failure")?.hidden ?? true)', 10)
        said = page.run('document.getElementById("failure").textContent')
        for part in "Rank 1 of %s cannot be shown" % ranks[1]["trace"], "memtrace html --ranks 1 %s" % ranks[1]["trace"], "rank 0 of %s" % ranks[0]["trace"]:
            self.assertIn(part, said)
        self.assertEqual(page.run("[memtrace.state.entry, document.getElementById('failure').getAttribute('role')]"), [0, "alert"])
        self.check_figures(page, ranks[0])
        self.check_axe(page, "#failure")
        page.press("n")
        page.wait("memtrace.state.entry === 2")
        self.check_figures(page, ranks[2])
        self.assertTrue(page.run('document.getElementById("failure").hidden'))
        page.run("(() => { %s.textContent = window.whole; })()" % blob)
        page.page.click('#ranks button[data-entry="1"]')
        page.wait("memtrace.state.entry === 1")
        self.check_peak(page, ranks[1])
        self.assertEqual(page.errors, [])

    def test_a_page_that_cannot_be_read(self):
        """The same of the rank that is opened first: the report stays."""
        directory = self.made("megatron")
        path = self.html("--ranks", "0", directory)
        page = Page(path)
        self.addCleanup(page.close)
        blob = page.run("String(memtrace.page.index.streams[0].kinds)")
        with open(path, encoding="utf-8") as f:
            text = f.read()
        begin = text.index(">", text.index('id="b%s"' % blob)) + 1
        with open(path, "w", encoding="utf-8") as f:
            f.write(text[:begin] + "AAAA" + text[text.index("<", begin):])
        page.page.goto("about:blank")
        page.page.goto("file://" + path + "#entry=0")
        page.wait('document.getElementById("wait").textContent.includes("cannot be shown")', 10)
        said = page.run('document.getElementById("wait").textContent')
        trace = self.report(directory)["ranks"][0]["trace"]
        self.assertIn("memtrace html --ranks 0 %s" % trace, said)

    def test_a_link_of_a_longer_trace(self):
        """Events that the trace does not have are not taken from the address."""
        path = self.html(self.made("steps"))
        page = Page(path, "#event=99999999&fixed=99999999")
        self.addCleanup(page.close)
        self.assertEqual(page.run("[memtrace.state.event < memtrace.page.current.data.events, memtrace.state.fixed]"), [True, None])
        page = Page(path, "#event=2&fixed=1")
        self.addCleanup(page.close)
        self.assertEqual(page.run("[memtrace.state.event, memtrace.state.fixed]"), [2, 1])
        self.assertEqual(page.errors, [])

    def test_an_address_in_an_open_page(self):
        """What the new address names is chosen, in the controls too; what it does not name is as when the page is opened."""
        page = self.open(self.made("steps"))
        controls = '["stacked", "axis", "search"].map((id) => document.getElementById(id).value)'
        first = page.run("memtrace.state"), page.run(controls)
        page.run('location.hash = "stacked=owner&axis=event&search=forward&view=flame&event=9&fixed=4&zoom=3,30"')
        page.wait("memtrace.state.event === 9")
        self.assertEqual(page.run(controls), ["owner", "event", "forward"])
        self.assertEqual(page.run("[memtrace.state.fixed, memtrace.state.view]"), [4, "flame"])
        page.run('location.hash = "event=12"')
        page.wait("memtrace.state.event === 12")
        self.assertEqual(page.run(controls), first[1])
        self.assertEqual(page.run("memtrace.state"), dict(first[0], event=12))
        self.assertEqual(page.run("[memtrace.page.timeline.shownRange(), document.querySelectorAll('tr.found').length]"), [None, 0])
        page.run('location.hash = ""')
        page.wait("memtrace.state.event === %d" % first[0]["event"])
        self.assertEqual(page.run("memtrace.state"), first[0])
        self.assertEqual(page.errors, [])

    def test_no_events(self):
        """A trace without events has no tip and takes no click."""
        page = self.open(self.page_trace("steps"))
        self.assertEqual(page.run("memtrace.page.current.data.events"), 0)
        page.page.hover("#timeline svg")
        page.page.click("#timeline svg")
        self.assertEqual(page.run('[document.getElementById("tip").hidden, document.getElementById("moment").textContent]'), [True, "The trace has no events."])
        self.assertEqual(page.errors, [])

    def check_match(self, page, rank, match, simulated=None):
        """Each term of the page is one of `match`: estimate, the simulation if there is one, and what the trace shows, which is the report's peak."""
        shown = page.run('Object.fromEntries([...document.querySelectorAll("#match [data-term]")].map((e) => [e.dataset.term, e.dataset.values]))')
        other = {t["id"]: t for t in simulated["terms"]} if simulated else {}

        def values(row, beside):
            middle = [str(beside["observed_bytes"])] if beside else [""] if simulated else []
            return " ".join([str(row["estimated_bytes"]), *middle, str(row["observed_bytes"])])

        wanted = {"total": values(match, simulated)}
        wanted.update({c["component"]: values(c, simulated and simulated["components"][i]) for i, c in enumerate(match["components"])})
        wanted.update({"term." + t["id"]: values(t, other.get(t["id"])) for t in match["terms"]})
        self.assertGreater(len(wanted), 10)
        self.assertEqual(shown, wanted)
        causes = page.run('[...document.querySelectorAll("#match-causes [data-cause]")].map((e) => [e.dataset.cause, e.dataset.values])')
        self.assertEqual(causes, [[c["key"], "%(gap_bytes)d %(off_bytes)d" % c] for c in match["causes"]])
        observed = {key: int(text.split()[-1]) for key, text in shown.items()}
        self.assertEqual(observed["total"], rank["peak"]["allocated_bytes"])
        self.assertEqual({c: observed.get(c, 0) for c in rank["peak"]["by_category"]}, rank["peak"]["by_category"])
        rows = {key: text.split() for key, text in wanted.items() if key != "total"}
        self.check_bars(drawn.read(page, drawn.BARS, "#match [data-term]"), {key: int(row[-1]) - int(row[0]) for key, row in rows.items()})

    def test_estimate(self):
        """Estimate and simulation term by term, with a second simulation beside them; a job that declares its model has the estimate unasked."""
        declared = dict(GPT, num_layers=2, micro_batch_size=2)
        config = os.path.join(self.dir, "declared.json")
        with open(config, "w") as f:
            json.dump(declared, f)
        second = os.path.join(self.dir, "second")
        for out, layers in (self.traces, 2), (second, 3):
            self.run_([MEMTRACE, "simulate", "-o", out, "--", python(), GPT2, "--layers", str(layers), "--batch", "2", "--steps", "2"], MEMTRACE_CONFIG=config,
                      OMP_NUM_THREADS=1)
        match, beside = (json.loads(self.run_([MEMTRACE, "match", "--json", path], status=None).stdout)["ranks"][0] for path in (self.traces, second))
        page = self.open(self.traces)
        self.check_match(page, self.report(self.traces)["ranks"][0], match)
        self.assertEqual(page.errors, [])
        page = self.open(second, "--simulated", self.traces, "--config", config)
        self.check_match(page, self.report(second)["ranks"][0], beside, match)
        self.assertEqual([(c["key"], c["declared"], c["value"]) for c in beside["causes"]][:1], [("num_layers", "2", "3")])
        redacted = self.open(second, "--redact", "--config", config)
        self.assertEqual(redacted.run("memtrace.page.parts.match.ranks.map((m) => m.causes)"), [[]])  # they name values of the command line
        self.assertIn("num_layers23", page.run('document.querySelector("#match-causes tbody").textContent'))
        self.assertIn("\nnext        memtrace html --config %s %s\n" % (config, second),
                      self.run_([MEMTRACE, "match", "--config", config, second], status=None).stdout)
        self.assertIn(" the peak of this run, which is simulated too: ", page.run('document.getElementById("match-text").textContent'))
        self.assertIn("does not match" if beside["verdict"] == "mismatch" else "It matches", page.run('document.getElementById("match-text").textContent'))
        self.assertEqual(page.errors, [])
        self.check_axe(page, "#match-box")
        page.page.locator("#match-box").screenshot(path=os.path.join(self.shots(), "match.png"))

    def test_steps_and_segments(self):
        self.check_job(self.made("steps"))

    def test_training(self):
        self.check_job(self.made("training"))

    def test_records(self):
        """A page of records has the report's figures, each rank's curve and the largest places at its peak, and says where the events are."""
        os.mkdir(self.traces)
        subprocess.run([os.path.join(BUILD, "bench", "make_job"), self.traces, "16", "300"], check=True)
        records = os.path.join(self.dir, "records.ndjson")
        with open(records, "w") as f:
            f.write(self.run_([MEMTRACE, "summarize", self.traces]).stdout)
        page, ranks = self.open(records), self.report(records)["ranks"]
        self.assertEqual(page.run("memtrace.page.index.streams.length"), 0)
        self.assertEqual(ranks[5]["peak"]["allocated_bytes"], max(point[1] for point in ranks[5]["timeline"]))
        page.page.click('#ranks button[data-entry="5"]')
        page.wait("memtrace.state.entry === 5")
        self.check_figures(page, ranks[5])
        places = page.run('[...document.querySelectorAll("#peak-places tbody tr")].map((r) => [r.children[0].title, r.children[3].textContent])')
        self.assertEqual(places, [["%d bytes" % s["bytes"], s["frame"]] for s in ranks[5]["peak"]["stacks"]])
        self.assertIn("html " + ranks[5]["trace"], page.run('document.getElementById("missing").textContent'))
        self.assertEqual(page.run(DRAWN)["highestBand"], ranks[5]["peak"]["allocated_bytes"])
        self.assertIn("The records of the ranks are in this file, without events", page.run('document.getElementById("footer").textContent'))
        self.assertEqual(page.errors, [])
        page.shot(os.path.join(self.shots(), "records.png"))
        for more in ("--ranks", "1"), ("--set", "num_layers=2"), ("--gpu", "H100"), ("--python", "p"), ("--env", "A=b"):
            said = self.run_([MEMTRACE, "html", records, *more, "-o", os.path.join(self.dir, "no.html")], status=2).stderr
            self.assertIn("records without events", said)

    def page_trace(self, kind, events=0):
        path = os.path.join(self.dir, kind + ".mtr")
        subprocess.run([os.path.join(BUILD, "bench", "make_page_trace"), path, kind, str(events)], check=True)
        return path

    def test_a_spike_of_one_event(self):
        """Of ten million events one block of 3 GiB lives for one: it is drawn with its height, from the whole trace down to that event. The page is small."""
        empty = os.path.getsize(self.html(self.page_trace("steps")))
        path = self.page_trace("steps", 10_000_000)
        page = self.open(path)
        self.assertGreaterEqual(page.run("memtrace.page.current.data.events"), 10_000_000)
        size = os.path.getsize(os.path.join(self.dir, "page.html"))
        self.assertLess(size, 20_000_000)
        self.assertLess(size - empty, 4_000_000)
        self.assertFalse(page.run("memtrace.page.index.streams[0].by_slot"))
        peak = page.run("memtrace.page.current.category.totalAt(memtrace.page.current.category.peak())")
        self.assertGreater(peak, 3 << 30)
        self.assertEqual(peak, self.report(path)["ranks"][0]["peak"]["allocated_bytes"])
        page.press("a")
        for zoom in range(24):
            self.assertEqual(page.run(DRAWN)["highestBand"], peak, "zoom %d" % zoom)
            page.press("+")
        first, last = page.run("memtrace.page.timeline.x.domain()")
        self.assertLess(last - first, 10)
        page.press("0", "a")
        self.assertEqual(page.run(DRAWN)["highestBand"], peak)
        self.assertEqual(page.errors, [])

    def test_a_worker_that_dies(self):
        """If a worker dies while it decodes, the page decodes by itself; the next time another worker does."""
        path = self.page_trace("steps", 400000)
        report = self.report(path)["ranks"][0]
        page = self.open(path)
        page.page.add_init_script("""window.started = 0; window.asked = [];
          window.Worker = class extends Worker { constructor(...all) { super(...all); window.started++; }
            postMessage(message, given) { window.asked.push(message.task); super.postMessage(message.task === window.deadly ? null : message, given); } };
          window.deadly = "blocks";""")
        page.page.reload()
        page.page.wait_for_selector("body[data-ready]")
        asked = ["blocks", "inflate", "inflate", "times"]
        self.assertEqual([page.run("window.started"), sorted(page.run("window.asked"))], [3, asked])
        self.check_peak(page, report)
        page.run("window.deadly = null; memtrace.page.streams.clear()")
        page.press("n")
        page.wait("memtrace.page.streams.size && memtrace.page.current === memtrace.page.streams.get(0)")
        self.assertEqual([page.run("window.started"), sorted(page.run("window.asked"))], [3, sorted(2 * asked)])
        self.check_peak(page, report)
        self.assertEqual(page.errors, [])

    def test_random_replacement(self):
        """Frees at random are named by the slot of their block, those of alike steps by its distance."""
        path = self.page_trace("random", 60000)
        page = self.open(path)
        self.assertTrue(page.run("memtrace.page.index.streams[0].by_slot"))
        self.check_peak(page, self.report(path)["ranks"][0])
        self.check_moments(page, path)
        self.assertEqual(page.errors, [])

    def test_hostile_names(self):
        path = self.page_trace("hostile")
        page = self.open(path)
        for view in "12345":
            page.press(view)
            page.page.wait_for_timeout(50)
        page.press("1")
        page.run('document.querySelectorAll("details").forEach((d) => { d.open = true; })')
        page.page.wait_for_timeout(50)
        shown = page.run('document.getElementById("view").textContent')
        for name in "</script><script>window.evil = 1</script>", "<img src=x onerror='window.evil = 2'>", "&lt;b&gt; -->", "${evil}", "not UTF-8", \
                "line\\u2028separator \\u2029", "\\u202eright to left\\u2066", "(904 outer frames are left out)":
            self.assertIn(name, shown)
        self.assertEqual([row[:2] for row in drawn.read(page, drawn.ROWS) if row[3:] == ["?  ?:1", "", ["?"]]], [[1024, 1]])  # whose name is empty
        everything = page.run("document.documentElement.outerHTML + JSON.stringify(memtrace.page.report) + JSON.stringify(memtrace.page.current.data.tables)")
        self.assertEqual({c for c in everything if c in "\u2028\u2029\u202e\u2066"}, set())
        rows = {row[0]: row for row in drawn.read(page, drawn.ROWS)}
        for size, name, frames in (4096, "recursive deep.py", []), (1536, "endless endless.py", ["(904 outer frames are left out)"]):
            self.assertEqual(rows[size][5], ["%s:%d" % (name, line) for line in range(4096)] + frames)
        stacks = {row["bytes"]: row["stack"] for row in self.report(path)["ranks"][0]["peak"]["stacks"]}
        self.assertEqual(stacks[4096].split(";"), ["recursive /job/deep.py:%d" % line for line in reversed(range(4096))])
        self.assertIsNone(page.run("window.evil ?? null"))
        self.assertEqual(page.errors, [])

    def test_lost_records(self):
        """Behind a gap the page has what the keyframe names; it says what is missing."""
        path = self.page_trace("gap")
        page = self.open(path)
        self.assertIn("1000 records", page.run('document.getElementById("missing").textContent'))
        self.check_peak(page, self.report(path)["ranks"][0])
        sizes = {i: (1 + i % 37) * 512 for i in (6, 7, 8, 9, 20, 30)}
        self.assertEqual(page.run(STATE, page.run("memtrace.page.current.data.events - 1")), [sum(sizes.values()), len(sizes)])
        self.assertEqual(page.errors, [])

    def test_a_truncated_trace(self):
        path = self.page_trace("steps", 20000)
        os.truncate(path, os.path.getsize(path) - 32 * 5000 - 7)
        page = self.open(path)
        report = self.report(path)["ranks"][0]
        self.assertTrue(report["warnings"])
        self.assertIn(report["warnings"][0], page.run('document.getElementById("missing").textContent'))
        self.check_peak(page, report)
        self.assertEqual(page.errors, [])

    def test_redacted(self):
        path = self.page_trace("hostile")
        page = self.open(path, "--redact")
        text = page.run("document.documentElement.outerHTML + JSON.stringify(memtrace.page.report) + JSON.stringify(memtrace.page.current.data.tables)")
        for secret in "testhost", "/job", self.dir, "window.evil = 3", "site-packages":
            self.assertNotIn(secret, text)
        self.assertIn("deep.py", text)
        self.assertEqual(page.errors, [])

    def test_redacted_folder(self):
        """The folder of the traces is nowhere, also if it was named from where the command runs; of one job and of two."""
        folder = "customer/secret project"
        os.makedirs(os.path.join(self.dir, folder))
        for job in "megatron", "steps", "steps-out-of-memory":
            os.rename(self.made(job), os.path.join(self.dir, folder, job))
        for jobs in (["megatron"], ["steps"], ["steps", "steps-out-of-memory"]):
            page = self.open("--redact", *[os.path.join(folder, job) for job in jobs])
            text = page.run("document.documentElement.outerHTML + JSON.stringify(memtrace.page.report) + JSON.stringify(memtrace.page.parts)")
            for word in "customer", "secret", "project/":
                self.assertNotIn(word, text)
            names = sorted(os.listdir(os.path.join(self.dir, folder, jobs[0])))
            self.assertEqual(page.run("memtrace.page.report.ranks[0].trace"), names[0])
            self.assertEqual(page.errors, [])

    def test_redacted_user(self):
        """A user whose name only the folder of a trace shows is named nowhere, neither in the trace's own name."""
        home = os.path.join(self.dir, "home", "carolina", "runs")
        os.makedirs(home)
        path = os.path.join(home, "of-carolina.mtr")
        os.rename(self.page_trace("steps", 200), path)
        page = self.open(path, "--redact")
        self.assertNotIn("carolina", page.run("document.documentElement.outerHTML + JSON.stringify(memtrace.page.report)"))
        self.assertIn(".mtr", page.run("memtrace.page.report.ranks[0].trace"))
        self.assertEqual(page.errors, [])

    def test_keys(self):
        page = self.open(self.made("steps"))
        page.press("p")
        peak = page.run("memtrace.state.event")
        page.press("ArrowRight", "ArrowRight", "ArrowLeft")
        self.assertEqual(page.run("memtrace.state.event"), peak + 1)
        page.press("c", "ArrowLeft", "ArrowLeft")
        shown = page.run('Object.values(document.getElementById("difference").dataset).map(Number)')
        before, after = page.run(STATE, peak + 1), page.run(STATE, peak - 1)
        self.assertEqual(shown[0] - shown[1], after[0] - before[0])
        page.press("c", "s", "/")
        page.page.keyboard.type("main")
        page.press("Escape", "1")
        self.assertGreater(page.run('document.querySelectorAll("tr.found").length'), 0)
        page.press("?")
        self.assertTrue(page.run('document.getElementById("help").open'))
        page.press("Escape")
        fragment = page.run("location.hash")
        again = Page(os.path.join(self.dir, "page.html"), fragment)
        self.addCleanup(again.close)
        self.assertEqual(again.run("memtrace.state"), page.run("memtrace.state"))
        self.assertEqual(page.errors + again.errors, [])

    def test_a_file_of_another_tool(self):
        """A snapshot does not tell the use of the device: there is no curve of it, and no owners. In its record neither."""
        events = [{"action": action, "addr": 1 << 28, "size": size, "stream": 0, "time_us": at, "frames": []}
                  for at, (action, size) in enumerate((("segment_alloc", 4 << 20), ("alloc", 3 << 20), ("oom", 1 << 40)), 1)]
        snapshot, record = (os.path.join(self.dir, name) for name in ("x.pickle", "record"))
        with open(snapshot, "wb") as f:
            pickle.dump({"segments": [], "device_traces": [events]}, f, protocol=4)
        with open(record, "w", encoding="utf-8") as f:
            f.write(self.run_([MEMTRACE, "summarize", snapshot]).stdout)
        for source in snapshot, record:
            page = self.open(source)
            self.check_figures(page, self.report(source)["ranks"][0])
            page.press("s")
            self.assertEqual(page.run("memtrace.state.stacked"), "category")
            self.assertTrue(page.run('document.querySelector("#stacked [value=owner]").disabled'))
            self.assertEqual(page.run("memtrace.page.current.owner.count"), 0)
            self.assertNotIn("device", page.run('document.getElementById("legend").textContent'))
            cards = page.run('[...document.querySelectorAll(".card")].map((c) => c.textContent)')
            self.assertEqual([c for c in cards if "device" in c], ["unknownpeak of the device"])
            self.assertEqual(page.run('[...document.querySelectorAll(".card.bad")].map((c) => c.textContent)'), ["out of memory1.0 TiB requested, unknown free"])
            if source == snapshot:
                self.assertIn("device unknown", page.run('document.getElementById("moment").textContent'))
            self.assertEqual(page.errors, [])
        page = self.open(self.made("steps"), snapshot)
        row = page.run('[...document.querySelectorAll(\'[data-item="peak.device"] td\')].map((c) => c.textContent)')
        self.assertEqual(row[1:3], ["unknown", ""])
        self.assertEqual(page.errors, [])

    def test_a_snapshot_of_a_deep_recursion(self):
        """PyTorch keeps all frames of a stack. All of them are in the list and in the flame graph, in which each can be enlarged."""
        frames = [{"name": "visit", "filename": "/job/tree.py", "line": line} for line in range(4096)]
        snapshot = os.path.join(self.dir, "deep.pickle")
        with open(snapshot, "wb") as f:
            pickle.dump({"segments": [], "device_traces": [[{"action": "alloc", "addr": 1 << 28, "size": 3 << 20, "stream": 0, "time_us": 1, "frames": frames}]]}, f, protocol=4)
        page = self.open(snapshot)
        names = ["visit tree.py:%d" % line for line in range(4096)]
        self.assertEqual(drawn.read(page, drawn.ROWS)[0][5], names)
        page.press("2")
        self.assertEqual(sorted((depth, name) for depth, name, *_ in drawn.read(page, drawn.FLAME)), list(enumerate(["all", *reversed(names)])))
        page.press("f", "ArrowDown", "Enter")
        self.assertEqual(page.run('document.querySelectorAll("#flame g.fade").length'), 1)
        page.page.click("#flame g.frame.fade")
        self.assertEqual(page.run('document.querySelectorAll("#flame g.fade").length'), 0)
        self.assertEqual(page.errors, [])

    def test_output(self):
        """Standard output, a place that cannot be written, and a trace that is none."""
        directory = self.made("steps")
        text = self.run_([MEMTRACE, "html", directory, "-o", "-"]).stdout
        self.assertTrue(text.startswith("<!doctype html>") and text.endswith("</html>\n"))
        self.assertIn("wrote memtrace.html", self.run_([MEMTRACE, "html", directory]).stderr)
        with open(os.path.join(self.dir, "memtrace.html"), encoding="utf-8") as f:
            self.assertEqual(f.read(), text)
        done = self.run_([MEMTRACE, "html", directory, "-o", "/nowhere/x.html"], status=2)
        self.assertIn("cannot write /nowhere/x.html", done.stderr)
        self.assertIn("needs a trace", self.run_([MEMTRACE, "html"], status=2).stderr)
        self.run_([MEMTRACE, "html", GPT2], status=2)
        self.assertIn("there is no rank 77 in the traces; they have ranks 0-7", self.run_([MEMTRACE, "html", "--ranks", "0,77", self.made("megatron")], status=2).stderr)
        for options in ("--config", "/nonexistent"), ("--set", "num_layers=2"), ("--env", "A=b"), ("--gpu", "H100"), ("--how", "formula"), ("--python", "p"), \
                ("--infer",), ("--simulated", "/nonexistent"):
            said = self.run_([MEMTRACE, "html", *options, directory, self.made("megatron")], status=2).stderr
            self.assertIn("a comparison, of %s and" % directory, said)
        for wrong in "a", "", "0-", "0,,1", "0,,", "0,", ",0", "3-1", "0-1-2", "-1", "0 1":
            said = self.run_([MEMTRACE, "html", "--ranks", wrong, self.made("megatron"), "-o", os.path.join(self.dir, "no.html")], status=2).stderr
            self.assertIn('--ranks: "%s" is not a list of ranks like 0,8-15' % wrong, said)
        self.assertIn('one rank is compared, not ""', self.run_([MEMTRACE, "html", "--ranks", "", directory, self.made("megatron")], status=2).stderr)

    def test_modules(self):
        """The unit tests of the page's code."""
        self.run_(["node", "--test", *sorted(glob.glob(os.path.join(ROOT, "tests", "page", "test_*.mjs")))])


if __name__ == "__main__":
    import unittest
    unittest.main()

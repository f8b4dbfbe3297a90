"""memtrace export: an option that a format would ignore is refused by name. What each format can have is written here, not read from the command."""
import os
import pickle
import subprocess
import unittest

from harness import BUILD, MEMTRACE, Case, MiB, alone

FORMATS = {"pytorch", "perfetto", "collapsed", "heaptrack", "sqlite", "ndjson", "csv", "prometheus"}
ACCEPT = {"--at": ("peak", {"pytorch", "collapsed"}), "--table": ("records", {"ndjson", "csv"}),
          "--device": ("0", {"pytorch", "collapsed", "heaptrack"})}


class Options(Case):
    def setUp(self):
        super().setUp()
        block = {"action": "alloc", "addr": 4096, "size": MiB, "stream": 0, "time_us": 1, "frames": []}
        with open(os.path.join(self.dir, "x.pickle"), "wb") as f:
            pickle.dump({"segments": [], "device_traces": [[block]]}, f, protocol=4)

    def test_each_option_with_each_format(self):
        for option, (value, accepting) in ACCEPT.items():
            for form in FORMATS:
                with self.subTest(option=option, form=form):
                    done = self.run_([MEMTRACE, "export", "--format", form, option, value, "-o", "out", "x.pickle"], status=0 if form in accepting else 2)
                    path = os.path.join(self.dir, "out")
                    self.assertEqual(os.path.exists(path), form in accepting)
                    if form in accepting:
                        os.remove(path)
                        continue
                    self.assertIn("%s is not for --format %s; it is for " % (option, form), done.stderr)
                    self.assertEqual(set(done.stderr.strip().rsplit("it is for ", 1)[1].split(", ")), accepting)

    def test_the_help_names_a_compressed_format(self):
        """The tools of a format that is gzip know it by the name of the file."""
        help = {line.split()[0]: line for line in self.run_([MEMTRACE, "export", "--help"]).stdout.splitlines() if line.split()[:1] and line.split()[0] in FORMATS}
        for form in FORMATS:
            with self.subTest(form=form):
                self.run_([MEMTRACE, "export", "--format", form, "-o", "out", "x.pickle"])
                with open(os.path.join(self.dir, "out"), "rb") as f:
                    is_gzip = f.read(2) == b"\x1f\x8b"
                self.assertEqual("gzip" in help[form] and ".gz" in help[form], is_gzip)
        self.assertEqual({form for form in FORMATS if "gzip" in help[form]}, {"heaptrack"})

    def test_a_file_is_replaced_as_a_whole(self):
        """By renaming: who has the old one open reads it to its end, and a failure leaves it."""
        for form in FORMATS:
            with self.subTest(form=form):
                path = os.path.join(self.dir, "out." + form)
                with open(path, "w", encoding="utf-8") as f:
                    f.write("old")
                with open(path, encoding="utf-8") as old:
                    self.run_([MEMTRACE, "export", "--format", form, "-o", path, "no-such-trace"], status=2)
                    with open(path, encoding="utf-8") as again:
                        self.assertEqual(again.read(), "old")
                    self.run_([MEMTRACE, "export", "--format", form, "-o", path, "x.pickle"])
                    self.assertEqual(old.read(), "old")
                    self.assertNotEqual(os.fstat(old.fileno()).st_ino, os.stat(path).st_ino)
        self.assertEqual({name for name in os.listdir(self.dir) if name != "x.pickle"}, {"out." + form for form in FORMATS})


@alone
class Large(Case):
    def test_ten_million_events(self):
        """At most 300 MB, and in `make test-all` 10 s of processor time. libsqlite3 takes most of that for all tables: `make bench` measures it."""
        path = os.path.join(self.dir, "large.mtr")
        subprocess.run([os.path.join(BUILD, "bench", "make_page_trace"), path, "random", str(10**7)], check=True)
        self.assertGreaterEqual(os.path.getsize(path), 32 * 10**7)    # bytes of a record
        for form in sorted(FORMATS - {"sqlite"}):
            with self.subTest(form=form):
                seconds, memory = self.used("export", "--format", form, "-o", "/dev/null", path)
                self.assertLess(memory, 300e6)
                if os.environ.get("ALL_JOBS"):
                    self.assertLess(seconds, 10)


if __name__ == "__main__":
    unittest.main()

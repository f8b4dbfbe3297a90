"""Data on which the host's decisions depend, on the simulated device: small kernels, object collectives, rows of experts, the two models of time."""
import os
import subprocess
import sys
import tracemalloc
import unittest.mock

from harness import JOBS, ROOT, SIM, Case, MiB, printed, python, torchrun

sys.path.append(os.path.join(ROOT, "analyzer", "simulate", "python"))
import memtrace_triton  # noqa: E402


class SmallKernels(Case):
    def check(self, version):
        done = self.run_([python(version), os.path.join(JOBS, "small_kernels.py")], status=None, LD_PRELOAD=SIM)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr[-2000:])
        self.assertIn("856 compared, 0 wrong", done.stdout)

    def test_newest(self):
        self.check("2.15")

    def test_older(self):
        for version in ("2.0", "2.1", "2.5", "2.7", "2.11") if os.environ.get("ALL_JOBS") else ("2.0",):
            with self.subTest(version):
                self.check(version)


class Objects(Case):
    def test_two_ranks(self):
        """Values of the job itself: lengths 10 + 100 * rank, a list of 30,000 integers from rank 1, the sum of 1 and 2."""
        done = self.simulate(torchrun(2, os.path.join(JOBS, "objects.py")), "--gpus", "2")
        lines = printed(done.stdout)
        self.assertEqual(len(lines), 2)
        for line in lines:
            rank = line["rank"]
            self.assertEqual(line["lengths"], [[0, 10], [1, 110]])
            self.assertEqual(line["said"], [1, "y", 30000])
            self.assertEqual(line["gathered"], None if rank else [["from", 0], ["from", 1]])
            self.assertEqual(line["own"], ["to", rank])
            self.assertEqual((line["total"], line["finite"]), (3.0, True))


class Routing(Case):
    """256 tokens, 2 of 8 experts and 4 of 16."""

    def rows(self, routing):
        done = self.simulate([python(), os.path.join(JOBS, "routing.py")], CUDASIM_ROUTING=routing)
        return printed(done.stdout, "model")

    def test_balanced(self):
        mixtral, qwen = self.rows("balanced")
        self.assertEqual(mixtral["rows"], [64] * 8)
        self.assertEqual(qwen["rows"], [64] * 16)

    def test_skewed(self):
        for line, experts, chosen in zip(self.rows("skewed"), (8, 16), (2, 4)):
            rows = line["rows"]
            self.assertEqual(len(rows), experts)
            self.assertEqual(sum(rows), 256 * chosen)
            self.assertEqual(rows, sorted(rows, reverse=True))
            self.assertGreater(rows[0], 4 * rows[-1])
            self.assertLessEqual(rows[0], 256)


class Drawn(Case):
    def test_order(self):
        """FlashInfer's documentation prints randn() of seed 42 on a GPU: 0.1940, 2.1614, -0.1721, 0.8491, -1.9244, 0.6530, -0.6494, -0.8175, 0.5280, -1.2753."""
        line, = printed(self.simulate([python(), os.path.join(JOBS, "drawn.py")]).stdout, "order")
        self.assertEqual(line["order"], [1, 3, 5, 8, 0, 2, 6, 7, 9, 4])
        self.assertEqual(line["least"], [4, 9])
        self.assertEqual(line["changed"], [0, 1, 2])

    def test_integers(self):
        """PyTorch prints rand() of seed 0 on a GPU as these (TensorRT-LLM's test of rand has them too). An integer is the same word, whose upper 32 bits
        they are, modulo the range: of 2^27 it leaves 32 times the number less its whole part, of 2^62 of two words 4 times the number."""
        reals = [0.3990, 0.5167, 0.0249, 0.9401, 0.9459, 0.7967, 0.4150, 0.8203, 0.2290, 0.9096]
        line, = printed(self.simulate([python(), os.path.join(JOBS, "drawn_integers.py")]).stdout, "parts")
        for got in line["parts"], line["spread"]:
            self.assertEqual(len(got), len(reals))
            for part, real in zip(got, reals):
                self.assertAlmostEqual(part, 32 * real % 1, delta=32 * 0.00005)
        for part, real in zip(line["wide"], reals):
            self.assertAlmostEqual(part, 4 * real % 1, delta=4 * 0.00005)
        self.assertEqual(line["between"], [0] * len(reals))  # the other column is left alone
        self.assertEqual(line["chosen"], [i for i, chosen in enumerate(line["mask"]) if chosen])
        self.assertIn(sum(line["mask"]), range(20, 45))


class Experts(Case):
    """16,384 tokens, 8 of 128 experts: each expert gets 16,384 * 8 / 128 = 1,024."""

    def test_every_count(self):
        for version in ("2.0", "2.5", "2.7", "2.15") if os.environ.get("ALL_JOBS") else ("2.15",):
            done = self.run_([python(version), os.path.join(JOBS, "experts.py")], LD_PRELOAD=SIM)
            lines = printed(done.stdout, "way")
            self.assertEqual(len(lines), 13)
            for line in lines:
                with self.subTest(version=version, way=line["way"]):
                    self.assertEqual(line["rows"], [128, 1024, 1024, 131072])


class NotComputed(Case):
    JOB = os.path.join(JOBS, "not_computed.py")

    def lines(self, done):
        return [line for line in done.stderr.splitlines() if line.startswith("cudasim:")]

    def test_one_line_and_a_warning(self):
        done = self.simulate(torchrun(2, self.JOB), "--gpus", "2")
        said = self.lines(done)
        self.assertEqual(len(said), 1, done.stderr)
        self.assertIn("the host reads what is not simulated", said[0])
        self.assertIn("FillFunctor<int>", said[0])
        warnings = [w for w in self.report()["ranks"][0]["warnings"] if w.startswith("simulated device: ")]
        self.assertEqual(len(warnings), 1)
        self.assertIn("FillFunctor<int>", warnings[0])

    def test_quiet(self):
        self.assertEqual(self.lines(self.simulate([python(), self.JOB], MEMTRACE_QUIET="1")), [])

    def test_nothing_to_say(self):
        done = self.simulate([python(), self.JOB, "small"])
        self.assertEqual(self.lines(done), [])
        self.assertIn("sum 1048576", done.stdout)


class Triton(Case):
    JOB = os.path.join(JOBS, "triton_kernels.py")

    def test_sizes_depend_on_kernels(self):
        """The job compares with what PyTorch counts on the CPU."""
        for version in ("2.8", "2.15") if os.environ.get("ALL_JOBS") else ("2.15",):
            with self.subTest(version):
                done = self.simulate([python(version), self.JOB])
                line, = printed(done.stdout, "tiles")
                self.assertEqual(line["tiles"], [line["wanted"], 1024])
                self.assertNotIn("cudasim:", done.stderr)

    def test_other_styles(self):
        """Each of seven kernels is right, or a line says that it is not computed: in Triton 3.1 (PyTorch 2.5) the interpreter is wrong with NumPy 2."""
        least = {"2.5": 0, "2.8": 5, "2.15": 7}
        for version in least if os.environ.get("ALL_JOBS") else ("2.15",):
            with self.subTest(version):
                done = self.simulate([python(version), os.path.join(JOBS, "triton_more_kernels.py")])
                right = [line["right"] for line in printed(done.stdout, "kernel")]
                self.assertEqual(len(right), 7, done.stderr)
                self.assertEqual(len([line for line in done.stderr.splitlines() if line.startswith("cudasim:")]), right.count(False), done.stderr)
                self.assertGreaterEqual(right.count(True), least[version], done.stderr)

    def test_reads_the_unknown(self):
        """If the host reads what cannot be computed, a line names the kernel."""
        done = self.simulate([python(), self.JOB, "unknown"])
        said = [line for line in done.stderr.splitlines() if line.startswith("cudasim:")]
        self.assertEqual(len(said), 1, done.stderr)
        self.assertIn("Triton kernel tile_offsets, which is not computed (it reads bytes of counts that the device does not know)", said[0])


class Answers(Case):
    def test_kept_bytes(self):
        """50 launches with other data, which write 2 MiB each, and the last of them again. The job's process holds 64 MiB of them."""
        asked = []

        def compute(data):
            asked.append(data)
            return [[(8, bytes([len(asked)]) * (2 * MiB))]]
        with unittest.mock.patch.object(subprocess, "Popen"):
            worker = memtrace_triton.Worker()
        worker.compute = compute
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        for i in range(50):
            worker.ask(("kernel", i))
        held = tracemalloc.get_traced_memory()[0]
        self.assertLess(held, 66 * MiB)
        self.assertGreater(held, 60 * MiB)
        self.assertEqual(worker.ask(("kernel", 49)), [[(8, b"\x32" * (2 * MiB))]])
        self.assertEqual(len(asked), 50)
        worker.ask(("kernel", 0))
        self.assertEqual(len(asked), 51)

    def test_an_answer_that_is_too_large_to_be_kept(self):
        with unittest.mock.patch.object(subprocess, "Popen"):
            worker = memtrace_triton.Worker()
        worker.compute = lambda data: [[(0, bytes(64 * MiB))]]
        self.assertEqual([len(worker.ask(("kernel", 0))[0][0][1]) for _ in range(2)], [64 * MiB] * 2)


class Recurrent(Case):
    def test_every_version(self):
        """cuDNN reported a reserve space of 736,000,000 bytes for the LSTM and of 864,000,000 for the GRU (PyTorch issue 2895). Beside it: the output, 250 * 100 * 320 * 4
        bytes, and each state, first and last, 4 * 100 * 320 * 4. The buffer of weights is the parameters."""
        for version in ("2.5", "2.7", "2.15") if os.environ.get("ALL_JOBS") else ("2.15",):
            done = self.run_([python(version), os.path.join(JOBS, "recurrent.py")], LD_PRELOAD=SIM)
            kept = printed(done.stdout, "kept")[0]["kept"]
            self.assertEqual(kept, {"LSTM": 736_000_000 + 32_000_000 + 4 * 512_000, "GRU": 864_000_000 + 32_000_000 + 2 * 512_000})
            lines = printed(done.stdout, "variant")
            self.assertEqual(len(lines), 39)
            for line in lines:
                with self.subTest(version=version, variant=line["variant"]):
                    self.assertTrue(line["alike"])
                    if line["bias"]:
                        self.assertEqual(line["buffer"], line["parameters"])


class Convolutions(Case):
    def test_planned(self):
        """The workspaces are those that the same cuDNN names when it is asked directly (cudnn_answers.py), for GPUs by their data sheets: compute capability, multiprocessors,
        shared memory of a block, L2, resident threads and blocks of a multiprocessor, clocks. Both have the driver's library: without one, cuDNN leaves out what it compiles."""
        for gpu, described in {"RTX-3090": (8, 6, 82, 101376, 6291456, 1536, 16, 1695, 9751), "A100-80GB": (8, 0, 108, 166912, 41943040, 2048, 32, 1410, 1593),
                               "H100-80GB": (9, 0, 132, 232448, 52428800, 2048, 32, 1980, 2619)}.items():
            with self.subTest(gpu):
                asked = self.run_([python(), os.path.join(JOBS, "cudnn_answers.py"), *map(str, described)], LD_PRELOAD=SIM)
                taken = self.run_([python(), os.path.join(JOBS, "convolutions_planned.py")], LD_PRELOAD=SIM, CUDASIM_GPU=gpu)
                wanted = printed(asked.stdout, "convolution")
                self.assertEqual(len(wanted), 18)
                self.assertEqual(printed(taken.stdout, "convolution"), wanted)
                self.assertNotIn("cudasim", taken.stderr)

    def test_attention(self):
        """cuDNN would compile a plan of attention for each new shape, in more than a thousand times what a call takes; its workspace is known before. The bytes are those of plans that cuDNN
        9.26 has finished."""
        for gpu, wanted in {"H100-80GB": [5259776, 5265920, 21037568], "A100-80GB": [7356928, 7363072, 29426176]}.items():
            with self.subTest(gpu):
                out = self.run_([python(), os.path.join(JOBS, "attention_planned.py")], LD_PRELOAD=SIM, CUDASIM_GPU=gpu).stdout
                self.assertLess(printed(out, "times")[0]["times"], 1500)
                self.assertEqual([line["bytes"] for line in printed(out, "shape")], wanted)

    def test_copies(self):
        """Where the job's cuDNN is older than 9.8, or CUDASIM_CUDNN_WORKSPACES=model. The output has 2 * 4 * 512 * 512 elements. In half precision and NCHW, the workspace has the input and the output with 8 channels, 2 * 8 * 512 * 512 elements
        each, and the filters, 4 * 8 * 3 * 3, in NHWC."""
        output, copies = 2 * 4 * 512 * 512, 2 * (2 * 8 * 512 * 512) + 4 * 8 * 3 * 3
        half = {"contiguous_format": 2 * (output + copies), "channels_last": 2 * output}
        for version in ("2.5", "2.7", "2.15") if os.environ.get("ALL_JOBS") else ("2.15",):
            done = self.run_([python(version), os.path.join(JOBS, "convolutions.py")], LD_PRELOAD=SIM, CUDASIM_CUDNN_WORKSPACES="model")
            found = {line["convolution"]: line["bytes"] for line in printed(done.stdout, "convolution")}
            self.assertEqual(found, {**{"%s %s" % (t, layout): size for t in ("bfloat16", "float16") for layout, size in half.items()},
                                     "float32 contiguous_format": 4 * output, "float32 channels_last": 4 * output})


class Time(Case):
    """A block used on another stream is reused only after the host waits (late), or at once (early); at the end two live blocks have 128 MiB in both."""

    def test_late_and_early(self):
        for streams, held in (("late", "128 128"), ("early", "64 128")):
            with self.subTest(streams):
                done = self.run_([python(), os.path.join(JOBS, "lent.py")], LD_PRELOAD=SIM, CUDASIM_STREAMS=streams)
                self.assertEqual(done.stdout.strip(), held)

"""The unmodified frameworks on the simulated device: every rank is traced, its peak equals PyTorch's own, and a second run gives the same.

PEAKS=FILE: each job's row of the table in docs/validation.md is written there.
"""
import os
import re
import tempfile
import time
import unittest

from harness import JOBS, LAZY_COMMUNICATORS, Case, python, torchrun, printed

SMALL = ["--layers", 4, "--hidden", 256, "--heads", 4, "--seq", 256, "--micro-batch", 2]
# name: ranks, job, its arguments. `make test` runs those in SAMPLE, `make test-all` runs all.
FRAMEWORKS = {
    "ddp": (2, "gpt.py", "--parallel ddp --clip 1"),
    "ddp_4_ranks": (4, "gpt.py", "--parallel ddp --accumulate 2"),
    "ddp_bucket_view": (2, "gpt.py", "--parallel ddp --bucket-view"),
    "fsdp1": (2, "gpt.py", "--parallel fsdp1 --clip 1"),
    "fsdp1_offload": (2, "gpt.py", "--parallel fsdp1 --offload --optimizer adamw"),
    "fsdp2": (2, "gpt.py", "--parallel fsdp2"),
    "fsdp2_4_ranks": (4, "gpt.py", "--parallel fsdp2 --recompute full"),
    "fsdp2_offload": (2, "gpt.py", "--parallel fsdp2 --offload --optimizer adamw"),
    "tensor_parallel": (2, "gpt.py", "--parallel tp"),
    "zero1": (2, "deepspeed_gpt.py", "--zero 1 --clip 1"),
    "zero2": (2, "deepspeed_gpt.py", "--zero 2"),
    "zero3": (2, "deepspeed_gpt.py", "--zero 3"),
    "zero3_4_ranks": (4, "deepspeed_gpt.py", "--zero 3 --accumulate 2"),
    "zero2_offload": (2, "deepspeed_gpt.py", "--zero 2 --offload"),
    "zero3_offload": (2, "deepspeed_gpt.py", "--zero 3 --offload"),
    "zero2_checkpoint": (2, "deepspeed_gpt.py", "--zero 2 --save {}"),
    "megatron_tp": (2, "megatron_gpt.py", "--tp 2"),
    "megatron_sp": (2, "megatron_gpt.py", "--tp 2 --sp --llama --kv-heads 2"),
    "megatron_pp": (2, "megatron_gpt.py", "--pp 2"),
    "megatron_interleaved": (2, "megatron_gpt.py", "--pp 2 --vpp 2"),
    "megatron_cp": (2, "megatron_gpt.py", "--cp 2 --llama"),
    "megatron_ep": (2, "megatron_gpt.py", "--ep 2 --experts 4 --llama"),
    "megatron_ep_tp": (4, "megatron_gpt.py", "--ep 2 --tp 2 --sp --experts 4 --llama"),
    "megatron_dp": (2, "megatron_gpt.py", "--overlap"),
    "megatron_plain_optimizer": (2, "megatron_gpt.py", "--no-dist-opt"),
    "megatron_recompute": (2, "megatron_gpt.py", "--tp 2 --recompute full"),
    "megatron_selective": (2, "megatron_gpt.py", "--pp 2 --recompute selective"),
    "megatron_tp_pp": (4, "megatron_gpt.py", "--tp 2 --pp 2 --sp"),
    "pipelining": (4, "pipeline.py", "--engine torch"),
    "deepspeed_pipeline": (4, "pipeline.py", "--engine deepspeed"),
    "trainer": (2, "hf.py", "--loop trainer --clip 1"),
    "trainer_checkpoint": (2, "hf.py", "--loop trainer --save {}"),
    "accelerate": (2, "hf.py", "--loop accelerate --dtype bf16"),
    "accelerate_fsdp": (2, "hf.py", "--loop accelerate --parallel fsdp"),
    "lora": (1, "hf.py", "--lora 8"),
    "lora_ddp": (2, "hf.py", "--lora 8 --recompute full"),
    "qwen2": (1, "hf.py", "--model qwen2"),
    "mixtral": (1, "hf.py", "--model mixtral --experts 8"),
    "scaler": (1, "gpt.py", "--dtype fp16 --scaler --clip 1"),
    "compile": (1, "gpt.py", "--compile"),
    "graphs": (1, "gpt.py", "--graphs --dtype bf16_pure"),
    "checkpoint": (1, "gpt.py", "--save {}"),
    "distributed_checkpoint": (2, "gpt.py", "--parallel fsdp2 --save {}"),
}
SAMPLE = ("megatron_tp_pp", "scaler", "graphs")
# Simulated rank by rank, each without the others, these jobs have exactly the same peaks.
ALONE = ("ddp", "fsdp1", "fsdp2", "tensor_parallel", "zero1", "zero2", "zero3", "megatron_tp_pp", "megatron_ep", "megatron_interleaved", "pipelining",
         "deepspeed_pipeline", "trainer", "accelerate_fsdp")
ALONE_SAMPLE = ("megatron_tp_pp",)
LLAMA_70B = ("--layers 80 --hidden 8192 --heads 64 --kv-heads 8 --ffn 28672 --vocab 128256 --seq 8192 --llama --attention sdpa --tp 8 --pp 4 --cp 2 "
             "--sp --accumulate 8 --steps 2")
PEAKS = ("max_memory_allocated", "max_memory_reserved", "peak_bytes", "tensors", "blocks")


def keep_row(name, job, peaks):
    """`peaks`: one for each rank; equal ranks are given once."""
    columns = (dict.fromkeys("%.1f" % (peak[key] / 2**20) for peak in peaks) for key in ("allocated_bytes", "reserved_bytes", "device_bytes"))
    if os.environ.get("PEAKS"):
        with open(os.environ["PEAKS"], "a") as f:
            print("| %s | `%s` | %d | %s |" % (name, job, len(peaks), " | ".join(map(" / ".join, columns))), file=f)


def lines(text):
    return {line["rank"]: line for line in printed(text)}


class Jobs(Case):
    ran = {}    # what the jobs of FRAMEWORKS printed that have run in another test

    def job(self, ranks, script, arguments, *options, traces="traces", version="2.15", **settings):
        """Runs a job with all of its ranks; returns {rank: its printed lines}."""
        self.traces = os.path.join(self.dir, traces)
        with tempfile.TemporaryDirectory() as saved:
            words = [w.format(saved) for w in arguments.split()] if isinstance(arguments, str) else list(map(str, arguments))
            command = ["-W", "ignore", os.path.join(JOBS, script), *map(str, SMALL), *words]
            command = [python(version), *command] if ranks == 1 else torchrun(ranks, *command[2:], version=version)
            self.saved = saved
            # what torch.compile has stored decides how much it tries, and other jobs of this machine store there too
            caches = {key: os.path.join(self.dir, "%s-of-%s" % (name, traces)) for key, name in (("TORCHINDUCTOR_CACHE_DIR", "inductor"), ("TRITON_CACHE_DIR", "triton"))}
            done = self.simulate(command, "--gpus", str(ranks), *options, **{**caches, **settings})
            self.saved_files = sum((files for _, _, files in os.walk(saved)), [])
        return lines(done.stdout)

    def alone(self, ranks, world, script, arguments, *options, traces="alone", **settings):
        """Runs some ranks of a job, each alone."""
        self.traces = os.path.join(self.dir, traces)
        command = [python(), "-W", "ignore", os.path.join(JOBS, script), *map(str, arguments)]
        done = self.simulate(command, "--ranks", ranks, "--world-size", str(world), *options, **settings)
        return lines(done.stdout)

    def communicators(self, entry):
        return sum(c["bytes"] for c in entry["communicators"])

    def nccl(self, entry):
        """The largest memory that NCCL held."""
        return sum(o["peak_bytes"] for o in entry["owners"] if o["owner"] == "nccl")

    def check_trace(self, printed, ranks, offloaded=False):
        """Each rank's trace has the peaks that PyTorch counted; Truth resets PyTorch's peak after the model is built, so ours may be higher."""
        entries = {e["rank"] or 0: e for e in self.report()["ranks"]}
        self.assertEqual(sorted(printed), list(range(ranks)))
        self.assertEqual(sorted(entries), sorted(printed))
        for rank, line in printed.items():
            with self.subTest(rank=rank):
                self.assertEqual(entries[rank]["end"], "exit")
                self.assertTrue(entries[rank]["simulated"])
                self.assertEqual(entries[rank]["peak"]["by_owner"].get("unexplained", 0), 0)
                self.assertEqual(self.communicators(entries[rank]), self.nccl(entries[rank]))
                self.assertGreaterEqual(entries[rank]["peak"]["allocated_bytes"], line["max_memory_allocated"])
                self.assertGreaterEqual(entries[rank]["peak"]["reserved_bytes"], line["max_memory_reserved"])
                if not offloaded:
                    self.assertGreater(line["tensors"]["parameters"], 0)


class Frameworks(Jobs):
    """One test for each row, created below."""

    def framework(self, name):
        ranks, script, arguments = FRAMEWORKS[name]
        first = self.job(ranks, script, arguments)
        self.check_trace(first, ranks, "--offload" in arguments)
        if "--save" in arguments:
            self.assertTrue(self.saved_files)
        entries = sorted(self.report()["ranks"], key=lambda e: e["rank"] or 0)
        keep_row(name, " ".join((script, arguments)).replace(" {}", " DIR"), [e["peak"] for e in entries])
        again = self.ran.get(name) or self.job(ranks, script, arguments, traces="again")
        for rank in first:
            self.assertEqual({k: first[rank][k] for k in PEAKS}, {k: again[rank][k] for k in PEAKS}, "rank %d" % rank)



class Alone(Jobs):
    def alone_as_together(self, name):
        ranks, script, arguments = FRAMEWORKS[name]
        together = self.ran[name] = self.job(ranks, script, arguments)
        alone = self.alone("all", ranks, script, [*SMALL, *arguments.split()], "--gpus", str(ranks), "--timeout", "300")
        self.check_trace(alone, ranks)
        for rank in together:
            self.assertEqual({k: alone[rank][k] for k in PEAKS[:1] + PEAKS[3:]}, {k: together[rank][k] for k in PEAKS[:1] + PEAKS[3:]})
            self.assertLess(abs(alone[rank]["max_memory_reserved"] / together[rank]["max_memory_reserved"] - 1), 0.1)

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_accelerate_launch(self):
        """accelerate launch is not run; its own code gives the environment of its worker."""
        launch = [os.path.join(os.path.dirname(python()), "accelerate"), "launch", "--num_processes", "4", "--mixed_precision", "bf16",
                  "--use_fsdp", "--fsdp_version", "2", "--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP"]
        done = self.simulate([*launch, os.path.join(JOBS, "hf.py"), "--loop", "accelerate", "--dtype", "fp32", *map(str, SMALL)], "--ranks", "3")
        line = lines(done.stdout)[3]
        self.assertEqual(line["elements"] * 4 // 4, line["tensors"]["parameters"])  # fp32, a quarter on this rank

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_expert_groups(self):
        """Skewed routing: an omitted rank needs no more than the rank that represents it; the simulated ranks have the same peaks as in the whole job."""
        arguments = ("--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 256 --micro-batch-size 2 "
                     "--expert-model-parallel-size 4 --experts 8 --llama")
        together = self.job(4, "megatron_gpt.py", arguments, CUDASIM_ROUTING="skewed")
        self.traces = os.path.join(self.dir, "alone")
        done = self.simulate([python(), "-W", "ignore", os.path.join(JOBS, "megatron_gpt.py"), *arguments.split()], "--deduplicate", "--world-size", "4",
                             "--gpus", "4", "--timeout", "300", CUDASIM_ROUTING="skewed")
        alone = {rank: line["max_memory_allocated"] for rank, line in lines(done.stdout).items()}
        self.assertEqual(sorted(alone), [0, 1, 3])
        self.assertEqual(alone, {rank: together[rank]["max_memory_allocated"] for rank in alone})
        self.assertLessEqual(together[2]["max_memory_allocated"], alone[1])
        self.assertLess(alone[3], alone[0])

    def test_steps(self):
        """--steps ends the job after two of its fifty steps, with a complete trace."""
        arguments = [*SMALL, "--parallel", "fsdp2", "--steps", 50]
        done = self.alone("1", 16, "gpt.py", arguments, "--steps", "2")
        self.assertEqual(done, {})  # the job did not reach its last line
        (entry,) = self.report()["ranks"]
        self.assertEqual((entry["rank"], entry["world_size"], entry["end"]), (1, 16, "exit"))
        short = self.alone("1", 16, "gpt.py", [*arguments[:-1], 2], traces="short")
        self.assertEqual(short[1]["max_memory_allocated"], entry["peak"]["allocated_bytes"])


ELEMENTS = 50304 * 256 + 256 * 256 + 4 * (12 * 256 * 256 + 2 * 256) + 256  # SMALL's GPT-2: embeddings, layers, last norm
TENSORS = 2 + 4 * 6 + 1


class ByHand(Jobs):
    """If a framework's states follow a formula, the trace equals it exactly."""

    def check(self, framework, parameters, gradients, states, ranks=2):
        name, *arguments = framework
        for line in self.job(ranks, name, arguments).values():
            self.assertEqual(line["elements"], ELEMENTS)
            self.assertEqual(line["tensors"]["parameters"], parameters)
            if gradients is not None:
                self.assertEqual(line["tensors"]["gradients"], gradients)
            self.assertEqual(line["tensors"]["optimizer_states"], states)

    def test_ddp(self):
        """All states on each rank; fused AdamW counts its steps on the device, 4 bytes for each tensor."""
        self.check(("gpt.py", "--parallel", "ddp"), 4 * ELEMENTS, 4 * ELEMENTS, 8 * ELEMENTS + 4 * TENSORS)

    def test_fsdp2(self):
        """Each tensor is divided along its first dimension, which is always a multiple of two."""
        self.check(("gpt.py", "--parallel", "fsdp2"), 4 * ELEMENTS // 2, 4 * ELEMENTS // 2, 8 * ELEMENTS // 2 + 4 * TENSORS)

    def test_zero1(self):
        """16-bit parameters are complete; fp32 masters, momentum and variance are divided by two."""
        self.check(("deepspeed_gpt.py", "--zero", "1"), 2 * ELEMENTS, None, 12 * ELEMENTS // 2)

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_zero3(self):
        for line in self.job(2, "deepspeed_gpt.py", "--zero 3").values():
            self.assertEqual(line["tensors"]["optimizer_states"], 12 * ELEMENTS // 2)

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_zero1_and_zero2(self):
        """With one micro-batch in a step, ZeRO-1 and ZeRO-2 have the same peak: in DeepSpeed 0.19.8 both copy each gradient into the same bucket as
        soon as it exists, and keep their own part of the reduced gradients (stage_1_and_2.py, reduce_ipg_grads and process_gradients). With
        several micro-batches, ZeRO-1 reduces at the last one only, and holds all 16-bit gradients until then."""
        peaks = {(stage, micro): self.job(2, "deepspeed_gpt.py", f"--zero {stage} --accumulate {micro}", traces=f"{stage}{micro}")[0]
                 for stage in (1, 2) for micro in (1, 3)}
        self.assertEqual(peaks[1, 1]["max_memory_allocated"], peaks[2, 1]["max_memory_allocated"])
        self.assertGreater(peaks[1, 3]["max_memory_allocated"], peaks[2, 3]["max_memory_allocated"])


@unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
class Torchtitan(Jobs):
    LAYERS, ROTARY = 6, 2048 * 8 * 8  # llama3_debugmodel's layers; positions, pairs of a head, complex64

    def train(self, traces):
        self.traces = os.path.join(self.dir, traces)
        command = torchrun(2, "-m", "torchtitan.train", "--module", "llama3", "--config", "llama3_debugmodel", "--training.steps", "3")
        done = self.simulate(command, "--gpus", "2", "--gpu", "H100-80GB", timeout=1800, HF_HUB_OFFLINE=1, HF_HOME=os.path.join(self.dir, "home"),
                             TORCHINDUCTOR_CACHE_DIR=os.path.join(self.dir, "inductor"), TRITON_CACHE_DIR=os.path.join(self.dir, "triton"),
                             TORCHINDUCTOR_COMPILE_THREADS=1)
        (size,) = set(re.findall(r"size: ([\d,]+) total parameters", re.sub(r"\x1b\[\d+m", "", done.stderr + done.stdout)))
        return int(size.replace(",", "")), {r["rank"]: r["peak"] for r in self.report()["ranks"]}

    def test_llama3_debugmodel(self):
        """torchtitan's own command, with flex attention, and with the training step in a CUDA graph. In the first run Triton compiles 18 kernels for
        each rank's attention, of which the autotuner chooses two; this takes a minute or two. Later runs use them. FSDP2 divides fp32 parameters by two."""
        self.run_([python(), os.path.join(JOBS, "titan_assets.py"), self.dir])
        self.train("first")
        (size, peaks), (_, again) = self.train("traces"), self.train("again")
        for key in ("allocated_bytes", "reserved_bytes", "by_category", "by_owner"):
            self.assertEqual([peaks[rank][key] for rank in (0, 1)], [again[rank][key] for rank in (0, 1)])
        keep_row("torchtitan", "torchtitan.train --config llama3_debugmodel", [peaks[rank] for rank in (0, 1)])
        for peak in peaks.values():
            self.assertEqual(peak["by_category"]["parameters"], 4 * size // 2)
            self.assertEqual(peak["by_category"]["buffers"], self.LAYERS * self.ROTARY)
            self.assertEqual(peak["by_owner"]["unexplained"], 0)


class Nccl(Jobs):
    """The report attributes NCCL's memory to NCCL, with the bytes of the table (preload/sim/nccl/nccl.def, from NCCL's source): nothing is unexplained."""
    STATE = (32 * 3 + 2) * 2 << 20  # three blocks of 2 MiB for each channel, and two of the communicator's
    RING = 24 * (10 + 2) << 20  # a receiver's and a sender's buffer for each channel, at the first collective

    def owner(self, ranks, gpu, arguments="--parallel ddp --steps 1"):
        self.job(ranks, "gpt.py", arguments, "--gpu", gpu, traces="%d-%s" % (ranks, gpu))
        entries = self.report()["ranks"]
        self.assertEqual(len(entries), ranks)
        self.assertEqual([e["peak"]["by_owner"]["unexplained"] for e in entries], [0] * ranks)
        (held,) = {e["peak"]["by_owner"]["nccl"] for e in entries}
        self.assertEqual([self.communicators(e) for e in entries], [held] * ranks)
        return held

    def test_ddp(self):
        self.assertEqual(self.owner(2, "A100-40GB"), self.STATE + self.RING)
        self.assertRegex(self.text(), r"484.0 MiB +\d+ %  NCCL \(modelled\)")
        self.assertRegex(self.text(), r"modelled .*NCCL 484.0 MiB, -338.\d MiB \+53.\d MiB")
        self.assertRegex(self.text(), r"484.0 MiB  rank \d of 2 ")

    def unused_groups(self, **env):
        command = torchrun(2, os.path.join(JOBS, "unused_groups.py"), "4")
        self.traces = os.path.join(self.dir, "lazy" if env else "eager")
        done = self.simulate(command, "--gpus", "2", "--gpu", "A100-40GB", status=1, **env)
        report = self.report()
        (used,) = set(re.findall(r"used (\d+)", done.stdout))
        (finding,) = [f for f in report["findings"] if f["rule"] == "NCCL_BUFFERS"][:1] or [{"remedies": []}]
        return int(used), [self.communicators(e) for e in report["ranks"]], " ".join(r["action"] for r in finding["remedies"])

    def test_groups_that_are_not_used(self):
        """PyTorch 2.15 creates the communicator of each group with the group. The remedy is tried: four communicators less."""
        eager, _, remedies = self.unused_groups()
        self.assertIn("TORCH_DIST_USE_NCCL2=0", remedies)
        lazy, held, _ = self.unused_groups(TORCH_DIST_USE_NCCL2=0)
        self.assertEqual(held, [self.STATE + self.RING] * 2)
        self.assertEqual(eager - lazy, 4 * self.STATE)

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_with_switches(self):
        """From Hopper on, three ranks of a node or more have NVLS in addition: a block for each of 24 channels and one of credits, and two buffers of 1 MiB on 16 channels for each rank."""
        self.assertEqual(self.owner(4, "A100-40GB"), self.STATE + self.RING)
        self.assertEqual(self.owner(4, "H100-80GB"), self.STATE + self.RING + ((25 * 2 + 4 * 16 * 2) << 20))

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_no_room(self):
        """The model fits and NCCL's buffers do not: PyTorch's error is NCCL's, and the trace names the request."""
        command = torchrun(2, os.path.join(JOBS, "gpt.py"), *map(str, SMALL), "--parallel", "ddp")
        done = self.simulate(command, "--gpus", "2", "--gpu", "A100-40GB", "--memory", "1080MiB", status=1)
        self.assertIn("no 301989888 bytes left on device", done.stderr)
        self.assertIn(self.RING, {oom["requested_bytes"] for e in self.report()["ranks"] for oom in e["oom"]})


class Published(Jobs):
    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_document_001(self):
        """The document measured 21.898 GiB at the peak and 2,064,403,456 bytes in the steady state, on an A100 with the PyTorch of its time. If the
        same loop also holds the model's output, its peak is higher by exactly that output: 2 bytes for each of 12 * 1024 * 50304 logits. Without the
        gaps between tensors and their blocks (6,855,368 bytes in the document, left in the cache's segments by evaluations and other work) the
        steady state equals the document's to the byte."""
        for version in ("2.0", "2.1"):
            self.traces = os.path.join(self.dir, version)
            done = self.simulate([python(version), os.path.join(JOBS, "seed001.py"), "--drop-logits"], "--gpu", "A100-40GB")
            parameters, peak, steady, gaps = map(int, done.stdout.split())
            self.assertEqual(parameters, 124373760)
            self.assertLess(abs(peak / 2**30 / 21.898 - 1), 0.0005)
            self.assertLess(abs(steady / 2064403456 - 1), 0.002)
        self.assertEqual(steady - gaps, 2064403456 - 6855368)
        held = self.simulate([python("2.1"), os.path.join(JOBS, "seed001.py")], "--gpu", "A100-40GB")
        self.assertLess(abs(int(held.stdout.split()[1]) - peak - 2 * 12 * 1024 * 50304), 4 << 20)

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_512_ranks_of_llama_70b(self):
        """Document 003's Llama-3-70B, TP 8, CP 2, PP 4, sequence 8192, on 512 GPUs: a rank of each kind of stage, alone. The document's
        formula for these stages (without buffers and fragmentation) gives 27.06, 22.94 and 17.70 GiB; in Table 6 this layout runs on 256 A100s with 40 GB."""
        started = time.monotonic()
        printed = self.alone("0,128,384", 512, "megatron_gpt.py", LLAMA_70B.split(), "--gpu", "A100-40GB", "--timeout", "180", "--jobs", "1")
        self.assertLess(time.monotonic() - started, 3 * 180)
        for rank, gib in ((0, 27.06), (128, 22.94), (384, 17.70)):
            peak = printed[rank]["max_memory_allocated"] / 2**30
            self.assertTrue(gib < peak < 1.15 * gib, "rank %d: %.2f GiB, document 003 says %.2f" % (rank, peak, gib))

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_document_003_runs_out_of_memory(self):
        """Table 6, (TP, CP, PP, MBS) = (8, 2, 4, 1) on 64 and 128 GPUs, (8, 2, 4, 2) on 256: the layouts that run on A100s with 40 GB."""
        for micro, gpus, end in ((1, 64, "oom"), (1, 128, "exit"), (2, 256, "oom")):
            with self.subTest(micro=micro, gpus=gpus):
                self.traces = os.path.join(self.dir, "%d-%d" % (micro, gpus))
                command = [python(), os.path.join(JOBS, "megatron_gpt.py"), *LLAMA_70B.split(), "--micro-batch", str(micro)]
                done = self.simulate(command, "--ranks", "0", "--world-size", str(gpus), "--gpu", "A100-40GB",
                                     status=int(end == "oom"), **LAZY_COMMUNICATORS)
                self.assertEqual("OutOfMemoryError" in done.stderr, end == "oom")
                self.assertEqual(self.report()["ranks"][0]["end"], end)


def make_tests():
    for name in FRAMEWORKS:
        def test(self, name=name):
            self.framework(name)
        test.__doc__ = "%s: %s" % (FRAMEWORKS[name][1], FRAMEWORKS[name][2])
        if name not in SAMPLE:
            test = unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")(test)
        setattr(Frameworks, "test_" + name, test)
    for name in ALONE:
        def alone(self, name=name):
            self.alone_as_together(name)
        if name not in ALONE_SAMPLE:
            alone = unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")(alone)
        setattr(Alone, "test_" + name, alone)


make_tests()

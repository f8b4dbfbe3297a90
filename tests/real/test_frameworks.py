"""The frameworks, unmodified, on the simulated device: every rank traced, its peak PyTorch's own, and the same again."""
import json
import os
import tempfile
import unittest

from harness import JOBS, Case, python, torchrun

SMALL = ["--layers", 4, "--hidden", 256, "--heads", 4, "--seq", 256, "--micro-batch", 2]
# name: ranks, job, its arguments. What is in SAMPLE runs in `make test`, all of it in `make test-all`.
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
    "trainer": (2, "hf.py", "--loop trainer --clip 1"),
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
SAMPLE = ("ddp", "fsdp2", "zero1", "zero3", "megatron_tp_pp", "megatron_ep", "trainer", "scaler", "graphs")
PEAKS = ("max_memory_allocated", "max_memory_reserved", "peak_bytes", "tensors", "blocks")


def lines(text):
    return {line["rank"]: line for line in map(json.loads, (x for x in text.splitlines() if x.startswith('{"rank"')))}


class Jobs(Case):
    def job(self, ranks, script, arguments, *options, traces="traces", version="2.15", **settings):
        """Runs a job with all of its ranks; what each rank printed, by rank."""
        self.traces = os.path.join(self.dir, traces)
        with tempfile.TemporaryDirectory() as saved:
            words = [w.format(saved) for w in arguments.split()] if isinstance(arguments, str) else list(map(str, arguments))
            command = ["-W", "ignore", os.path.join(JOBS, script), *map(str, SMALL), *words]
            command = [python(version), *command] if ranks == 1 else torchrun(ranks, *command[2:], version=version)
            self.saved = saved
            done = self.simulate(command, "--gpus", str(ranks), *options, **settings)
            self.saved_files = sum((files for _, _, files in os.walk(saved)), [])
        return lines(done.stdout)

    def alone(self, ranks, world, script, arguments, *options, traces="alone", **settings):
        """Runs some ranks of a job, each alone."""
        self.traces = os.path.join(self.dir, traces)
        command = [python(), "-W", "ignore", os.path.join(JOBS, script), *map(str, arguments)]
        done = self.simulate(command, "--ranks", ranks, "--world-size", str(world), *options, **settings)
        return lines(done.stdout)

    def check_trace(self, printed, ranks):
        """Each rank's trace has the peaks that PyTorch counted; Truth resets PyTorch's when the model is there, so ours may be higher."""
        entries = {e["rank"] or 0: e for e in self.report()["ranks"]}
        self.assertEqual(sorted(printed), list(range(ranks)))
        self.assertEqual(sorted(entries), sorted(printed))
        for rank, line in printed.items():
            with self.subTest(rank=rank):
                self.assertEqual(entries[rank]["end"], "exit")
                self.assertTrue(entries[rank]["simulated"])
                self.assertGreaterEqual(entries[rank]["peak"]["allocated_bytes"], line["max_memory_allocated"])
                self.assertGreaterEqual(entries[rank]["peak"]["reserved_bytes"], line["max_memory_reserved"])
                self.assertGreater(line["tensors"]["parameters"], 0)


class Frameworks(Jobs):
    """One test a row, made below."""

    def framework(self, name):
        ranks, script, arguments = FRAMEWORKS[name]
        first = self.job(ranks, script, arguments)
        self.check_trace(first, ranks)
        if "--save" in arguments:
            self.assertTrue(self.saved_files)
        again = self.job(ranks, script, arguments, traces="again")
        for rank in first:
            self.assertEqual({k: first[rank][k] for k in PEAKS}, {k: again[rank][k] for k in PEAKS}, "rank %d" % rank)


def make_tests():
    for name in FRAMEWORKS:
        def test(self, name=name):
            self.framework(name)
        test.__doc__ = "%s: %s" % (FRAMEWORKS[name][1], FRAMEWORKS[name][2])
        if name not in SAMPLE:
            test = unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")(test)
        setattr(Frameworks, "test_" + name, test)


make_tests()

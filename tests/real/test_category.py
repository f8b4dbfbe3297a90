"""The category of each byte at the peak, against the job's own tensors: parameters, buffers, gradients and optimizer states within
0.1 % of the blocks that hold them, activations within 1 % of the bytes that autograd saved, almost no bytes in other."""
import json
import os
import unittest

import categories
from harness import JOBS, MEMTRACE, Case, python, torchrun

TRUTH = os.path.join(JOBS, "with_categories.py")
SMALL = "--layers", 4, "--hidden", 512, "--heads", 8
ROUNDING = 8192  # blocks below MEMTRACE_STACK_MIN have no stacks: a few may get the category of their neighbours


class Checks(Case):
    def run_job(self, script, *arguments, ranks=1, version="2.15", options=(), **settings):
        out = os.path.join(self.dir, "truth")
        command = [TRUTH, out, os.path.join(JOBS, script), *map(str, arguments)]
        command = [python(version), *command] if ranks == 1 else torchrun(ranks, *command, version=version)
        self.simulate(command, "--gpus", str(ranks), *options, **settings)
        report = self.report()
        self.assertEqual(len(report["ranks"]), ranks)
        for entry in report["ranks"]:
            trace = categories.mtr.Trace(entry["trace"])
            blocks = categories.Blocks(trace, entry["device"])
            yield entry, blocks, categories.load("%s.%d" % (out, entry["rank"]))

    def check(self, script, *arguments, nothing_of=(), within=1000, copies=0, **keys):
        """`within`: an error of 1 in so many; `copies`: bytes of weights' copies, which are in `other`."""
        for entry, blocks, written in self.run_job(script, *arguments, **keys):
            peak, said = entry["peak"], entry["peak"]["by_category"]
            truth = categories.sums(blocks, categories.truth(blocks, written))
            with self.subTest(rank=entry["rank"]):
                self.assertEqual(sum(said.values()), peak["allocated_bytes"])
                self.assertEqual(peak["allocated_bytes"], blocks.highest)
                self.assertEqual({c: sum(r["bytes"] for r in peak["stacks"] if r["category"] == c) for c in said}, said)
                for category in categories.TENSORS:
                    there = truth.get(category, 0)
                    self.assertLessEqual(abs(said[category] - there), max(there / within, ROUNDING), (category, said, truth))
                there = truth.get("activations", 0)
                self.assertLessEqual(abs(said["activations"] - there), max(there / 100, ROUNDING), (said, truth))
                self.assertLess(abs(said["other"] - copies), peak["allocated_bytes"] / 100)
                for category in ("parameters", "optimizer_states", "activations"):
                    if category not in nothing_of:
                        self.assertGreater(said[category], 1 << 20, said)
        return entry


class Categories(Checks):
    def test_gpt2_of_document_001(self):
        """The tensors equal the document's formulas; the rest of a category is the allocator's rounding."""
        entry = self.check("seed001.py")
        settings = {"num_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "vocab_size": 50304, "seq_length": 1024,
                    "micro_batch_size": 12}
        command = [MEMTRACE, "estimate", "--json", "--system", "nanogpt"]
        for key, value in settings.items():
            command += ["--set", "%s=%s" % (key, value)]
        estimate = json.loads(self.run_(command).stdout)["estimates"][0]
        tensors = {"buffers": 12 * 1024 * 1024 * 4}  # the masks, which the document counts with the parameters
        for term in estimate["terms"]:
            tensors[term["component"]] = tensors.get(term["component"], 0) + term["bytes"]
        tensors["parameters"] -= tensors["buffers"]
        self.assertEqual([tensors[c] for c in categories.TENSORS], [497_495_040, 50_331_648, 497_495_040, 994_990_080])
        rows = {c: sum(r["blocks"] for r in entry["peak"]["stacks"] if r["category"] == c) for c in categories.TENSORS}
        self.assertEqual(rows["buffers"], 12)
        for category in categories.TENSORS:
            rounded = entry["peak"]["by_category"][category] - tensors[category]
            self.assertGreaterEqual(rounded, 0)
            self.assertLess(rounded, 0.04 * tensors[category], category)
            self.assertLessEqual(rounded, rows[category] << 20)  # a block keeps at most 1 MiB of its segment's rest

    def test_llama(self):
        self.check("llama.py", 4)

    def test_ddp(self):
        self.check("gpt.py", *SMALL, "--parallel", "ddp", ranks=2)

    def test_fsdp2(self):
        """The peak is in the optimizer phase: sharded gradients, and temporaries of the foreach implementation."""
        entry = self.check("fsdp2.py", ranks=2, nothing_of=("activations",))
        self.assertEqual(entry["peak"]["phase"], "optimizer")
        self.assertGreater(entry["peak"]["by_category"]["gradients"], 1 << 20)


class Adapters(Checks):
    """A frozen model with adapters of PEFT: every forward pass goes through code of PEFT's."""

    def test_lora(self):
        self.check("hf.py", "--lora", 64)


@unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
class EveryAdapter(Checks):
    """Of rank 8: all blocks of the adapters are too small for stacks."""

    def check_small(self, *options):
        self.check("hf.py", "--lora", 8, *options, nothing_of=("optimizer_states",))

    def test_lora(self):
        self.check_small()

    def test_lora_under_trainer(self):
        self.check_small("--loop", "trainer")

    def test_lora_recomputed(self):
        self.check_small("--recompute", "full")

    def test_dora(self):
        self.check_small("--dora")

    def test_qlora(self):
        self.check_small("--four-bit")


class Libraries(Checks):
    """Training as libraries run it (tests/jobs/trainers.py)"""

    def test_diffusers(self):
        """The UNet with text, a frozen autoencoder, and an average of the UNet's weights as large as these: 12.79 MB, half of Adam's states."""
        self.check("trainers.py", "diffusers", nothing_of=("optimizer_states",), copies=12_792_320)

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_lightning(self):
        """Under autocast, the loss saves a copy of the logits: those themselves are none of the backward pass."""
        self.check("trainers.py", "lightning", within=100)

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_trl_sft(self):
        self.check("trainers.py", "sft")

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_trl_sft_with_adapters(self):
        self.check("trainers.py", "sft_lora")


class SecondUses(Checks):
    """Tensors whose place suggests something else (tests/jobs/second_uses.py)"""

    def test_graph_of_gradients(self):
        """What create_graph=True keeps of a backward pass is saved for the next one: activations, and no gradients."""
        self.check("second_uses.py", "penalty")

    def test_states_of_a_checkpoint(self):
        """Adam's states are the tensors that torch.load() made."""
        self.check("second_uses.py", "resumed")

    def test_gradients_of_reentrant_checkpoints(self):
        """The engine that a checkpoint starts has Python frames; what it leaves are gradients, and nothing that was recomputed."""
        self.check("second_uses.py", "reentrant", nothing_of=("optimizer_states",))

    def test_weights_built_on_the_gpu(self):
        """A weight of 3200 x 3200 numbers takes a block of 40 MiB, its gradient, cut from a larger one, 39.06 MiB."""
        self.check("second_uses.py", "built", nothing_of=("optimizer_states",))

    def test_predictions_that_are_kept(self):
        """Six outputs of an evaluation, of 4096 x 4096 numbers in fp32 each, are no inputs."""
        self.check("second_uses.py", "predictions", nothing_of=("activations",), copies=6 * 4096 * 4096 * 4)


class Generation(Case):
    """Keys and values of 4 layers, 4 heads of 128, in bf16: 8192 bytes a token of a sequence. The sizes are multiples of 512 bytes."""
    TOKEN = 2 * 4 * 4 * 128 * 2

    def peak_of(self, *options):
        self.simulate([python("2.15"), os.path.join(JOBS, "generate.py"), *options])
        return self.report()["ranks"][0]["peak"]

    def test_written_by_hand(self):
        peak = self.peak_of("--loop", "hand")
        self.assertEqual(peak["by_category"]["kv_cache"], 8 * 256 * self.TOKEN)

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_dynamic(self):
        peak = self.peak_of()
        self.assertEqual(peak["by_category"]["kv_cache"], 8 * 256 * self.TOKEN)

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_static(self):
        """8 blocks, each with at most 1 MiB of its segment's rest"""
        said = self.peak_of("--cache", "static")["by_category"]["kv_cache"]
        self.assertGreaterEqual(said, 8 * 320 * self.TOKEN)
        self.assertLess(said, 8 * 320 * self.TOKEN + (8 << 20))

    def test_out_of_memory(self):
        job = [python("2.15"), os.path.join(JOBS, "generate.py"), "--batch", "256", "--prompt", "16", "--tokens", "2000"]
        # PyTorch takes cuDNN's attention on an H100, which compiles half a second for each new length; test_written_by_hand runs it.
        self.simulate(job, "--gpu", "A100-40GB", "--memory", "1100MiB", status=1)
        cause = self.report()["findings"][0]
        self.assertEqual((cause["rule"], cause["cause"]), ("KV_CACHE", True))
        # Of a block over 1 MiB, the rest of its segment may stay with it.
        self.assertAlmostEqual(cause["evidence"]["kv_token"], 256 * self.TOKEN, delta=256 * self.TOKEN // 100)


@unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
class EveryJob(Checks):
    def test_gpt2_medium(self):
        self.check("gpt.py", "--layers", 24, "--hidden", 1024, "--heads", 16, "--micro-batch", 4)

    def test_qwen2(self):
        self.check("hf.py", "--model", "qwen2")

    def test_mixtral(self):
        self.check("hf.py", "--model", "mixtral")

    def test_recompute(self):
        self.check("gpt.py", *SMALL, "--recompute", "full")

    def test_accumulate(self):
        self.check("gpt.py", *SMALL, "--accumulate", 4, "--clip", 1)

    def test_bucket_view(self):
        self.check("gpt.py", *SMALL, "--parallel", "ddp", "--bucket-view", ranks=2)

    def test_fsdp2_gathered(self):
        self.check("gpt.py", *SMALL, "--parallel", "fsdp2", ranks=2)

    def test_peak_in_the_optimizer(self):
        for optimizer in ("adamw_foreach", "adamw_loop", "sgd_momentum"):
            entry = self.check("gpt.py", *SMALL, "--micro-batch", 1, "--seq", 64, "--optimizer", optimizer, nothing_of=("activations",))
            self.assertGreater(entry["peak"]["by_category"]["gradients"], 1 << 20)

    def test_fsdp1(self):
        self.check("gpt.py", *SMALL, "--parallel", "fsdp1", ranks=2)

    def test_zero_1(self):
        self.check("deepspeed_gpt.py", *SMALL, "--zero", 1, ranks=2)

    def test_zero_2(self):
        self.check("deepspeed_gpt.py", *SMALL, "--zero", 2, ranks=2)

    def test_zero_3(self):
        self.check("deepspeed_gpt.py", *SMALL, "--zero", 3, ranks=2)

    def test_megatron_tensor_parallel(self):
        self.check("megatron_gpt.py", *SMALL, "--seq", 512, "--tp", 2, ranks=2)

    def test_megatron_pipeline(self):
        self.check("megatron_gpt.py", *SMALL, "--seq", 512, "--pp", 2, ranks=2)

    def test_compile(self):
        self.check("gpt.py", *SMALL, "--compile")

    def test_trainer(self):
        self.check("hf.py", "--loop", "trainer")

    def test_sgd(self):
        self.check("gpt.py", *SMALL, "--optimizer", "sgd_momentum")


if __name__ == "__main__":
    unittest.main()

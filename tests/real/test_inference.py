"""Jobs that only call their model (tests/jobs/infer.py): the report speaks of weights, cache and the current call, and names the cause. The sizes of
caches and results are those of the tensors, by hand."""
import os
import unittest

from harness import JOBS, MEMTRACE, Case, python

LOOP_TOKEN = 32 * 6 * 2 * 4 * 64 * 2  # 32 sequences: keys and values of 6 layers with 4 heads of 64, in bf16
TOKEN = 8 * 2 * 512 * 4  # keys and values of 8 layers of width 512, in fp32, for one token of one sequence


class Inference(Case):
    def cause(self, fault, memory):
        self.simulate([python("2.15"), os.path.join(JOBS, "infer.py"), fault], "--memory", memory, status=1)
        report = self.report()
        self.rank, first = report["ranks"][0], report["findings"][0]
        self.assertTrue(first["cause"], first)
        return first

    def ends_well(self, job, memory):
        self.simulate([python("2.15"), os.path.join(JOBS, "infer.py"), *job], "--memory", memory)
        return self.report()["ranks"][0]

    def test_peak_in_the_prompt(self):
        """A loop by hand under no_grad(), whose peak is in its first call: the later ones say what it does."""
        rank = self.ends_well(["loop_dynamic"], "4GiB")
        said = rank["inference"]
        self.assertEqual(said["stage"], "prefill")
        self.assertAlmostEqual(said["kv_token_bytes"], LOOP_TOKEN, delta=LOOP_TOKEN / 20)
        self.assertAlmostEqual(said["kv_cache_bytes"], 256 * LOOP_TOKEN, delta=12 << 20)
        self.assertGreater(said["kv_tokens_left"], 100)
        text = self.run_([MEMTRACE, "report", self.traces]).stdout
        self.assertIn("prefill", text)
        self.assertNotIn("step 1", text)

    def test_many_more_tokens(self):
        """On a large device as many as it has room for, less what the gaps between the blocks take."""
        rank = self.ends_well(["loop_dynamic"], "24GiB")
        by_sum = ((24 << 30) - rank["peak"]["device_bytes"]) // LOOP_TOKEN
        self.assertGreater(by_sum, 110000)
        self.assertGreater(rank["inference"]["kv_tokens_left"], 0.9 * by_sum)
        self.assertLessEqual(rank["inference"]["kv_tokens_left"], 1.01 * by_sum)

    def test_cache_of_fixed_size(self):
        said = self.ends_well(["loop_static"], "4GiB")["inference"]
        self.assertEqual(said["stage"], "prefill")
        self.assertEqual(said["kv_cache_bytes"], 512 * LOOP_TOKEN)
        self.assertEqual((said["kv_token_bytes"], said["kv_tokens_left"]), (0, 0))

    def test_more_tokens_of_a_cache_that_is_copied(self):
        """torch.cat() of a list of keys and values: old and new are there at once. The longer job tells how many fit."""
        said = self.ends_well(["own_cache", "--fixed"], "1400MiB")["inference"]
        self.assertAlmostEqual(said["kv_token_bytes"], 32 * TOKEN, delta=TOKEN)
        self.assertAlmostEqual(said["kv_copied_bytes"], 127 * 32 * TOKEN, delta=16 << 20)
        self.assertAlmostEqual(said["kv_cache_bytes"], (127 + 128) * 32 * TOKEN, delta=32 << 20)
        out = self.simulate([python("2.15"), os.path.join(JOBS, "infer.py"), "own_cache"], "--memory", "1400MiB", status=1).stdout
        all_calls = out.count("call ")
        self.assertGreater(all_calls, 80)
        self.assertAlmostEqual(64 + said["kv_tokens_left"], all_calls, delta=0.1 * all_calls)

    def test_caches_of_finished_requests(self):
        """16 sequences of 200 tokens and 32 more, and the caches of all requests stay."""
        cause = self.cause("finished_kept", "1500MiB")
        self.assertEqual(cause["rule"], "KV_CACHES_KEPT")
        request = 16 * 232 * TOKEN
        kept = cause["evidence"]["kv_caches_kept"]
        self.assertGreaterEqual(kept, 1)
        self.assertAlmostEqual(cause["remedies"][0]["saving_bytes"], kept * request, delta=request / 20)
        said = self.rank["inference"]
        self.assertAlmostEqual(said["kv_cache_bytes"], (kept + 1) * request, delta=request / 10)
        self.assertEqual(said["kv_kept_bytes"], cause["bytes"])
        text = self.run_([MEMTRACE, "report", self.traces]).stdout
        self.assertIn("no backward pass, no optimizer", text)
        for word in "step 1", "gradients", "optimizer states":
            self.assertNotIn(word, text)

    def test_requests_by_turns(self):
        """More blocks than the history has marks: two live requests of 4 sequences and 4 layers"""
        self.simulate([python("2.15"), os.path.join(JOBS, "infer_turns.py")], "--memory", "1000MiB", status=1)
        report = self.report()
        self.assertNotIn("KV_CACHES_KEPT", [f["rule"] for f in report["findings"]])
        self.assertEqual(report["findings"][0]["rule"], "KV_CACHE")
        self.assertAlmostEqual(report["findings"][0]["evidence"]["kv_token"], 2 * 4 * TOKEN // 2, delta=TOKEN // 16)

    def test_results(self):
        """Logits of 4 sequences of 128 tokens over 8000 words, of each batch"""
        cause = self.cause("results_kept", "1250MiB")
        self.assertEqual(cause["rule"], "INFERENCE_RESULTS")
        self.assertFalse(self.rank["inference"]["keeps_graph"])
        blocks, one = cause["evidence"]["results_blocks"], 4 * 128 * 8000 * 4
        self.assertAlmostEqual(cause["bytes"], blocks * one, delta=blocks << 20)

    def test_logits_of_the_prompt(self):
        """8 sequences of 1024 tokens over 32000 words, in bf16: the saving is what the job needs less that takes the last row alone."""
        cause = self.cause("logits_of_prompt", "1150MiB")
        self.assertEqual(cause["rule"], "LOGITS_OF_PROMPT")
        self.assertEqual(self.rank["inference"]["stage"], "prefill")
        self.assertAlmostEqual(cause["bytes"], 8 * 1024 * 32000 * 2, delta=1 << 20)
        peaks = [self.peak(["logits_of_prompt", *option]) for option in ([], ["--fixed"])]
        # cuBLAS's workspace of the last layer comes behind the failure
        self.assertAlmostEqual(cause["remedies"][0]["saving_bytes"] + (32 << 20), peaks[0] - peaks[1], delta=1 << 20)

    def peak(self, job):
        self.traces = os.path.join(self.dir, "peak-%d" % len(job))
        return self.ends_well(job, "4GiB")["peak"]["allocated_bytes"]


if __name__ == "__main__":
    unittest.main()

"""Megatron-LM's T5 and BERT. tests/accuracy/observed.json holds the peaks of Megatron-core's own models (accuracy_runs.py megatron-t5, -bert)."""
import json
import unittest

from harness import MEMTRACE, Case
from test_estimate_megatron import CUBLAS, MIB, layer

WIDTH, FFN, PIECES = 768, 3072, 28996  # Hugging Face's bert-large-cased has 28,996 word pieces
T5 = ["--encoder-num-layers", "12", "--decoder-num-layers", "6", "--hidden-size", str(WIDTH), "--num-attention-heads", "12", "--ffn-hidden-size", str(FFN),
      "--encoder-seq-length", "512", "--decoder-seq-length", "128", "--max-position-embeddings", "512", "--micro-batch-size", "4",
      "--global-batch-size", "32", "--bf16", "--vocab-extra-ids", "100", "--vocab-file", "bert-large-cased-vocab.txt",
      "--tokenizer-type", "BertWordPieceCase", "--attention-backend", "unfused"]
BERT = ["--num-layers", "24", "--hidden-size", "1024", "--num-attention-heads", "16", "--seq-length", "512", "--max-position-embeddings", "512",
        "--micro-batch-size", "4", "--global-batch-size", "128", "--pipeline-model-parallel-size", "2", "--deterministic-mode",
        "--no-gradient-accumulation-fusion", "--bf16", "--attention-backend", "unfused", "--vocab-file", "vocab.txt"]

HYBRID = ["--hidden-size", "1024", "--num-attention-heads", "16", "--group-query-attention", "--num-query-groups", "8", "--micro-batch-size", "4",
          "--global-batch-size", "32", "--seq-length", "1024", "--max-position-embeddings", "1024", "--use-distributed-optimizer", "--overlap-grad-reduce",
          "--overlap-param-gather", "--no-gradient-accumulation-fusion", "--attention-softmax-in-fp32", "--bf16", "--attention-backend", "unfused",
          "--vocab-size", "50257", "--spec", "megatron.core.models.hybrid.hybrid_layer_specs", "hybrid_stack_spec"]


def padded(vocabulary, tp=1):
    return -(-vocabulary // (128 * tp)) * 128 * tp


def t5_parameters():
    """Each layer of the decoder has a third LayerNorm and a second attention; the output layer has a bias and the embedding's weight."""
    vocabulary = padded(PIECES + 2 + 100)
    cross = 2 * WIDTH + 4 * WIDTH * (WIDTH + 1)
    return vocabulary * (WIDTH + 1) + 512 * WIDTH + 18 * layer(WIDTH, FFN) + 6 * cross + 2 * 2 * WIDTH


DELTA = ["--num-layers", "6", "--hidden-size", "512", "--num-attention-heads", "8", "--group-query-attention", "--num-query-groups", "2", "--swiglu",
         "--position-embedding-type", "rope", "--seq-length", "1024", "--max-position-embeddings", "1024", "--micro-batch-size", "4",
         "--global-batch-size", "32", "--disable-bias-linear", "--bf16", "--vocab-size", "50257", "--no-gradient-accumulation-fusion", "--attention-backend",
         "unfused", "--untie-embeddings-and-output-weights"]
VARIANT = ["--experimental-attention-variant", "gated_delta_net", "--linear-attention-freq", "3", "--linear-key-head-dim", "64", "--linear-value-head-dim",
           "64", "--linear-num-key-heads", "4", "--linear-num-value-heads", "8"]


class Models(Case):
    def answer(self, *arguments, script="pretrain_gpt.py", status=0):
        words = [MEMTRACE, "estimate", "--system", "memtrace", "--json", "--world-size", "8", "--gpu", "H100-80GB", "--set", "container=dev"]
        for name, value in CUBLAS.items():
            words += ["--env", "%s=%s" % (name, value)]
        done = self.run_([*words, "--", script, *arguments], status=status)
        return done.stderr if status else json.loads(done.stdout)

    def test_t5(self):
        """The parameters by a count by hand; four bytes for the gradient of each."""
        said = self.answer(*T5)
        self.assertEqual(said["config"]["num_parameters"], t5_parameters())
        terms = {t["id"]: t["steady_bytes"] for t in said["estimates"][0]["per_stage"][0]["terms"]}
        self.assertLess(abs(terms["gradients.buffer"] - 4 * t5_parameters()), MIB)

    def test_cross_attention(self):
        """A longer text for the encoder costs the decoder's layers keys and values, and scores of its few queries."""
        def scores(encoder):
            said = self.answer(*T5, "--encoder-seq-length", str(encoder), "--max-position-embeddings", "1024", "--attention-dropout", "0")
            return {t["id"]: t["bytes"] for t in said["estimates"][0]["per_stage"][0]["terms"]}["activations.attention.softmax"]

        def held(encoder):  # in bf16 the softmax's result and, with a mask of a byte for a sample's pair of tokens, its copy without padding
            own, cross, decoder = 12 * encoder * encoder, 6 * 128 * encoder, 6 * 128 * 128
            return 4 * 12 * 2 * (2 * (own + cross) + decoder) + 4 * (own + cross)

        for encoder in 256, 512:
            self.assertLess(abs(scores(encoder) / held(encoder) - 1), 0.05)

    def test_bert(self):
        """Megatron-LM's functional test bert_mcore_tp1_pp2 measured 3,433,473,024 bytes after a step and 5,707,393,024 at the peak of its last rank on
        H100 (golden_values_dev_dgx_h100.json)."""
        stage = self.answer(*BERT)["estimates"][0]["per_stage"][1]
        self.assertEqual(stage["steady_bytes"], 3433473024)
        self.assertLess(abs(stage["peak_bytes"] - 5707393024), MIB // 64)

    def test_fused_attention(self):
        """It keeps no scores, and an answer says that nobody has measured it."""
        plain = [word for word in BERT if word not in ("--attention-backend", "unfused")]
        said = [self.answer(*words) for words in (BERT, plain)]
        scores = 24 // 2 * 4 * 16 * 512 * 512 * (2 + 2 + 1)  # of the last stage's layers: softmax, dropout, its mask
        stage = [one["estimates"][0]["per_stage"][1] for one in said]
        self.assertGreater(stage[0]["peak_bytes"] - stage[1]["peak_bytes"], scores * 0.95)
        self.assertIn("no measurement", json.dumps(said[1]["estimates"][0]))

    def test_order_of_sentences(self):
        """Without it: no token types (2 x 1024), no pooler (1024 x 1025), no two scores (2 x 1025)."""
        counts = [self.answer(*BERT, *more)["config"]["num_parameters"] for more in ((), ("--bert-no-binary-head",))]
        self.assertEqual(counts[0] - counts[1], 2 * 1024 + 1024 * 1025 + 2 * 1025)

    def test_the_script_names_the_model(self):
        without = [word for word in BERT if word not in ("--vocab-file", "vocab.txt")]
        said = self.answer(*without, "--padded-vocab-size", "30592", script="pretrain_bert.py")
        self.assertEqual(said["config"]["model_type"], "bert")
        short = [word for word in T5 if word not in ("--decoder-seq-length", "128")]
        self.assertIn("decoder_seq_length", self.answer(*short, script="pretrain_t5.py", status=2))

    def test_hybrid(self):
        """Megatron-LM's functional tests hybrid_mr_mcore_te_tp1_pp4_cp1_dgx_a100_1N8G and ..._tp1_pp1_... measured these bytes after a step and at the peak of
        their last rank on H100 (golden_values_dev_dgx_h100.json)."""
        for pattern, stages, steady, peak in (("M-M-M-M*-M-|M-M-M*-M-M-|M-M*-M-M-M-|M*-M-M-M-M-", 4, 1784293376, 4483712000),
                                              ("M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M-", 1, 3117479936, 10145497088)):
            said = self.answer(*HYBRID, "--hybrid-layer-pattern", pattern, "--pipeline-model-parallel-size", str(stages))
            last = said["estimates"][0]["per_stage"][-1]
            self.assertLess(abs(last["steady_bytes"] / steady - 1), 0.0005)
            self.assertLess(abs(last["peak_bytes"] / peak - 1), 0.0001)
            self.assertEqual((said["config"]["num_layers"], said["config"]["model_type"]), (44, "hybrid"))

    def test_layers_of_a_hybrid_model(self):
        """One layer more of each kind, by a count by hand: two bytes a weight, four for its gradient."""
        base = self.terms("M*-")
        inner, shared = 2 * 1024, 2 * 8 * 128
        heads = inner // 64
        mamba = 2 * 1024 + 1024 * (2 * inner + shared + heads) + (4 + 1) * (inner + shared) + 3 * heads + inner + inner * 1024
        attention = 2 * 1024 + 1024 * (1024 + 2 * 512) + 1024 + 2 * 512 + 1024 * 1025
        for kind, count in (("M", mamba), ("*", attention), ("-", 2 * 1024 + 1025 * 4096 + 4097 * 1024)):
            more = self.terms("M*-" + kind)
            self.assertLess(abs(more["gradients.buffer"] - base["gradients.buffer"] - 4 * count), 4 * 2048, kind)

    def terms(self, pattern, *more):
        said = self.answer(*HYBRID, "--hybrid-layer-pattern", pattern, *more)
        return {t["id"]: t["bytes"] for t in said["estimates"][0]["per_stage"][-1]["terms"]}

    def test_experts_and_predictions_of_a_hybrid_model(self):
        """Layers E have experts, those behind a slash predict a further token; one layer can predict all."""
        experts = ["--num-experts", "8", "--expert-model-parallel-size", "8", "--moe-router-topk", "2", "--disable-bias-linear", "--mtp-use-repeated-layer"]
        one = self.terms("M*E", *experts)["gradients.buffer"]
        two = self.terms("M*E/*E", *experts)["gradients.buffer"]
        self.assertLess(abs(self.terms("M*E/*E/*E", *experts)["gradients.buffer"] - two), 1)
        predicts = 4 * 2 * 1024 + 1024 * 2048 + 2 * 1024 + 2 * 1024 * 1024 + 1024 * 1024 + 8 * 1024 + 8 * 1024 * 1024
        self.assertLess(abs(two - one - 4 * predicts), 4 * 8192)

    def test_experts_of_a_narrower_width(self):
        """--moe-latent-size 256 of 1024: two projections (256 x 1024), and experts of 2 x 4096 x 256 instead of 2 x 4096 x 1024."""
        experts = ["--num-experts", "8", "--expert-model-parallel-size", "8", "--disable-bias-linear"]
        whole, narrow = (self.terms("M*E", *experts, *more)["gradients.buffer"] for more in ([], ["--moe-latent-size", "256"]))
        self.assertLess(abs(whole - narrow - 4 * (2 * 4096 * (1024 - 256) - 2 * 256 * 1024)), 4 * 4096)

    def test_fused_activation_of_experts(self):
        """weighted_bias_swiglu_impl() saves its input alone; without it the result before the router's weights (4096 tokens x 2 x 2 bytes) is kept, too, and
        two tensors of silu."""
        experts = ["--num-experts", "8", "--expert-model-parallel-size", "8", "--disable-bias-linear", "--swiglu", "--ffn-hidden-size", "2048"]
        fused, single = (self.terms("M*E", *experts, *more)["activations.moe.hidden"] for more in ([], ["--no-bias-swiglu-fusion"]))
        one = 4096 * 2 * 2048 * 2
        self.assertLess(abs(fused - 3 * one), MIB)
        self.assertGreaterEqual(single - fused, one)

    def test_embedding_and_loss_count_as_layers(self):
        """6 layers and two in place of the embedding and the loss on 4 stages of 2 chunks: the first and the last stage have one layer, the others two."""
        words = ["--num-layers", "6", "--hidden-size", "512", "--num-attention-heads", "8", "--seq-length", "1024", "--max-position-embeddings", "1024",
                 "--micro-batch-size", "4", "--global-batch-size", "32", "--bf16", "--padded-vocab-size", "51200", "--pipeline-model-parallel-size", "4",
                 "--num-virtual-stages-per-pipeline-rank", "2", "--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"]
        stages = self.answer(*words)["estimates"][0]["per_stage"]
        sizes = [{t["id"]: t["steady_bytes"] for t in stage["terms"]}["gradients.buffer"] for stage in stages]
        ends = (4 * (51200 + 1024) * 512, 0, 0, 4 * (51200 * 512 + 2 * 512))
        for size, layers, more in zip(sizes, (1, 2, 2, 1), ends):
            self.assertLess(abs(size - more - 4 * layers * layer(512, 2048)), 2 * MIB)

    def test_sizes_of_a_checkpoint(self):
        """--use-checkpoint-args beside the sizes of the model changes nothing; without them nothing is known."""
        said, plain = self.answer(*BERT, "--use-checkpoint-args"), self.answer(*BERT)
        self.assertEqual(said["estimates"][0]["per_stage"], plain["estimates"][0]["per_stage"])
        self.assertIn("--use-checkpoint-args", json.dumps(said))
        self.assertIn("sizes that stand in a checkpoint", self.answer(*BERT[2:], "--use-checkpoint-args", status=2))

    def delta(self, *more):
        said = self.answer(*DELTA, *more)
        return {t["id"]: t["bytes"] for t in said["estimates"][0]["per_stage"][0]["terms"]}

    def test_gated_delta_nets(self):
        """Four of six layers, by a count by hand: four bytes for the gradient of each weight. What the rule of PyTorch saves is a row and a square above it for
        each of the 63 rows of a chunk: 4 bytes for i + i^2 of them in each of 1024 / 64 chunks, 8 heads, and 4 sequences."""
        q, v, heads = 4 * 64, 8 * 64, 8
        net = 512 * (2 * q + 2 * v + 2 * heads) + 4 * (2 * q + v) + 2 * heads + 2 * 64 + v * 512
        attention = 512 * (512 + 2 * 128) + 512 * 512
        plain, with_nets, twice = (self.delta(*more)["gradients.buffer"] for more in ([], VARIANT, [*VARIANT, "--attention-output-gate"]))
        self.assertLess(abs(with_nets - plain - 4 * 4 * (net - attention)), 4 * 4096)
        self.assertLess(abs(twice - with_nets - 2 * 4 * 512 * 512), 4 * 4096)
        rows = 4 * sum(i + i * i for i in range(1, 64)) * 4 * 8 * (1024 // 64)
        rule = self.delta(*VARIANT, "--deterministic-mode")["activations.delta_net.rule"]
        self.assertGreater(rule, 4 * rows)
        self.assertLess(self.delta(*VARIANT)["activations.delta_net.rule"], rows)

    def test_gate_of_a_shared_expert(self):
        """A row of the hidden size's width in each of six layers."""
        experts = ["--num-experts", "8", "--moe-ffn-hidden-size", "64", "--moe-shared-expert-intermediate-size", "64"]
        without, gated = (self.delta(*experts, *more)["parameters.mlp"] for more in ([], ["--moe-shared-expert-gate"]))
        self.assertEqual(gated - without, 6 * 2 * 512)

    def test_what_is_not_modelled_of_gated_delta_nets(self):
        for arguments, key in ((["--experimental-attention-variant", "dsa"], "sparse attention (dsa)"), (["--experimental-attention-variant", "gdn2"], "gdn2"),
                               (["--context-parallel-size", "2"], "context_parallel_size"), (["--linear-attention-freq", "[1,0]"], "one number for each layer"),
                               (["--linear-num-key-heads", "3"], "multiple of linear_num_key_heads"), (["--tensor-model-parallel-size", "8"], "tensor parallelism"),
                               (["--transformer-impl", "local"], "transformer_impl"), (["--fp8-format", "hybrid"], "not modelled with them"),
                               (["--mtp-num-layers", "1"], "not modelled with them")):
            self.assertIn(key, self.answer(*DELTA, *VARIANT, *arguments, status=2), arguments)
        self.assertIn("linear_attention_freq", self.answer(*DELTA, *VARIANT[:2], status=2))

    def test_what_is_not_modelled_of_hybrid_models(self):
        for arguments, key in ((["--hybrid-layer-pattern", "MG"], "hybrid_layer_pattern"), (["--num-layers", "4"], "hybrid_layer_pattern"), (["--hybrid-layer-pattern", "ME"], "num_experts"),
                               (["--hybrid-layer-pattern", "M", "--transformer-impl", "local"], "transformer_impl"),
                               *((["--hybrid-layer-pattern", bad], "hybrid_layer_pattern") for bad in ("Mx", "M//E", "M/", "/M", "M/*|E")),
                               (["--hybrid-layer-pattern", "M", "--mamba-num-groups", "7"], "mamba_num"),
                               (["--hybrid-layer-pattern", "M", "--mtp-num-layers", "1"], "hybrid_layer_pattern"),
                               (["--hybrid-layer-pattern", "M", "--fp8-format", "hybrid"], "fp8")):
            self.assertIn(key, self.answer(*HYBRID, *arguments, status=2))

    def test_what_is_not_modelled(self):
        for arguments, key in ((["--context-parallel-size", "2"], "context_parallel_size"), (["--pipeline-model-parallel-size", "2"], "pipeline_model"),
                               (["--recompute-granularity", "full", "--recompute-method", "uniform", "--recompute-num-layers", "1"], "recompute_granularity"),
                               (["--encoder-seq-length", "90000000", "--micro-batch-size", "1"], "micro_batch_size"), (["--group-query-attention"], "num_query_groups")):
            self.assertIn(key, self.answer(*T5, *arguments, status=2))


if __name__ == "__main__":
    unittest.main()

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


def padded(vocabulary, tp=1):
    return -(-vocabulary // (128 * tp)) * 128 * tp


def t5_parameters():
    """Each layer of the decoder has a third LayerNorm and a second attention; the output layer has a bias and the embedding's weight."""
    vocabulary = padded(PIECES + 2 + 100)
    cross = 2 * WIDTH + 4 * WIDTH * (WIDTH + 1)
    return vocabulary * (WIDTH + 1) + 512 * WIDTH + 18 * layer(WIDTH, FFN) + 6 * cross + 2 * 2 * WIDTH


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

    def test_what_is_not_modelled(self):
        for arguments, key in ((["--context-parallel-size", "2"], "context_parallel_size"), (["--pipeline-model-parallel-size", "2"], "pipeline_model"),
                               (["--recompute-granularity", "full", "--recompute-method", "uniform", "--recompute-num-layers", "1"], "recompute_granularity"),
                               (["--encoder-seq-length", "90000000", "--micro-batch-size", "1"], "micro_batch_size"), (["--group-query-attention"], "num_query_groups")):
            self.assertIn(key, self.answer(*T5, *arguments, status=2))


if __name__ == "__main__":
    unittest.main()

"""Jobs whose declared configuration has one known error: match names it."""
import collections

from match_runs import assigned
from test_match import FIRST, MORE, Matching

# job: (the wrong declaration, the key and its correct values)
WRONG = {
    "gpt2_eager": (
        ({"micro_batch_size": 2}, "micro_batch_size", ("4",)),
        ({"micro_batch_size": 8}, "micro_batch_size", ("4",)),
        ({"num_layers": 3}, "num_layers", ("4",)),
        ({"attention": "sdpa"}, "attention", ("eager",)),
        ({"attention_mask_buffers": "false"}, "attention_mask_buffers", ("true",)),
        ({"vocab_size": 32000}, "vocab_size", ("50304",)),
        ({"precision": "fp32"}, "precision", ("fp16-autocast", "bf16-autocast")),
        ({"optimizer": "sgd"}, "optimizer", ("adam",)),
        ({"recompute_granularity": "full"}, "recompute_granularity", (None, "selective")),
        ({"num_layers": 6}, "num_layers", ("4",)),
        ({"attention_dropout": 0.1}, "attention_dropout", ("0",)),
    ),
    "llama": (
        ({"num_query_groups": 8}, "num_query_groups", ("2",)),
        ({"untie_embeddings_and_output_weights": "false"}, "untie_embeddings_and_output_weights", ("true",)),
        ({"recompute_granularity": "full"}, "recompute_granularity", (None, "selective")),
        ({"attention": "eager"}, "attention", ("sdpa", "flash")),
        ({"precision": "fp32"}, "precision", ("bf16", "fp16")),
        ({"ffn_hidden_size": 704}, "ffn_hidden_size", ("1408",)),
        ({"seq_length": 256}, "seq_length", ("512",)),
        ({"num_layers": 8}, "num_layers", ("4",)),
    ),
    "llama_recomputed": (
        ({"recompute_granularity": None}, "recompute_granularity", ("full",)),
    ),
}


class Causes(Matching):
    def test_wrong_declarations(self):
        named = collections.Counter()
        missed = []
        for name, rows in WRONG.items():
            self.traces = self.dir + "/" + name
            job, declared = {**FIRST, **MORE}[name]
            self.observe(job, {k: v for k, v in declared.items() if {k: None} not in [row[0] for row in rows]})
            for wrong, key, values in rows:
                options = [x for k, v in wrong.items() if v is not None for x in ("--set", "%s=%s" % (k, v))]
                rank, = self.match(*options, status=None)["ranks"]
                assigned(rank)
                good = rank["causes"] and rank["causes"][0]["key"] == key and rank["causes"][0]["value"] in values
                named[bool(good)] += 1
                if not good:
                    missed.append((name, wrong, rank["causes"][:3], rank["error"], rank["gap_bytes"] / rank["observed_bytes"]))
        self.assertEqual(sum(named.values()), 20)
        self.assertGreaterEqual(named[True], 19, missed)
        if missed:
            print("not named:", missed)

    def test_right_declaration(self):
        self.observe(*FIRST["gpt2_sdpa"])
        rank, = self.match()["ranks"]
        self.assertEqual(rank["causes"], [])

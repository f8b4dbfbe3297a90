"""Megatron-LM's LLaVA (pretrain_vlm.py) and the provider llava_vlm of examples/mimo. tests/accuracy/observed.json holds the peaks of Megatron-core's own model (accuracy_runs.py megatron-llava, -mimo)."""
import json
import unittest

from harness import MEMTRACE, Case
from test_estimate_megatron import CUBLAS, MIB, layer

WIDTH, HEADS, LAYERS, TEXT, PATCHES, VOCABULARY = 624, 12, 12, 1024, 24 * 24, 8320
LLAVA = ["--num-layers", str(LAYERS), "--hidden-size", str(WIDTH), "--num-attention-heads", str(HEADS), "--attention-dropout", "0", "--hidden-dropout", "0",
         "--micro-batch-size", "4", "--global-batch-size", "32", "--seq-length", str(TEXT), "--max-position-embeddings", "1024", "--vocab-size", "8193",
         "--tokenizer-type", "NullTokenizer", "--deterministic-mode", "--no-gradient-accumulation-fusion", "--bf16", "--img-h", "336", "--img-w", "336",
         "--patch-dim", "14"]
BLOCK = 2 * MIB  # large blocks are whole segments
ALL = TEXT + PATCHES + 1  # tokens: the text's, the patches, the class's
LANGUAGE = 2 * VOCABULARY * WIDTH + ALL * WIDTH + LAYERS * layer(WIDTH, 4 * WIDTH) + 2 * WIDTH
VISION = WIDTH + 2 * WIDTH + 3 * 14 * 14 * WIDTH + (PATCHES + 1) * WIDTH + LAYERS * layer(WIDTH, 4 * WIDTH)
PROJECTOR = 2 * WIDTH + 4 * WIDTH * (WIDTH + 1) + WIDTH * (4 * WIDTH + 1)  # Transformer Engine's first product has a LayerNorm

MIMO = ["--model-provider", "llava_vlm", "--dataset-provider", "llava_vlm", "--micro-batch-size", "8", "--global-batch-size", "128", "--total-seq-length", "2048",
        "--seq-length", "4096", "--num-layers", "32", "--hidden-size", "4096", "--num-attention-heads", "32", "--max-position-embeddings", "4096", "--bf16",
        "--no-gradient-accumulation-fusion", "--deterministic-mode", "--position-embedding-type", "rope", "--language-model-checkpoint", "weights"]
CLIP = 1024 * (1 + 3 * 14 * 14 + 577 + 2 + 2) + 24 * (4 * 1024 * 1025 + 2 * 1024 * 4096 + 4096 + 1024 + 4 * 1024)
VICUNA = 2 * 32256 * 4096 + 32 * (4 * 4096 * 4096 + 3 * 4096 * 11008 + 2 * 4096) + 4096
ADAPTER = 4096 * 1025 + 4096 * 4097


class Images(Case):
    def answer(self, *arguments, script="pretrain_vlm.py", status=0, gpu="H100-80GB", container="dev"):
        words = [MEMTRACE, "estimate", "--system", "memtrace", "--json", "--world-size", "8", "--gpu", gpu, "--set", "container=" + container,
                 "--env", "NVTE_ALLOW_NONDETERMINISTIC_ALGO=0"]
        for name, value in CUBLAS.items():
            words += ["--env", "%s=%s" % (name, value)]
        done = self.run_([*words, "--", script, *arguments], status=status)
        return done.stderr if status else json.loads(done.stdout)

    def stages(self, *more, **named):
        return self.answer(*LLAVA, *more, **named)["estimates"][0]["per_stage"]

    def terms(self, *more, **named):
        return {t["id"]: t["bytes"] for t in self.stages(*more, **named)[0]["terms"]}

    def test_measured(self):
        """Megatron-LM's functional test multimodal_llava_mcore_te_tp1_pp1 measured these bytes after a step and at the peak."""
        for gpu, container, steady, peak in (("H100-80GB", "dev", 2431875072, 15774200832), ("A100-80GB", "dev", 2405254144, 15745753088),
                                             ("A100-80GB", "lts", 2402056704, 15714027520)):
            stage = self.stages(gpu=gpu, container=container)[0]
            self.assertLess(abs(stage["steady_bytes"] / steady - 1), 0.001)
            self.assertLess(abs(stage["peak_bytes"] / peak - 1), 0.0002)

    def test_parameters(self):
        """By a count by hand: two bytes a weight, and rests of blocks that are not split; four for its gradient, to the block."""
        terms = self.terms()
        self.assertLess(abs(terms["parameters.vision_encoder"] / (2 * VISION) - 1), 0.03)
        self.assertLess(abs(terms["parameters.projector"] / (2 * PROJECTOR) - 1), 0.03)
        self.assertLess(abs(terms["gradients.buffer"] - 4 * (LANGUAGE + VISION + PROJECTOR)), BLOCK)

    def test_frozen_parts(self):
        """They have no gradients, and what their weights' gradients need is not kept."""
        whole = self.terms()
        for arguments, rest in ((["--freeze-LM"], VISION + PROJECTOR), (["--freeze-ViT"], LANGUAGE + PROJECTOR), (["--freeze-LM", "--freeze-ViT"], PROJECTOR)):
            terms = self.terms(*arguments)
            self.assertLess(abs(terms["gradients.buffer"] - 4 * rest), BLOCK, arguments)
            self.assertLess(abs(terms["parameters.vision_encoder"] / whole["parameters.vision_encoder"] - 1), 0.03)
        hidden = 4 * ALL * 4 * WIDTH * 2 * LAYERS  # the results of the activation functions
        self.assertLess(abs(whole["activations.mlp.hidden"] - self.terms("--freeze-LM")["activations.mlp.hidden"] - hidden), hidden * 0.1)
        self.assertNotIn("activations.vision_encoder", self.terms("--freeze-ViT"))

    def test_softmax(self):
        """The fused kernel has a number of keys that 8 divides. Otherwise the softmax is kept in fp32 and in bf16, and in the newer container a mask for
        each call; --freeze-ViT keeps the peak in the language model."""
        odd, even = self.terms("--freeze-ViT"), self.terms("--freeze-ViT", "--disable-vision-class-token")
        old = self.terms("--freeze-ViT", container="lts")
        pairs = ALL * ALL
        self.assertLess(abs(odd["activations.attention.softmax"] / (LAYERS * (48 * 6 + 1) * pairs) - 1), 0.1)
        self.assertLess(abs(even["activations.attention.softmax"] / (LAYERS * 48 * 2 * (ALL - 1) ** 2) - 1), 0.1)
        self.assertLess(abs(odd["activations.attention.softmax"] - old["activations.attention.softmax"] - LAYERS * pairs), MIB)

    def test_tokens_of_the_text(self):
        """--dataloader-seq-length has them; the positions are those of all tokens."""
        short = self.terms("--dataloader-seq-length", "512")
        self.assertLess(abs(short["gradients.buffer"] - 4 * (LANGUAGE + VISION + PROJECTOR - (TEXT - 512) * WIDTH)), BLOCK)

    def test_stages(self):
        """The first one has the encoder, whose layers are not divided."""
        first, last = self.stages("--pipeline-model-parallel-size", "2", "--encoder-num-layers", "6")
        half = {t["id"]: t["bytes"] for t in first["terms"]}
        rest = VISION + PROJECTOR + (VOCABULARY + ALL) * WIDTH  # six layers of images less, six of the language model more
        self.assertLess(abs(half["gradients.buffer"] - 4 * rest), BLOCK)
        self.assertNotIn("parameters.vision_encoder", [t["id"] for t in last["terms"] if t["bytes"]])

    def test_the_script_names_the_model(self):
        """argparse's image is 224 x 224 in patches of 16 x 16."""
        said = self.answer(*LLAVA[:-6])
        self.assertEqual(said["config"]["model_type"], "llava")
        terms = {t["id"]: t["bytes"] for t in said["estimates"][0]["per_stage"][0]["terms"]}
        fewer = 2 * (PATCHES - 14 * 14) * WIDTH - 3 * (16 * 16 - 14 * 14) * WIDTH
        self.assertLess(abs(terms["gradients.buffer"] - 4 * (LANGUAGE + VISION + PROJECTOR - fewer)), BLOCK)
        self.assertEqual(self.stages(script="pretrain_gpt.py"), self.stages())

    def test_mimo(self):
        """Megatron-LM's functional test mimo_vlm_pretrain_convergence_tp1_pp1_cp2_dp8 measured 14,567,189,504 bytes after a step on H100. Its peak is not
        that of training: docs/validation.md."""
        stage = self.answer(*MIMO, "--context-parallel-size", "2", script="pretrain_mimo.py")["estimates"][0]["per_stage"][0]
        self.assertLess(abs(stage["steady_bytes"] / 14567189504 - 1), 0.0005)
        terms = {t["id"]: t["bytes"] for t in stage["terms"]}
        self.assertLess(abs(terms["parameters.vision_encoder"] / (2 * CLIP) - 1), 0.01)
        model = sum(terms["parameters." + part] for part in ("embedding", "attention", "mlp", "norms", "head"))
        self.assertLess(abs(model / (2 * VICUNA) - 1), 0.001)
        self.assertLess(abs(terms["gradients.buffer"] - 4 * ADAPTER), BLOCK)

    def test_mimo_has_sizes_of_its_own(self):
        """Those of the command line do not matter; another provider is another model."""
        given = self.answer(*MIMO)["estimates"][0]["per_stage"]
        self.assertEqual(self.answer(*MIMO, "--num-layers", "2", "--hidden-size", "64")["estimates"][0]["per_stage"], given)
        self.assertIn("another model than a GPT", self.answer(*LLAVA[:-6], "--model-provider", "llava_avlm", script="pretrain_gpt.py", status=2))
        self.assertIn("another model than llava_vlm", self.answer(*LLAVA[:-6], script="pretrain_mimo.py", status=2))
        for arguments, key in ((["--total-seq-length", "512"], "total_seq_length"), (["--tensor-model-parallel-size", "2"], "tensor_model_parallel_size"),
                               (["--packing-buffer-size", "4"], "packed sequences of images")):
            self.assertIn(key, self.answer(*MIMO, *arguments, status=2), arguments)

    def test_what_is_not_modelled(self):
        for arguments, key in ((["--context-parallel-size", "2"], "context_parallel_size"), (["--patch-dim", "13"], "patch_dim"),
                               (["--tensor-model-parallel-size", "2", "--sequence-parallel"], "sequence_parallel"),
                               (["--use-packed-sequence"], "packed sequences of images"),
                               (["--img-h", "98000", "--img-w", "98000", "--patch-dim", "98000", "--micro-batch-size", "12000", "--global-batch-size", "96000"], "img_h"), (["--num-experts", "8"], "not modelled with them"),
                               (["--pipeline-model-parallel-size", "2", "--num-layers-per-virtual-pipeline-stage", "2"], "virtual_pipeline"),
                               (["--recompute-granularity", "full", "--recompute-method", "uniform", "--recompute-num-layers", "3"], "recompute_num_layers")):
            self.assertIn(key, self.answer(*LLAVA, *arguments, status=2), arguments)


if __name__ == "__main__":
    unittest.main()

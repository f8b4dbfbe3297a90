"""memtrace estimate --how run: the model of a config.json, built and trained on the simulated device."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from harness import MEMTRACE, environment, python

ERNIE = {"model_type": "ernie", "architectures": ["ErnieForMaskedLM"], "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 8000, "max_position_embeddings": 512, "type_vocab_size": 2}
# embeddings (tokens, positions, types, norm), layers (four projections, two matrices, two norms), the head's transform and bias
ERNIE_PARAMETERS = 256 * (8000 + 512 + 2 + 2) + 2 * (4 * (256 * 256 + 256) + 2 * 256 * 1024 + 1024 + 256 + 4 * 256) + 256 * 256 + 3 * 256 + 8000
LLAMA = {"model_type": "llama", "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 2, "num_attention_heads": 8,
         "num_key_value_heads": 4, "vocab_size": 16000, "max_position_embeddings": 512, "tie_word_embeddings": False}

# Models of images and text: the token 7999 stands for a part of an image. An image of the first has 49 tokens; the second takes patches of any number,
# which the job computes on the GPU, of an image of 448 x 448 pixels 32 x 32, four for a token.
SIZES = {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 8000,
         "max_position_embeddings": 1024}
LLAVA = {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "image_token_index": 7999, "image_seq_length": 49,
         "vision_config": {"model_type": "clip_vision_model", "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 3, "num_attention_heads": 4,
                           "image_size": 224, "patch_size": 32},
         "text_config": {"model_type": "llama", **SIZES}}
QWEN_VL = {"model_type": "qwen2_5_vl", "architectures": ["Qwen2_5_VLForConditionalGeneration"], "image_token_id": 7999, "video_token_id": 7998,
           "vision_start_token_id": 7997, "vision_end_token_id": 7996,
           "vision_config": {"hidden_size": 256, "out_hidden_size": 256, "depth": 2, "num_heads": 4, "intermediate_size": 704, "fullatt_block_indexes": [1]},
           "text_config": {"model_type": "qwen2_5_vl_text", **SIZES, "rope_parameters": {"rope_type": "default", "mrope_section": [8, 12, 12], "rope_theta": 1e6}}}
# The same step, written without memtrace's code: the model's folder, images of a sequence.
OF_IMAGES = """
import sys, torch, transformers
config = transformers.AutoConfig.from_pretrained(sys.argv[1])
images = int(sys.argv[2])
with torch.device("cuda"):
    model = getattr(transformers, config.architectures[0])._from_config(config, dtype=torch.float32).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for _ in range(2):
    ids, batch = torch.randint(0, 7000, (2, 768)).cuda(), {}
    tokens = 49 if config.model_type == "llava" else 256
    for i in range(images):
        ids[:, i * (tokens + 1):i * (tokens + 1) + tokens] = 7999
    if images and config.model_type == "llava":
        batch["pixel_values"] = torch.zeros(2 * images, 3, 224, 224, device="cuda")
    elif images:
        batch["pixel_values"] = torch.zeros(2 * images * 32 * 32, 3 * 2 * 14 * 14, device="cuda")
        batch["image_grid_thw"] = torch.tensor([[1, 32, 32]] * (2 * images), device="cuda")
        batch["mm_token_type_ids"] = (ids == 7999).int()
    model(input_ids=ids, labels=ids, **batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(torch.cuda.max_memory_allocated())
"""


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def ask(self, config, *options, status=0, **settings):
        path = os.path.join(self.folder.name, "config.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config, f)
        env = environment(XDG_CACHE_HOME=self.folder.name, **{"MEMTRACE_PYTHON": python(), **settings})
        done = subprocess.run([MEMTRACE, "estimate", "--system", "memtrace", "--config", path, *options], text=True, capture_output=True,
                              env=env, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return json.loads(done.stdout)["estimates"][0] if status < 2 else done.stderr

    def test_a_model_without_formula(self):
        answer = self.ask(ERNIE, "--json", "--set", "micro_batch_size=4", "--set", "precision=fp32")
        self.assertEqual(answer["how"], "run")
        self.assertEqual(answer["num_parameters"], ERNIE_PARAMETERS)
        terms = {t["id"]: t["bytes"] for t in answer["terms"]}
        self.assertEqual(sum(terms.values()), answer["total_bytes"])
        self.assertLess(abs(terms["parameters"] / (4 * ERNIE_PARAMETERS) - 1), 0.01)
        self.assertLess(abs(terms["optimizer_states"] / (8 * ERNIE_PARAMETERS) - 1), 0.02)
        # the second time from what is kept, which no Python makes
        with open(os.path.join(self.folder.name, "memtrace", "models", os.listdir(os.path.join(self.folder.name, "memtrace", "models"))[0]),
                  encoding="utf-8") as f:
            kept = f.read()
        for part in ("ErnieForMaskedLM", "libcudasim.so ", "memtrace_inputs.py ", "memtrace_train.py ", " deepspeed 0"):  # what decides the result
            self.assertIn(part, kept)
        again = self.ask(ERNIE, "--json", "--set", "micro_batch_size=4", "--set", "precision=fp32", TMPDIR="/nonexistent")
        self.assertEqual(again["total_bytes"], answer["total_bytes"])

    def test_an_infinite_number(self):
        """transformers writes one as {"__float__": "Infinity"} into the file of every Mamba-2. The parameters by hand: embedding, projections, convolution."""
        mamba = {"model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"], "hidden_size": 256, "num_hidden_layers": 2, "num_heads": 8, "head_dim": 64,
                 "state_size": 64, "n_groups": 1, "vocab_size": 8000, "tie_word_embeddings": True, "time_step_limit": [0.0, {"__float__": "Infinity"}]}
        answer = self.ask(mamba, "--json", "--set", "seq_length=256", "--set", "precision=fp32")
        inner, convolved = 512, 512 + 2 * 64
        layer = 256 * (inner + convolved + 8) + (4 + 1) * convolved + 3 * 8 + inner + inner * 256 + 256
        self.assertEqual(answer["num_parameters"], 8000 * 256 + 2 * layer + 256)

    def test_images_beside_text(self):
        """Without images the encoder keeps no activations and gets no states, which the answer says; with them the peak is PyTorch's own."""
        options = ("--json", "--set", "precision=fp32", "--set", "micro_batch_size=2", "--set", "seq_length=768")
        for model, images in (LLAVA, 0), (LLAVA, 2), (QWEN_VL, 2):
            answer = self.ask(model, *options, "--set", "images_per_sequence=%d" % images)
            traces = os.path.join(self.folder.name, "traces")
            done = subprocess.run([MEMTRACE, "simulate", "-o", traces, "--", python(), "-c", OF_IMAGES, self.folder.name, str(images)], text=True,
                                  capture_output=True, check=True, env=environment(HF_HUB_OFFLINE=1))
            shutil.rmtree(traces)
            self.assertLess(abs(answer["total_bytes"] / int(done.stdout.split()[-1]) - 1), 0.005, (model["model_type"], images))
            self.assertEqual(any("images_per_sequence=N" in note for note in answer["notes"]), not images)
        message = self.ask(LLAVA, *options, "--set", "images_per_sequence=16", status=2)
        self.assertIn("images of 49 tokens, with one of text behind each, are more than seq_length=768", message)
        message = self.ask(LLAMA, *options, "--set", "images_per_sequence=1", "--how", "formula", status=2)
        self.assertIn("a formula counts text alone", message)

    def test_words_drawn_at_random_are_no_images(self):
        """Of 64 tokens one stands for an image: 1,336 words that are drawn at random would have it 21 times."""
        few = {**LLAVA, "image_token_index": 63, "text_config": {**LLAVA["text_config"], "vocab_size": 64}}
        answer = self.ask(few, "--json", *("--set=" + each for each in ("precision=fp32", "micro_batch_size=2", "seq_length=768", "images_per_sequence=2")))
        self.assertEqual(answer["how"], "run")

    def test_tokens_of_speech(self):
        """Whisper's decoder has 448 positions: the sequence that is assumed, and one that is declared, is that of the labels."""
        whisper = {"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "d_model": 128, "encoder_layers": 1, "decoder_layers": 1,
                   "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "vocab_size": 51865,
                   "max_target_positions": 448}
        most, short = (self.ask(whisper, "--json", "--set", "precision=fp32", *more)["total_bytes"] for more in ([], ["--set", "seq_length=64"]))
        self.assertEqual(self.ask(whisper, "--json", "--set", "precision=fp32", "--set", "seq_length=448")["total_bytes"], most)
        self.assertGreater(most - short, 384 * 51865 * 4 * 2)  # logits and their gradient

    def test_each_gpu_has_its_own_context(self):
        """One cache: what is kept of a GPU is no answer for another one. 618 MiB are missing on the H100 of modded-nanogpt's logs (context.def). A T4
        holds 40 x 1024 threads instead of 132 x 2048, of 2363 bytes each; 9 MiB are the same."""
        options = ("--json", "--how", "run", "--set", "precision=fp32")
        stages = [self.ask(ERNIE, *options, "--gpu", gpu)["per_stage"][0] for gpu in ("T4", "H100-80GB", "T4")]
        contexts = [part["bytes"] >> 20 for s in stages for part in s["outside"] if part["id"] == "context"]
        self.assertEqual(contexts, [(40 * 1024 * 2363 >> 20) + 9, 618, (40 * 1024 * 2363 >> 20) + 9])

    def test_deepspeed_on_one_rank_with_the_default_batch(self):
        answer = self.ask(LLAMA, "--json", "--how", "run", "--set", "framework=deepspeed")
        self.assertEqual(answer["num_parameters"], 2 * 16000 * 512 + 2 * (2 * 512 * 512 + 2 * 512 * 256 + 3 * 512 * 1408 + 2 * 512) + 512)

    def test_formula_and_run_agree(self):
        options = ("--json", "--set", "micro_batch_size=4", "--set", "keep_logits=true")
        formula, run = (self.ask(LLAMA, *options, "--how", how) for how in ("formula", "run"))
        self.assertNotIn("how", formula)
        for key in ("total_bytes", "steady_bytes"):
            self.assertLess(abs(run[key] / formula[key] - 1), 0.005, key)

    def test_a_version_of_another_build(self):
        """The declared version may have the build's name, as PyTorch's own has it, or none."""
        own = subprocess.run([python(), "-c", "import torch; print(torch.__version__)"], text=True, capture_output=True, check=True).stdout.strip()
        self.assertIn("+", own)
        for version in own, own.split("+")[0]:
            answer = self.ask(ERNIE, "--json", "--set", "precision=fp32", "--set", "torch_version=" + version)
            self.assertEqual(answer["how"], "run")
        message = self.ask(ERNIE, "--set", "precision=fp32", "--set", "torch_version=%s+other" % own.split("+")[0], status=2)
        self.assertIn("this Python has " + own, message)

    def test_a_cache_of_keys_and_values(self):
        """GPT-2 keeps them out of the projection that makes queries too: two more tensors of b s h elements in each of three layers."""
        gpt2 = {"model_type": "gpt2", "n_layer": 3, "n_embd": 512, "n_head": 8, "vocab_size": 16000}
        options = ("--json", *("--set=" + each for each in ("precision=fp32", "micro_batch_size=4", "seq_length=512", "use_cache=true")))
        run, formula, without = (self.ask(gpt2, *options, *more) for more in (("--how", "run"), ("--how", "formula"), ("--how", "formula", "--set", "use_cache=false")))
        self.assertLess(abs(formula["total_bytes"] / run["total_bytes"] - 1), 0.001)
        self.assertEqual(formula["total_bytes"] - without["total_bytes"], 3 * 2 * 4 * 512 * 512 * 4)
        self.assertIn("modelled for gpt2 alone", self.ask(LLAMA, *options, "--how", "formula", status=2))

    def test_the_shell_s_settings_are_no_part_of_the_model(self):
        """A recorder that is off, a budget, a small card, an allocator's setting: none changes a result that is kept for the next shell."""
        options = ("--json", "--how", "run", "--set", "precision=fp32")
        own = self.ask(ERNIE, *options)
        shutil.rmtree(os.path.join(self.folder.name, "memtrace"))
        self.assertEqual(self.ask(ERNIE, *options, MEMTRACE_DISABLE="1", MEMTRACE_BUDGET="1M", CUDASIM_MEMORY="64M", CUDASIM_DRIVER="100", CUDA_VISIBLE_DEVICES="",
                                  PYTORCH_NO_CUDA_MEMORY_CACHING="1", PYTORCH_ALLOC_CONF="expandable_segments:True"), own)

    def test_neither(self):
        self.assertIn("no model_type", self.ask({**ERNIE, "model_type": "nothing_like_it"}, status=2))
        message = self.ask(ERNIE, status=2, MEMTRACE_PYTHON="/bin/false")
        self.assertIn("pip install", message)
        self.assertIn('model_type "ernie" is not modelled', message)
        self.assertNotIn("missing", message)
        message = self.ask(ERNIE, "--set", "precision=fp8-mixed", status=2)
        self.assertIn('model_type "ernie" is not modelled', message)
        self.assertIn("only fp32", message)
        self.assertIn("No such file", self.ask(ERNIE, "--python", "/nonexistent", status=2))
        self.assertIn("tensor_model_parallel_size=2", self.ask(ERNIE, "--how", "run", "--set", "tensor_model_parallel_size=2", "--world-size", "2", status=2))

    def test_what_a_run_would_ignore_is_refused(self):
        for options, part in (
                (("--how", "run", "--set", "precision=fp8-mixed"), "only fp32"),
                (("--how", "run", "--set", "data_parallel_size=2", "--set", "zero_stage=1"), "DeepSpeed only"),
                (("--set", "precision=fp8-mixed"), "fp8 is not modelled"),
                (("--set", "data_parallel_size=2", "--set", "zero_stage=2"), "expected 0 or 3"),
                (("--how", "run", "--set", "torch_version=2.5"), "this Python has 2."),
                (("--set", "lora_rank=4", "--set", "use_liger_kernel=true", "--set", "attention_dropout=0.1"), "attention_dropout=0.1")):
            self.assertIn(part, self.ask(LLAMA, *options, status=2), options)

    def test_a_field_that_a_run_does_not_obey_is_named(self):
        for field in ("num_layers=9", "hidden_dropout=0.1", "offload_optimizer=cpu", "cpu_offloading=true", "torch_compile=true", "zero_init=true",
                      "recompute_method=block", "fp32_residual_connection=true", "cross_entropy_loss_fusion=true", "grad_bytes=4"):
            self.assertIn(field, self.ask(LLAMA, "--how", "run", "--set", field, status=2))

    def test_lora(self):
        rank, layers, hidden, values = 128, 2, 512, 256  # PEFT adapts q_proj and v_proj of a Llama: r x in and out x r each
        adapters = layers * rank * ((hidden + hidden) + (hidden + values))
        whole = 2 * 16000 * hidden + layers * (2 * hidden * hidden + 2 * hidden * values + 3 * hidden * 1408 + 2 * hidden) + hidden
        answer = self.ask(LLAMA, "--json", "--set", "lora_rank=%d" % rank, "--set", "precision=fp32")
        self.assertEqual((answer["how"], answer["num_parameters"]), ("run", whole + adapters))
        states = {t["id"]: t["bytes"] for t in answer["terms"]}["optimizer_states"]
        self.assertLess(abs(states / (8 * adapters) - 1), 0.02)

    def test_flat_sharding(self):
        options = ("--json", "--set", "data_parallel_size=2", "--set", "zero_stage=3", "--set", "fsdp_version=1", "--world-size", "2")
        formula, run = (self.ask(LLAMA, *options, "--how", how) for how in ("formula", "run"))
        self.assertLess(abs(run["total_bytes"] / formula["total_bytes"] - 1), 0.015)

    def test_environment_is_the_jobs(self):
        options = ("--json", "--how", "run", "--set", "micro_batch_size=4")
        mine = "PYTORCH_CUDA_ALLOC_CONF"
        plain = self.ask(LLAMA, *options, **{mine: "expandable_segments:True"})
        asked = self.ask(LLAMA, *options, "--env", mine + "=expandable_segments:True")
        self.assertLess(asked["reserved_bytes"], plain["reserved_bytes"])


if __name__ == "__main__":
    unittest.main()

"""transformers' decoders by formula (analyzer/families/llama.c): what layers that are recomputed keep, and the buffers of each type. The numbers are PyTorch's
own counters, as in test_estimate_encoders.py."""
import test_estimate_plain as plain

from harness import Case

SIZES = {"num_hidden_layers": 4, "hidden_size": 512, "intermediate_size": 1408, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 32000,
         "max_position_embeddings": 2048}


def model(kind, name, **more):
    return {"model_type": kind, "architectures": [name + "ForCausalLM"], **SIZES, **more}


FULL = {"micro_batch_size": 2, "seq_length": 640, "precision": "bf16-mixed", **plain.FULL}
JOB = {"micro_batch_size": 2, "seq_length": 512}
QWEN2_MOE = model("qwen2_moe", "Qwen2Moe", num_experts=8, num_experts_per_tok=2, moe_intermediate_size=256, shared_expert_intermediate_size=512, decoder_sparse_step=1)
# model, job, parameters, bytes after a step, peak
EXACT = [
    # the numbers of the positions, 8 bytes for each token of a sequence, are an argument of each checkpoint
    (model("llama", "Llama", tie_word_embeddings=False), FULL, 44044800, 530863104, 1072856576),
    (model("qwen3", "Qwen3", head_dim=64, tie_word_embeddings=False), FULL, 44045312, 532780032, 1076215296),
    # Gemma's embedding has a buffer for its factor; layers that see all tokens have tables of their own, of which the sixth is the first
    (model("gemma", "Gemma", head_dim=64), JOB, 27660800, 334580736, 904934912),
    (model("gemma3_text", "Gemma3", head_dim=64, num_hidden_layers=7, sliding_window=4096), JOB, 36126080, 438694400, 1210369024),
    (model("gemma3_text", "Gemma3", head_dim=64, sliding_window=4096), JOB, 27665408, 335961088, 963679744),
]


class Decoders(Case):
    ask, numbers = plain.Plain.ask, plain.Plain.numbers

    def test_the_real_models_bytes(self):
        for kind, job, *numbers in EXACT:
            with self.subTest(model=kind, job=job):
                self.assertEqual(list(self.numbers(kind, job)), numbers)

    def test_a_mask_that_no_layer_was_given(self):
        """Qwen2-MoE makes a mask of a window without a layer that has one: recomputed layers do not keep it (1,024 x 1,024 bytes)."""
        _, _, peak = self.numbers(QWEN2_MOE, {**FULL, "micro_batch_size": 1, "seq_length": 1024})
        self.assertLess(abs(peak / 1059169792 - 1), 0.001)

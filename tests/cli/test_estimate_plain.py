"""transformers' models with LayerNorm by formula (analyzer/families/plain.def). The numbers are PyTorch's own counters, torch.cuda.memory_allocated()
and max_memory_allocated(), after two steps of the real models (transformers 5.23, PyTorch 2.15, `memtrace estimate --how run`)."""
import json
import os

from harness import Case, MEMTRACE

GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 2, "n_embd": 512, "n_head": 8, "vocab_size": 6144}
STILL = {**GPT2, "attn_pdrop": 0, "resid_pdrop": 0, "embd_pdrop": 0}
UNTIED = {**GPT2, "tie_word_embeddings": False, "n_layer": 3, "n_embd": 640, "n_head": 10, "n_inner": 1728, "embd_pdrop": 0.2, "attn_pdrop": 0}
GELU = {**GPT2, "activation_function": "gelu", "n_embd": 768, "n_head": 12, "n_layer": 5}
RELU = {**GPT2, "activation_function": "relu", "n_layer": 4, "vocab_size": 50257}
NEOX = {"model_type": "gpt_neox", "num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 8, "intermediate_size": 2048,
        "vocab_size": 6144}
WIDE = {**NEOX, "hidden_size": 2048, "num_attention_heads": 16, "intermediate_size": 8192}
NEOX_DROPS = {**NEOX, "hidden_dropout": 0.1, "attention_dropout": 0.1, "rotary_pct": 0.5, "num_hidden_layers": 3, "hidden_size": 640,
              "num_attention_heads": 10, "intermediate_size": 1728, "tie_word_embeddings": True}
BLOOM = {"model_type": "bloom", "architectures": ["BloomForCausalLM"], "n_layer": 2, "hidden_size": 512, "n_head": 8, "vocab_size": 6144}
BLOOM_DROPS = {**BLOOM, "hidden_dropout": 0.1, "attention_dropout": 0.1, "n_layer": 3, "hidden_size": 640, "n_head": 10}
FALCON = {"model_type": "falcon", "architectures": ["FalconForCausalLM"], "num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 8,
          "vocab_size": 6144}
GROUPED = {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2, "num_hidden_layers": 3, "hidden_size": 640, "num_attention_heads": 10}
ONE_NORM = {**GROUPED, "num_ln_in_parallel_attn": 1, "ffn_hidden_size": 1728, "hidden_dropout": 0.1}
RW = {**FALCON, "alibi": True, "bias": True, "multi_query": False, "parallel_attn": False}
RW_DROPS = {**RW, "hidden_dropout": 0.1, "attention_dropout": 0.1}
RW_ODD = {**RW, "num_hidden_layers": 3, "hidden_size": 640, "num_attention_heads": 10, "ffn_hidden_size": 1728}
JOB = {"precision": "bf16-autocast", "micro_batch_size": 3, "seq_length": 640, "torch_version": "2.15"}
EAGER = {**JOB, "attention": "eager"}
SINGLE = {**EAGER, "micro_batch_size": 1}
FULL = {"recompute_granularity": "full"}
TWO = {**JOB, "data_parallel_size": 2}
# model, job, parameters, bytes after a step, peak
EXACT = [
    (GPT2, JOB, 9975808, 122623488, 468271104),
    (GPT2, {**JOB, "precision": "bf16"}, 9975808, 59885056, 324923392),
    (GPT2, {**JOB, **FULL, "micro_batch_size": 4, "seq_length": 1024}, 9975808, 122903040, 462683136),
    (GPT2, EAGER, 9975808, 123672064, 602757120),
    (GPT2, {**EAGER, **FULL}, 9975808, 120133120, 363469824),
    (GPT2, SINGLE, 9975808, 121040384, 297428992),
    (GPT2, {**SINGLE, "precision": "fp32"}, 9975808, 120319488, 325085184),
    (GPT2, {**SINGLE, "precision": "bf16"}, 9975808, 60399104, 182523904),
    (GPT2, {**SINGLE, **FULL}, 9975808, 120516096, 249734144),
    (STILL, {**SINGLE, "precision": "fp32", "seq_length": 500}, 9975808, 120313856, 255863808),
    (UNTIED, {**SINGLE, "precision": "bf16", "seq_length": 576}, 20094144, 121396224, 244579328),
    (GPT2, {**JOB, "micro_batch_size": 1, "seq_length": 128, "optimizer_implementation": "foreach"}, 9975808, 120759808, 204760576),
    (STILL, {**JOB, "precision": "fp32", "micro_batch_size": 2, "seq_length": 500}, 9975808, 122485248, 318944256),
    (UNTIED, {**EAGER, "precision": "bf16", "micro_batch_size": 2, "seq_length": 576}, 20094144, 122138112, 355515904),
    (RELU, {**JOB, "micro_batch_size": 8, "seq_length": 1000, "num_microbatches": 3, "clip_grad": 1.0}, 38866432, 468683776, 6057799680),
    (GELU, JOB, 40945920, 493627904, 1030090752),
    (GPT2, TWO, 9975808, 163175936, 509689856),
    (GPT2, {**TWO, "precision": "bf16-mixed", "fsdp": True}, 9975808, 61982208, 341715968),
    (GPT2, {**TWO, "precision": "bf16-mixed", "framework": "deepspeed", "zero_stage": 2}, 9975808, 83902976, 1252209664),
    (NEOX, JOB, 12597248, 152246784, 399994880),
    (NEOX, {**JOB, "precision": "bf16"}, 12597248, 77318656, 297631744),
    (NEOX, {**JOB, "precision": "fp32", "micro_batch_size": 2, "seq_length": 500}, 12597248, 154893824, 306013184),
    (NEOX, {**JOB, **FULL, "micro_batch_size": 4, "seq_length": 1024}, 12597248, 153312768, 491126784),
    (NEOX, EAGER, 12597248, 153295360, 509118464),
    (NEOX, SINGLE, 12597248, 153285120, 288266240),
    (NEOX, {**SINGLE, "precision": "fp32"}, 12597248, 152760832, 292591616),
    (NEOX, {**SINGLE, "precision": "bf16"}, 12597248, 76653056, 191801344),
    (NEOX, {**SINGLE, **FULL}, 12597248, 152498688, 259593216),
    (NEOX, {**JOB, "micro_batch_size": 8, "seq_length": 1000, "num_microbatches": 3, "clip_grad": 1.0}, 12597248, 153868288, 1158575104),
    (WIDE, {**JOB, "micro_batch_size": 1, "seq_length": 2048}, 125886464, 1510669824, 2283317760),
    (NEOX_DROPS, JOB, 15506624, 192082432, 506865664),
    (NEOX_DROPS, {**EAGER, "precision": "bf16", "micro_batch_size": 2, "seq_length": 576}, 15506624, 95088128, 389794816),
    (NEOX_DROPS, {**EAGER, **FULL}, 15506624, 190050816, 476252160),
    (NEOX_DROPS, SINGLE, 15506624, 192170496, 407033856),
    (NEOX_DROPS, {**SINGLE, "precision": "bf16", "seq_length": 576}, 15506624, 94002176, 251742720),
    (NEOX_DROPS, {**SINGLE, **FULL}, 15506624, 190843392, 339067904),
    (NEOX_DROPS, {**SINGLE, **FULL, "precision": "fp32", "seq_length": 1000}, 15506624, 191895552, 446313984),
    (NEOX_DROPS, TWO, 15506624, 254595584, 569053184),
    (NEOX, {**TWO, "precision": "bf16-mixed", "fsdp": True}, 12597248, 78760448, 318487552),
    (NEOX, {**TWO, "precision": "bf16-mixed", "framework": "deepspeed", "zero_stage": 2}, 12597248, 100795904, 1218327552),
    (BLOOM, JOB, 9452544, 116082688, 481407488),
    (BLOOM, {**JOB, "precision": "fp32"}, 9452544, 115623936, 481145344),
    (BLOOM, {**JOB, "precision": "bf16"}, 9452544, 58187776, 392284672),
    (BLOOM, {**JOB, **FULL, "micro_batch_size": 4, "seq_length": 1024}, 9452544, 116624384, 751257088),
    (BLOOM, {**JOB, "micro_batch_size": 1, "seq_length": 128, "optimizer_implementation": "foreach"}, 9452544, 115529216, 193246720),
    (BLOOM, {**JOB, "micro_batch_size": 8, "seq_length": 1000, "num_microbatches": 3, "clip_grad": 1.0}, 9452544, 115213824, 1870873088),
    (BLOOM, {**JOB, "precision": "fp32", "optimizer": "sgd", "momentum": 0.9, "micro_batch_size": 2, "seq_length": 500}, 9452544, 76677632,
     257016832),
    (BLOOM_DROPS, JOB, 18705280, 225548800, 820116480),
    (BLOOM_DROPS, {**JOB, "precision": "bf16", "micro_batch_size": 2, "seq_length": 576}, 18705280, 113657856, 423995904),
    (BLOOM_DROPS, {**JOB, **FULL}, 18705280, 226269696, 529508352),
    (BLOOM_DROPS, {**JOB, **FULL, "precision": "bf16"}, 18705280, 112975872, 366589952),
    (BLOOM_DROPS, TWO, 18705280, 301184000, 897008640),
    (BLOOM, {**TWO, "precision": "bf16-mixed", "fsdp": True}, 9452544, 58843136, 406851072),
    (BLOOM, {**TWO, "precision": "bf16-mixed", "framework": "deepspeed", "zero_stage": 1}, 9452544, 75637248, 1351966720),
    (BLOOM, {**TWO, "precision": "bf16-mixed", "framework": "deepspeed", "zero_stage": 2}, 9452544, 75637248, 1346877440),
    (FALCON, JOB, 8522752, 104394752, 335451648),
    (FALCON, {**JOB, "precision": "fp32"}, 8522752, 103280640, 362911232),
    (FALCON, {**JOB, "precision": "bf16"}, 8522752, 52209664, 254823936),
    (FALCON, {**JOB, "gpu": "A100"}, 8522752, 103673856, 334435840),
    (FALCON, EAGER, 8522752, 103346176, 455224832),
    (FALCON, {**EAGER, "micro_batch_size": 1}, 8522752, 103335936, 231935488),
    (FALCON, {**EAGER, **FULL, "precision": "bf16"}, 8522752, 52865024, 208566784),
    (FALCON, {**JOB, "micro_batch_size": 8, "seq_length": 1000, "num_microbatches": 3, "clip_grad": 1.0}, 8522752, 102608384, 1041042944),
    (FALCON, TWO, 8522752, 138735616, 369931776),
    (FALCON, {**TWO, "precision": "bf16-mixed", "framework": "deepspeed", "zero_stage": 2}, 8522752, 68199936, 1174082560),
    (GROUPED, JOB, 16720640, 205036544, 520871424),
    (GROUPED, {**JOB, "precision": "bf16"}, 16720640, 103642112, 374978048),
    (GROUPED, {**EAGER, "precision": "fp32"}, 16720640, 205200384, 727698944),
    (GROUPED, {**EAGER, **FULL}, 16720640, 206445568, 501322240),
    (GROUPED, {**JOB, "micro_batch_size": 2, "seq_length": 128, "optimizer_implementation": "foreach"}, 16720640, 202158592, 338414080),
    (GROUPED, TWO, 16720640, 272685056, 585144832),
    (ONE_NORM, JOB, 13521920, 167894016, 462793216),
    (ONE_NORM, {**EAGER, "precision": "bf16"}, 13521920, 84376576, 396540416),
    (RW, JOB, 9451520, 116070400, 414461440),
    (RW, {**JOB, "precision": "bf16"}, 9451520, 59885568, 291823104),
    (RW, {**JOB, "precision": "fp32"}, 9451520, 114759680, 434777600),
    (RW, EAGER, 9451520, 114497536, 493897216),
    (RW, {**EAGER, "precision": "bf16"}, 9451520, 57526272, 321635328),
    (RW, {**EAGER, "precision": "fp32"}, 9451520, 116332544, 475547136),
    (RW, {**JOB, **FULL}, 9451520, 114104320, 320952832),
    (RW, {**EAGER, **FULL}, 9451520, 115546112, 417945600),
    (RW, {**JOB, "gpu": "A100"}, 9451520, 115283968, 413937152),
    (RW, {**JOB, "micro_batch_size": 2, "seq_length": 500}, 9451520, 113806848, 271874048),
    (RW_DROPS, JOB, 9451520, 114235392, 415376896),
    (RW_DROPS, EAGER, 9451520, 115152896, 593497088),
    (RW_DROPS, {**JOB, "precision": "bf16"}, 9451520, 58181632, 294442496),
    (RW_ODD, EAGER, 15506624, 191066624, 767744512),
    ({**RW, "bias": False}, JOB, 9442304, 115169280, 395341312),
    ({**RW, "bias": False}, {**EAGER, "precision": "bf16"}, 9442304, 58908672, 323542016),
    ({**RW, "alibi": False}, JOB, 9451520, 115808256, 380022272),
    ({**RW, "alibi": False}, EAGER, 9451520, 116135936, 493372928),
    ({**RW, "parallel_attn": True}, JOB, 9449472, 116568064, 405884416),
    ({**RW, "multi_query": True}, JOB, 8532224, 103203840, 394486272),
    ({**RW, "multi_query": True}, EAGER, 8532224, 104776704, 482212352),
    (RW, TWO, 9451520, 153090048, 449594880),
    (RW, {**TWO, "precision": "bf16-mixed", "fsdp": True}, 9451520, 58836992, 304273920),
    (RW, {**TWO, "precision": "bf16-mixed", "framework": "deepspeed", "zero_stage": 2}, 9451520, 75630080, 1211704320),
    (RW, {**JOB, "micro_batch_size": 8, "seq_length": 300, "num_microbatches": 3, "clip_grad": 1.0}, 9451520, 115222528, 492787712),
]
# the same allocations and frees in the same order; the addresses of segments decide which free block, up to 1 MiB larger, the allocator takes
CLOSE = [
    (UNTIED, JOB, 20094144, 248443392, 676838400),
    (UNTIED, {**JOB, "precision": "fp16-mixed", "micro_batch_size": 5, "seq_length": 257}, 20094144, 247502848, 543617024),
    (UNTIED, {**SINGLE, **FULL, "precision": "bf16", "seq_length": 1000}, 20094144, 122349056, 244900352),
    (BLOOM, {**JOB, "micro_batch_size": 1, "seq_length": 1024}, 9452544, 117648384, 364117504),
    (FALCON, {**TWO, "precision": "bf16-mixed", "fsdp": True}, 8522752, 51161088, 265149952),
    (RW, {**JOB, "micro_batch_size": 1}, 9451520, 115404800, 229728256),
    (RW_ODD, JOB, 15506624, 192082432, 582526976),
]
REFUSED = [
    ({**GROUPED, "num_kv_heads": 10}, JOB, "num_kv_heads"), ({**GROUPED, "num_kv_heads": 1}, JOB, "num_kv_heads"),
    ({**FALCON, "activation": "mish"}, JOB, "hidden_act"),
    ({**FALCON, "architectures": ["FalconForTokenClassification"]}, JOB, "FalconForTokenClassification"),
    ({**BLOOM, "apply_residual_connection_post_layernorm": True}, JOB, "apply_residual_connection_post_layernorm"),
    ({**BLOOM, "slow_but_exact": True, "pretraining_tp": 2}, JOB, "slow_but_exact"), (BLOOM, {**JOB, "attention": "sdpa"}, "attention"),
    ({**BLOOM, "architectures": ["BloomForTokenClassification"]}, JOB, "BloomForTokenClassification"),
    ({**NEOX, "use_parallel_residual": False}, JOB, "use_parallel_residual"), ({**NEOX, "hidden_act": "mish"}, JOB, "hidden_act"),
    ({**NEOX, "attention_bias": False}, JOB, "add_bias_linear"),
    (GPT2, {**TWO, "fsdp": True, "fsdp_version": 1}, "fsdp_version"),
    (GPT2, {**TWO, "precision": "bf16-mixed", "framework": "deepspeed", "zero_stage": 3}, "zero_stage"),
    (GPT2, {**JOB, "packed_sequences": True}, "packed_sequences"),
    (GPT2, {**JOB, "tensor_model_parallel_size": 2}, "tensor_model_parallel_size"),
    ({**GPT2, "activation_function": "mish"}, JOB, "hidden_act"),
    ({**GPT2, "add_cross_attention": True}, JOB, "add_cross_attention"),
    ({**GPT2, "reorder_and_upcast_attn": True}, EAGER, "reorder_and_upcast_attn"),
    ({**GPT2, "architectures": ["GPT2ForSequenceClassification"]}, JOB, "GPT2ForSequenceClassification"),
    ({"model_type": "llama", "architectures": ["LlamaForTokenClassification"], "hidden_size": 512, "intermediate_size": 1408,
      "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 6144}, JOB, "LlamaForTokenClassification"),
]


class RealModels:
    """The numbers of real models, EXACT and CLOSE: rows of a model, its job, and the numbers."""

    def ask(self, model, job, how, status=0):
        path = os.path.join(self.dir, "config.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(model, f)
        fields = [part for key, value in job.items() for part in ("--set", "%s=%s" % (key, json.dumps(value).strip('"')))]
        return self.run_([MEMTRACE, "estimate", "--json", "--how", how, "--system", "memtrace", "--config", path, *fields], status=status,
                         MEMTRACE_PYTHON="/nonexistent")

    def numbers(self, model, job):
        answer = json.loads(self.ask(model, job, "auto").stdout)
        estimate = answer["estimates"][0]
        return answer["config"]["num_parameters"], estimate["steady_bytes"], estimate["total_bytes"]

    def test_the_real_models_bytes(self):
        for model, job, *numbers in self.EXACT:
            with self.subTest(model=model, job=job):
                self.assertEqual(list(self.numbers(model, job)), numbers)

    def test_bytes_that_addresses_decide(self):
        for model, job, *numbers in self.CLOSE:
            with self.subTest(model=model, job=job):
                for ours, observed in zip(self.numbers(model, job), numbers):
                    self.assertLess(abs(ours / observed - 1), 0.0025)

    def test_what_is_not_derived(self):
        """Refused by the formula with the key, and left to the run, which fails here for want of a Python alone."""
        for model, job, key in self.REFUSED:
            with self.subTest(key=key):
                self.assertIn(key, self.ask(model, job, "formula", 2).stderr)
                if "tensor_model_parallel_size" not in job:
                    self.assertIn("/nonexistent", self.ask(model, job, "auto", 2).stderr)


class Plain(RealModels, Case):
    EXACT, CLOSE, REFUSED = EXACT, CLOSE, REFUSED

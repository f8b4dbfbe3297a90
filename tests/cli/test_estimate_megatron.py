"""Megatron-LM's jobs: parameters, states and workspaces against hand calculations."""
import json
import os
import re

from harness import Case, MEMTRACE, ROOT

MIB = 1 << 20
TOKENS = 1024
SMALL = ["--num-layers", "12", "--hidden-size", "512", "--num-attention-heads", "8", "--seq-length", str(TOKENS),
         "--max-position-embeddings", str(TOKENS), "--micro-batch-size", "4", "--global-batch-size", "32", "--bf16",
         "--no-gradient-accumulation-fusion", "--use-mcore-models"]
CUBLAS = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "NVTE_ALLOW_NONDETERMINISTIC_ALGO": "0"}


def layer(width, ffn, tp=1):
    """Parameters of a GPT layer: two LayerNorms, attention, feed-forward network; biases of row-parallel layers are not divided."""
    norms = 4 * width
    attention = 3 * width * (width + 1) // tp + width * width // tp + width
    return norms + attention + (width + 1) * ffn // tp + width * ffn // tp + width


class Megatron(Case):
    def stages(self, *arguments, world=8, gpu="H100-80GB", env=None):
        words = [MEMTRACE, "estimate", "--system", "memtrace", "--json", "--world-size", str(world), "--gpu", gpu, "--set",
                 "container=dev"]
        for name, value in (env or CUBLAS).items():
            words += ["--env", f"{name}={value}"]
        answer, = json.loads(self.run_([*words, "--", "pretrain_gpt.py", *SMALL, *arguments]).stdout)["estimates"]
        return [({t["id"]: t["steady_bytes"] for t in stage["terms"]}, stage) for stage in answer["per_stage"]]

    def near(self, got, want, blocks=1):
        """A block may have a tail of up to 1 MiB that is not split off."""
        self.assertGreaterEqual(got, want)
        self.assertLessEqual(got - want, blocks * MIB)

    def parameters(self, terms):
        return sum(size for name, size in terms.items() if name.startswith("parameters."))

    def test_distributed_optimizer(self):
        """Every rank has 2 + 4 bytes for each parameter, and 12 bytes for each parameter of its eighth."""
        (terms, _), = self.stages("--padded-vocab-size", "50304", "--use-distributed-optimizer")
        count = 50304 * 512 + TOKENS * 512 + 12 * layer(512, 2048) + 2 * 512
        self.near(self.parameters(terms), 2 * count)
        self.near(terms["gradients.buffer"], 4 * count)
        # the last rank has the embedding only: one shard
        for name in ("master", "exp_avg", "exp_avg_sq"):
            self.near(terms["optimizer_states." + name], 4 * count // 8)

    def test_instances(self):
        """Two instances of the optimizer: four ranks share one."""
        (terms, _), = self.stages("--padded-vocab-size", "50304", "--use-distributed-optimizer",
                                  "--num-distributed-optimizer-instances", "2")
        count = 50304 * 512 + TOKENS * 512 + 12 * layer(512, 2048) + 2 * 512
        self.near(terms["optimizer_states.exp_avg"], 4 * count // 4)

    COUNT = 2 * 50304 * 512 + TOKENS * 512 + 12 * layer(512, 2048) + 2 * 512  # of an untied model
    UNTIED = ("--padded-vocab-size", "50304", "--untie-embeddings-and-output-weights")

    def test_torch_fsdp2(self):
        """Each rank has an eighth of each tensor: 2 bytes, 12 of the optimizer, and the gradients' fp32 copies until the next step begins."""
        (terms, _), = self.stages(*self.UNTIED, "--use-torch-fsdp2")
        self.near(self.parameters(terms), 2 * self.COUNT // 8)
        for name in ("gradients", "optimizer_states.master", "optimizer_states.exp_avg", "optimizer_states.exp_avg_sq"):
            self.near(terms[name], 4 * self.COUNT // 8)

    def test_own_fsdp(self):
        """Each rank has an eighth; but all weights are gathered for the next step, because they have fewer than 500 million elements."""
        (terms, _), = self.stages(*self.UNTIED, "--use-megatron-fsdp", "--data-parallel-sharding-strategy", "optim_grads_params",
                                  "--use-distributed-optimizer")
        self.near(terms["parameters.sharded"], 2 * self.COUNT // 8)
        self.near(terms["parameters.gathered"], 2 * self.COUNT, blocks=13)
        for name in ("gradients.buffer", "optimizer_states.master", "optimizer_states.exp_avg", "optimizer_states.exp_avg_sq"):
            self.near(terms[name], 4 * self.COUNT // 8, blocks=13)

    def test_strategies_of_own_fsdp(self):
        """What is not sharded is whole on each of eight ranks: weights, gradients, the optimizer's states."""
        shares = {"no_shard": (1, 1, 1), "optim": (1, 1, 8), "optim_grads": (1, 8, 8)}
        for strategy, (weights, gradients, states) in shares.items():
            (terms, _), = self.stages(*self.UNTIED, "--use-megatron-fsdp", "--data-parallel-sharding-strategy", strategy)
            self.near(self.parameters(terms), 2 * self.COUNT // weights, blocks=2)
            self.near(terms["gradients.buffer"], 4 * self.COUNT // gradients)
            for name in ("master", "exp_avg", "exp_avg_sq"):
                # the last rank has the padding of the buckets; each block may have a tail
                self.assertLess(abs(terms["optimizer_states." + name] - 4 * self.COUNT // states), 16 * MIB)

    def test_last_stage(self):
        """The last stage has its layers, the final LayerNorm and a copy of the tied embedding."""
        (_, _), (terms, _) = self.stages("--padded-vocab-size", "50432", "--tensor-model-parallel-size", "2",
                                         "--pipeline-model-parallel-size", "2")
        count = 50432 // 2 * 512 + 6 * layer(512, 2048, tp=2) + 2 * 512
        self.near(terms["gradients.buffer"], 4 * count)
        self.near(self.parameters(terms), 2 * count, blocks=2)

    def test_uneven_stages(self):
        even = self.stages("--padded-vocab-size", "50304", "--pipeline-model-parallel-size", "4")
        uneven = self.stages("--padded-vocab-size", "50304", "--pipeline-model-parallel-size", "4",
                             "--decoder-first-pipeline-num-layers", "2", "--decoder-last-pipeline-num-layers", "2")
        change = [b["gradients.buffer"] - a["gradients.buffer"] for (a, _), (b, _) in zip(even, uneven)]
        # 3 3 3 3 layers, and 2 4 4 2
        for got, layers in zip(change, (-1, 1, 1, -1)):
            self.assertLessEqual(abs(got - layers * 4 * layer(512, 2048)), MIB)

    def test_experts(self):
        """Eight experts on two expert-parallel ranks: four on each, sharded over two of four ranks; all other parameters over all four."""
        (terms, _), = self.stages("--padded-vocab-size", "50432", "--tensor-model-parallel-size", "2", "--sequence-parallel",
                                  "--num-experts", "8", "--expert-model-parallel-size", "2", "--disable-bias-linear",
                                  "--use-distributed-optimizer", "--moe-router-topk", "1")
        experts = 12 * 4 * 2 * 512 * 2048 // 2
        dense = 50432 // 2 * 512 + TOKENS * 512 + 12 * (4 * 512 + 4 * 512 * 512 // 2 + 8 * 512) + 2 * 512
        self.near(terms["gradients.buffer"], 4 * (dense + experts), blocks=2)
        states = terms["optimizer_states.exp_avg"]
        self.assertGreaterEqual(states, 4 * (dense // 4 + experts // 2))
        self.assertLess(states, 4 * (dense // 4 + experts // 2) * 1.02)

    def test_latent_attention(self):
        """Narrow projections are complete on each of two tensor-parallel ranks."""
        (terms, _), = self.stages("--padded-vocab-size", "50432", "--tensor-model-parallel-size", "2", "--sequence-parallel",
                                  "--multi-latent-attention", "--q-lora-rank", "192", "--kv-lora-rank", "64", "--qk-head-dim", "16",
                                  "--qk-pos-emb-head-dim", "8", "--v-head-dim", "16")
        attention = 192 * 512 + 8 * 24 // 2 * 192 + (64 + 8) * 512 + 8 * 32 // 2 * 64 + 512 * 8 * 16 // 2 + 512
        mlp = 513 * 2048 // 2 + 512 * 2048 // 2 + 512
        count = 50432 // 2 * 512 + TOKENS * 512 + 12 * (4 * 512 + attention + mlp) + 2 * 512
        self.near(terms["gradients.buffer"], 4 * count)
        # activations do not grow from layer to layer, for every GPU's kind of attention
        for gpu in ("A100-80GB", "GB200"):
            (_, stage), = self.stages("--padded-vocab-size", "50432", "--tensor-model-parallel-size", "2", "--sequence-parallel",
                                      "--multi-latent-attention", "--q-lora-rank", "192", "--kv-lora-rank", "64", "--qk-head-dim",
                                      "16", "--qk-pos-emb-head-dim", "8", "--v-head-dim", "16", gpu=gpu)
            self.assertLess(stage["peak_bytes"], 2 << 30)

    def test_workspaces(self):
        """cuBLAS's workspace for two threads follows from the environment or the GPU, Transformer Engine's from the GPU."""
        for gpu, env, cublas, engine in (("H100-80GB", CUBLAS, 32 * MIB, 32 * MIB + 1024), ("A100-80GB", CUBLAS, 32 * MIB, 4 * MIB),
                                         ("A100-80GB", {"NCCL_ALGO": "Ring"}, 8519680, 4 * MIB)):
            (terms, _), = self.stages("--padded-vocab-size", "50304", "--use-distributed-optimizer", gpu=gpu, env=env)
            self.near(terms["workspaces.cublas"], 2 * cublas, blocks=2)
            self.near(terms["workspaces.transformer_engine"], engine)
            (terms, _), = self.stages("--padded-vocab-size", "50304", "--transformer-impl", "local", gpu=gpu, env=env)
            self.assertEqual(terms.get("workspaces.transformer_engine", 0), 0)

    def test_main_gradients(self):
        """fp16: gradients in 16 bits, copied to fp32 and kept until the next step."""
        (terms, _), = self.stages("--padded-vocab-size", "50304", "--use-distributed-optimizer", "--transformer-impl", "local")
        self.assertEqual(terms.get("gradients", 0), 0)
        words = [w if w != "--bf16" else "--fp16" for w in SMALL]
        answer, = json.loads(self.run_([MEMTRACE, "estimate", "--system", "memtrace", "--json", "--world-size", "8", "--", "pretrain_gpt.py",
                                        *words, "--padded-vocab-size", "50304", "--use-distributed-optimizer"]).stdout)["estimates"]
        terms = {t["id"]: t["steady_bytes"] for t in answer["per_stage"][0]["terms"]}
        count = 50304 * 512 + TOKENS * 512 + 12 * layer(512, 2048) + 2 * 512
        self.near(terms["gradients.buffer"], 2 * count)
        self.near(terms["gradients"], 4 * count // 8)

    def test_masks_and_schedules(self):
        """One 1F1B last stage keeps its input and that input's gradient: two tensors of b s h in bf16."""
        (_, _), (terms, _) = self.stages("--padded-vocab-size", "50304", "--pipeline-model-parallel-size", "2")
        self.near(terms["activations.pipeline"], 2 * 4 * TOKENS * 512 * 2, blocks=2)

    def test_rotary_positions_stay(self):
        """RotaryEmbedding.forward() has an lru_cache: s d numbers in fp32, once."""
        for words in ([], ["--no-rope-fusion"]):
            (terms, _), = self.stages("--padded-vocab-size", "50304", "--position-embedding-type", "rope", *words)
            self.assertEqual(terms["activations.rotary"], TOKENS * 64 * 4)

    def test_fp8(self):
        """The matrices of a layer have 12 h^2 elements: one byte each, and before Blackwell another byte for the transposed copy."""
        matrices, vocabulary = 12 * 512 ** 2, ("--padded-vocab-size", "50304")
        (terms, _), = self.stages(*vocabulary, "--fp8-format", "hybrid")
        self.near(terms["parameters.fp8"], 2 * 12 * matrices, blocks=2 * 12 * 4)
        (terms, _), = self.stages(*vocabulary, "--fp8-format", "hybrid", "--first-last-layers-bf16", gpu="GB200")
        self.near(terms["parameters.fp8"], 10 * matrices, blocks=10 * 4)
        (terms, _), = self.stages(*vocabulary, "--fp8-format", "e4m3", "--fp8-recipe", "tensorwise", "--fp8-param-gather",
                                  "--use-distributed-optimizer", gpu="GB200")
        others = 50304 * 512 + TOKENS * 512 + 12 * (layer(512, 2048) - matrices) + 2 * 512
        self.near(self.parameters(terms), 12 * matrices + 2 * others, blocks=2)
        self.assertEqual(terms.get("parameters.fp8", 0), 0)

    def test_muon(self):
        """Matrices have one momentum, the embeddings and norms have Adam's two moments. Distributed, with separate
        buffers, a rank has an eighth."""
        muon = ["--padded-vocab-size", "50304", "--optimizer", "muon"]
        matrices = 12 * 512 ** 2
        others = 50304 * 512 + TOKENS * 512 + 12 * (layer(512, 2048) - matrices) + 2 * 512
        (terms, _), = self.stages(*muon)
        self.near(terms["optimizer_states.momentum"], 4 * 12 * matrices, blocks=48)
        self.near(terms["optimizer_states.exp_avg"], 4 * others, blocks=3)
        self.near(terms["optimizer_states.master"], 4 * (12 * matrices + others), blocks=50)
        (terms, _), = self.stages(*muon, "--use-distributed-optimizer")
        self.near(terms["optimizer_states.exp_avg_sq"], 4 * others // 8, blocks=2)

    def test_what_of_fp8_stops(self):
        for words in (["--fp8-recipe", "mxfp8", "--fp8-param-gather"], ["--num-experts", "8", "--fp8-param-gather"],
                      ["--transformer-impl", "local"]):
            self.assertIn("fp8", self.refused("--fp8-format", "hybrid", *words))

    def test_experts_in_fp8(self):
        """Each of 4 experts here has 2 h f elements, the router has none: one byte each and, if blocks have scales, another byte on every GPU."""
        experts = ["--padded-vocab-size", "50304", "--num-experts", "8", "--expert-model-parallel-size", "2", "--moe-ffn-hidden-size", "1024",
                   "--moe-grouped-gemm", "--disable-bias-linear", "--fp8-format", "hybrid"]
        matrices = 12 * (4 * 512 ** 2 + 4 * 2 * 512 * 1024)
        for recipe, gpu, copies in (("tensorwise", "H100-80GB", 2), ("tensorwise", "GB200", 1), ("blockwise", "H100-80GB", 2),
                                    ("blockwise", "GB200", 2)):
            (terms, _), = self.stages(*experts, "--fp8-recipe", recipe, gpu=gpu)
            self.near(terms["parameters.fp8"], copies * matrices, blocks=copies)

    def test_recomputed_activations_of_experts(self):
        """moe_act: a layer that waits for its backward pass keeps neither the activation nor its weighted result."""
        experts = ["--padded-vocab-size", "50304", "--num-experts", "8", "--expert-model-parallel-size", "2", "--moe-router-topk", "2",
                   "--disable-bias-linear", "--moe-grouped-gemm"]
        (_, kept), = self.stages(*experts)
        (_, again), = self.stages(*experts, "--recompute-granularity", "selective", "--recompute-modules", "moe_act")
        # of 4096 tokens, with two experts for each, in 12 layers
        self.assertEqual(kept["peak_phase"], again["peak_phase"])
        self.assertLessEqual(abs(kept["peak_bytes"] - again["peak_bytes"] - 12 * 2 * 4096 * 2 * 2048 * 2), 4 * MIB)

    def test_discarded_norms(self):
        """layernorm: 12 layers keep neither of two outputs, 4096 tokens with 512 columns, until the backward pass. Transformer Engine's linear
        layers have the norms of dense layers, which stay."""
        sizes = ["--padded-vocab-size", "50304", "--disable-bias-linear"]
        again = ["--recompute-granularity", "selective", "--recompute-modules"]
        for implementation, kept in (("local", 0), ("transformer_engine", 12 * 2 * 4096 * 512 * 2)):
            (_, stage), = self.stages(*sizes, *again, "layernorm", "--transformer-impl", implementation)
            terms = {t["id"]: t["bytes"] for t in stage["terms"]}
            self.near(terms.get("activations.attention.norm", 0) + terms.get("activations.mlp.norm", 0), kept, blocks=2)

    def test_what_of_recomputation_stops(self):
        again = ["--recompute-granularity", "selective", "--recompute-modules"]
        for words in (["mla_up_proj"], ["layernorm", "--fp8-format", "hybrid"],
                      ["shared_experts", "--num-experts", "8", "--moe-shared-expert-intermediate-size", "512", "--moe-shared-expert-overlap"]):
            self.assertIn("recompute_modules", self.refused(*again, *words))

    def test_offloaded_modules(self):
        """core_attn: of 12 layers with scores of 4 x 8 x 1024 x 1024 elements the last one's stay on the device: their softmax in bf16."""
        words = ["--padded-vocab-size", "50304", "--disable-bias-linear", "--attention-backend", "unfused", "--attention-dropout", "0"]
        moved = ["--fine-grained-activation-offloading", "--offload-modules"]
        (_, kept), = self.stages(*words)
        (_, less), = self.stages(*words, *moved, "core_attn")
        saved = kept["peak_bytes"] - less["peak_bytes"]
        self.assertGreater(saved, 10 * 4 * 8 * TOKENS ** 2 * 2)
        self.assertLess(saved, 12 * (4 * 8 * TOKENS ** 2 * 2 + 4 * 4 * TOKENS * 512 * 2))
        for more in (["attn_proj"], ["embedding"], ["core_attn", "--min-offloaded-tensor-size", "4"], ["core_attn", "--fp8-format", "hybrid"],
                     ["core_attn", "--recompute-granularity", "full", "--recompute-method", "uniform"]):
            self.assertIn("offload", self.refused(*words, *moved, *more))
        self.assertIn("offload", self.refused(*words, moved[0]))

    def test_recomputed_feed_forward(self):
        """mlp: the input and the result of GELU, for 4096 tokens with 2048 columns, are not kept until the backward pass."""
        again = ["--padded-vocab-size", "50304", "--recompute-granularity", "selective", "--recompute-modules"]
        kept = [{t["id"]: t["bytes"] for t in self.stages(*words)[0][1]["terms"]}.get("activations.mlp.hidden", 0)
                for words in (again[:2], [*again, "mlp"], [*again, "core_attn"])]
        self.assertEqual(kept, [12 * 2 * 4096 * 2048 * 2, 0, 12 * 2 * 4096 * 2048 * 2])
        self.assertIn("recompute_modules", self.refused(*again[2:], "loss"))

    def test_masks_of_a_checkpointed_layer(self):
        """Masks of compiled dropouts live until the layer returns: at the loss, which is the peak, none is live."""
        peaks = [self.stages("--padded-vocab-size", "50304", "--num-layers", "4", "--seq-length", "512", "--recompute-granularity", "full",
                             "--recompute-method", "uniform", "--hidden-dropout", "0.1", *words)[0][1]
                 for words in ([], ["--no-bias-dropout-fusion"])]
        self.assertEqual([p["peak_phase"] for p in peaks], ["loss", "loss"])
        self.assertEqual(peaks[0]["peak_bytes"], peaks[1]["peak_bytes"])

    def test_multi_token_prediction(self):
        """The last stage has the embedding, the output layer, the layers of the layout and one additional layer between three norms and a projection."""
        split = ["--padded-vocab-size", "50304", "--pipeline-model-parallel-size", "2", "--position-embedding-type", "rope",
                 "--untie-embeddings-and-output-weights", "--mtp-num-layers", "1"]
        one = layer(512, 2048)
        further = 2 * 512 * 512 + one + 3 * 2 * 512
        (first, _), (last, _) = self.stages(*split, "--pipeline-model-parallel-layout", "Et*8|t*4mL")
        self.near(first["gradients.buffer"], 4 * (50304 * 512 + 8 * one))
        self.near(last["gradients.buffer"], 4 * (2 * 50304 * 512 + 4 * one + 2 * 512 + further))
        # two chunks on a stage; the norm after the last layer is on the stage of that layer
        (first, _), (last, _) = self.stages(*split, "--pipeline-model-parallel-layout", "Et|(tt|)*1t*9|mL")
        self.near(first["gradients.buffer"], 4 * (50304 * 512 + 10 * one + 2 * 512), blocks=2)
        self.near(last["gradients.buffer"], 4 * (2 * 50304 * 512 + 2 * one + further), blocks=2)

    def test_recomputed_prediction_with_experts(self):
        """The dispatcher's probabilities keep both inputs of the last recomputation, and their gradients. Numbers are those of tests/jobs/declared.py
        with this configuration, Megatron-core 0.16.1 and PyTorch 2.15 on the simulated device."""
        job = {"framework": "megatron-core", "megatron_core_version": "0.16.1", "transformer_impl": "local", "arch": "llama", "num_layers": 4,
               "hidden_size": 1024, "num_attention_heads": 16, "num_query_groups": 4, "ffn_hidden_size": 2816, "vocab_size": 32000,
               "seq_length": 1024, "max_position_embeddings": 1024, "micro_batch_size": 1, "num_microbatches": 4,
               "use_distributed_optimizer": "true", "accumulate_allreduce_grads_in_fp32": "true", "position_embedding_type": "rope",
               "normalization": "RMSNorm", "swiglu": "true", "add_bias_linear": "false", "untie_embeddings_and_output_weights": "true",
               "attention": "eager", "precision": "bf16-mixed", "torch_version": "2.15.0", "gpu": "H100-80GB", "optimizer": "adam",
               "mtp_num_layers": 1, "num_experts": 8, "moe_router_topk": 2, "moe_ffn_hidden_size": 1408, "world_size": 1,
               "moe_token_dispatcher_type": "alltoall", "recompute_granularity": "full", "recompute_method": "uniform",
               "recompute_num_layers": 1}
        words = [word for name, value in job.items() for word in ("--set", f"{name}={value}")]
        answer, = json.loads(self.run_([MEMTRACE, "estimate", "--system", "memtrace", "--json", *words]).stdout)["estimates"]
        stage, = answer["per_stage"]
        self.assertLess(abs(stage["peak_bytes"] - 5724232704), MIB)
        self.assertLess(abs(stage["steady_bytes"] - 4699610112), MIB)

    def test_layouts_that_contradict(self):
        for layout in ("Et*6|t*5L", "Et*6|t*6", "t*6|t*6L", "Et*6|x*6L", "E(t*12|L", "Et*99999999|L", "Et*6|t*6mL", "EL|t*12", "Et*4|t*4|t*4L"):
            self.assertIn("pipeline_model_parallel_layout", self.refused("--pipeline-model-parallel-size", "2",
                                                                         "--pipeline-model-parallel-layout", layout))
        for layout in ("E(" + "t*0" * 30000 + ")*100000t*12L", "E" + "()*100000" * 8000 + "t*12L"):
            self.assertIn("pipeline_model_parallel_layout", self.refused("--pipeline-model-parallel-layout", layout))
        self.assertIn("in the loss's stage", self.refused("--pipeline-model-parallel-size", "2", "--mtp-num-layers", "1",
                                                          "--pipeline-model-parallel-layout", "Et*12m|L"))

    def test_groups_of_micro_batches(self):
        """Megatron-core refuses a remainder that is smaller than the pipeline, and fewer micro-batches than a group has."""
        for pipeline, counts in ((2, (1, 3)), (4, (3, 5, 7))):
            for count in counts:
                said = self.refused("--pipeline-model-parallel-size", str(pipeline), "--num-layers-per-virtual-pipeline-stage", "1",
                                    "--global-batch-size", str(count * 4 * 8 // pipeline))
                self.assertRegex(said, "(num_microbatches|global_batch_size) is [0-9]+ ")

    def test_rest_of_micro_batches(self):
        """Groups of four, and two chunks: the last stage is four passes ahead. A smaller last group comes to its loss one pass early, so two
        micro-batches' logits wait for their backward passes, of 4096 tokens in fp32."""
        split = ["--padded-vocab-size", "50304", "--pipeline-model-parallel-size", "2", "--num-layers-per-virtual-pipeline-stage", "3",
                 "--microbatch-group-size-per-virtual-pipeline-stage", "4"]
        whole, *others = [self.stages(*split, "--global-batch-size", str(count * 16))[1][1]["peak_bytes"] for count in (8, 6, 7, 11)]
        for peak in others:
            self.near(peak - whole, 4 * TOKENS * 50304 * 4, blocks=16)

    def test_graphs(self):
        """Every layer that waits for its backward pass has an input of b s h in bf16 and a mask of b s^2, and all have one output's gradient and
        one input's. Stage 1 of 2 with 2 chunks of 3 layers is 0 + 1 x 2 steps ahead: 3 chunks wait."""
        split = ["--padded-vocab-size", "50304", "--pipeline-model-parallel-size", "2", "--num-layers-per-virtual-pipeline-stage", "3"]
        graphs = ["--cuda-graph-impl", "transformer_engine", "--cuda-graph-modules", "attn"]
        _, (plain, whole) = self.stages(*split)
        _, (terms, _) = self.stages(*split, *graphs)
        hidden, mask = 4 * TOKENS * 512 * 2, 4 * TOKENS * TOKENS
        self.near(terms["workspaces.graphs"], 3 * 3 * (hidden + mask) + 2 * hidden, blocks=20)
        self.assertEqual(plain.get("workspaces.graphs", 0), 0)
        # captured before the first step, the tensors that attention keeps are never live together with those of the rest of the layers
        _, (_, early) = self.stages(*split, *graphs, "--cuda-graph-warmup-steps", "0")
        self.assertLess(early["peak_bytes"] - terms["workspaces.graphs"], whole["peak_bytes"])
        self.stages("--padded-vocab-size", "50304", *graphs, "--global-batch-size", str(100001 * 4 * 8))
        for modules in ("moe", "attn,foo", "mamba,attn", "full_iteration,attn"):
            self.assertIn("cuda_graph_modules", self.refused(*graphs[:-1], modules))

    def test_chunks_without_a_pipeline(self):
        """Megatron-LM: "pipeline-model-parallel size should be greater than 1"."""
        for words in ([], ["--cuda-graph-impl", "transformer_engine", "--cuda-graph-modules", "attn"]):
            self.assertIn("virtual_pipeline_model_parallel_size is 2", self.refused("--num-virtual-stages-per-pipeline-rank", "2", *words))

    def test_stages_that_do_not_fit(self):
        for first, last, chunks, layers, field in ((16, 0, 1, 12, "decoder_first_pipeline_num_layers is 16"),
                                                   (0, 13, 1, 12, "decoder_last_pipeline_num_layers is 13"),
                                                   (8, 8, 1, 12, "decoder_last_pipeline_num_layers is 8"),
                                                   (5, 5, 1, 12, "decoder_last_pipeline_num_layers is 5"),
                                                   (0, 0, 4, 12, "virtual_pipeline_model_parallel_size is 4"),
                                                   (0, 0, 1, 11, "pipeline_model_parallel_size is 2")):
            values = {"framework": "megatron-core", "num_layers": layers, "hidden_size": 512, "num_attention_heads": 8, "seq_length": 512,
                      "micro_batch_size": 1, "vocab_size": 50304, "pipeline_model_parallel_size": 2,
                      "virtual_pipeline_model_parallel_size": chunks, "decoder_first_pipeline_num_layers": first,
                      "decoder_last_pipeline_num_layers": last}
            words = [word for name, value in values.items() if value for word in ("--set", f"{name}={value}")]
            said = self.run_([MEMTRACE, "estimate", "--system", "memtrace", *words], status=2).stderr
            self.assertIn("memtrace: " + field, said)

    def test_overlapped_tensor_parallelism(self):
        """Three additional workspaces of Transformer Engine, for products that overlap (_NUM_MAX_UB_STREAMS)."""
        split = ["--padded-vocab-size", "50432", "--tensor-model-parallel-size", "2", "--sequence-parallel"]
        (plain, _), = self.stages(*split)
        (overlapped, _), = self.stages(*split, "--tp-comm-overlap")
        name = "workspaces.transformer_engine"
        self.near(overlapped[name] - plain[name], 3 * (32 * MIB + 1024))

    def constants(self, *arguments):
        words = [MEMTRACE, "estimate", "--system", "memtrace", "--json", *arguments, "--", "pretrain_gpt.py", *SMALL,
                 "--padded-vocab-size", "50304", "--num-experts", "8"]
        answer, = json.loads(self.run_(words).stdout)["estimates"]
        kinds = {t["id"]: t["kind"] for t in answer["terms"]}
        return {c["id"]: (c["kind"], c["bytes"]) for c in answer["constants"]}, kinds

    def test_constants_say_how_sure_they_are(self):
        """Blackwell's workspace is 8,519,680 bytes before PyTorch 2.12 (by the 2.11 wheel's code), 32 MiB since."""
        known, kinds = self.constants("--gpu", "H100-80GB", "--env", "CUBLAS_WORKSPACE_CONFIG=:4096:8")
        self.assertEqual(known["workspaces.cublas"], ("exact", 32 * MIB))
        self.assertEqual(known["context"], ("measured", 863 * MIB))
        self.assertEqual(known["workspaces.transformer_engine"], ("exact", 32 * MIB + 1024))
        self.assertEqual((kinds["workspaces.cublas"], kinds["activations.moe.tokens"], kinds["parameters.mlp"]),
                         ("exact", "assumed", "exact"))
        for version, size in (("2.11", 8519680), ("2.12", 32 * MIB)):
            known, _ = self.constants("--gpu", "GB200", "--set", "torch_version=" + version)
            self.assertEqual(known["workspaces.cublas"], ("exact", size))
        known, kinds = self.constants("--gpu", "GB200")
        self.assertEqual((known["workspaces.cublas"][0], kinds["workspaces.cublas"]), ("assumed", "assumed"))

    def refused(self, *arguments, script="pretrain_gpt.py"):
        words = [MEMTRACE, "estimate", "--system", "memtrace", "--world-size", "8", "--", script, *SMALL,
                 "--padded-vocab-size", "50304", *arguments]
        return self.run_(words, status=2).stderr

    def test_what_is_not_counted_is_refused_by_name(self):
        for option in ("--vision-model-type=clip", "--hybrid-layer-pattern=MG-", "--spec=a.b", "--retro-project-dir=x",
                       "--cuda-graph-impl=local", "--quick-geglu",
                       "--cpu-offloading-num-layers=2", "--position-embedding-type=mrope"):
            name = option[2:].split("=")[0].replace("-", "_")
            said = self.refused(option).replace("-", "_")
            self.assertIn(name, said)
        self.assertIn("pretrain_vision_classify.py", self.refused(script="pretrain_vision_classify.py"))

    def test_harmless_values_are_not_refused(self):
        self.stages("--padded-vocab-size", "50304", "--hybrid-override-pattern=null", "--gtp-weight-remat-size=1",
                    "--cuda-graph-impl=none", "--cpu-offloading-num-layers=0", "--spec=local")

    def test_every_field_is_read_or_has_a_reason(self):
        analyzer = os.path.join(ROOT, "analyzer")
        sources = [os.path.join(analyzer, folder, name) for folder in ("torch", "distributed", "families", "megatron", "pipeline")
                   for name in os.listdir(os.path.join(analyzer, folder))
                   if name.endswith((".c", ".h", "groups.def")) and not name.startswith("zero")]
        sources += [os.path.join(analyzer, *name) for name in (("systems", "memtrace.c"), ("estimate", "inputs.c"), ("readers", "derive.c"),
                                                              ("readers", "hf_layers.c"))]
        read = self.fields_read(sources)
        read_of_megatron = self.fields_read(name for name in sources if not os.path.basename(name).startswith(("plain", "hf_")))
        fields = self.text(os.path.join(analyzer, "config", "fields.def")).split("/* ---- DeepSpeed")[0]
        reasons = re.findall(r"^\w+\((\w+),", self.text(os.path.join(analyzer, "megatron", "options.def")), re.M)
        self.assertEqual([f for f in re.findall(r"^FIELD\((\w+)", fields, re.M) if f not in read and f not in reasons], [])
        self.assertEqual([f for f in reasons if f in read_of_megatron], [])

    def fields_read(self, sources):
        text = "".join(self.text(name) for name in sources)
        return set(re.findall(r"(?:CONFIG_|->|\(c, |in->c, )(\w+)", text)) | {"moe_layer_freq"}  # config_moe_layer()

    @staticmethod
    def text(name):
        with open(name, encoding="utf-8") as f:
            return f.read()

/* The hyperparameters of a job, from its configuration: checked, with the framework's defaults.
 * Counts, not bytes, unless said otherwise. */
#ifndef MEMTRACE_TORCH_HPARAMS_H
#define MEMTRACE_TORCH_HPARAMS_H

#include "config/pipeline_layout.h"
#include "torch/dtype.h"
#include "estimate/inputs.h"

enum framework {
#define FRAMEWORK(kind, ...) kind,
#include "torch/frameworks.def"
#undef FRAMEWORK
};
/* The wrapper of a model: torch's or DeepSpeed's; Megatron-core has three:
 * contiguous buffers, FSDP2, and its own FSDP. */
enum wrapper_kind {
	UNWRAPPED,
	DDP,
	FSDP1,
	FSDP2,
	ZERO,
	ZERO3,
	MEGATRON_OWN,
	MEGATRON_FSDP2,
	MEGATRON_FSDP
};
enum attention { EAGER, SDPA, FLASH, FUSED_ATTENTION };
/* transformers' experts_implementation */
enum experts_kind { EXPERTS_GROUPED, EXPERTS_BATCHED, EXPERTS_EAGER };
enum optimizer_kind {
	ADAM,
	SGD,
	RMSPROP,
	ADAGRAD,
	ADAFACTOR,
	TRANSFORMERS_ADAFACTOR,
	LION,
	MUON, /* matrices have a momentum, other parameters Adam's moments */
	ADAM_8BIT
};
/* --offload-modules */
enum offloaded_module {
#define OFFLOADED(name, word) name,
#include "torch/modules.def"
};
enum implementation { FUSED, FOREACH, LOOP };

/* The forward pass of the model: families/families.c. */
enum family { BY_MODEL, GPT, LLAMA, PLAIN, MEGATRON_CORE, MLP };

/* A row of frameworks.def. */
struct framework_row {
	enum family family; /* BY_MODEL: the framework has models of several families */
	enum attention attention;
	int norm_bias, linear_bias, mask_buffers;
	int masters;      /* "mixed" is 16-bit weights beside fp32 ones, not autocast */
	int made_on_host; /* the model is made in host memory; the framework converts and moves it
			   */
	int grad_scaler;  /* with fp16 */
	enum implementation implementation;
	double clip;
};

struct hparams {
	enum framework framework;
	const struct framework_row *defaults; /* the framework's row */
	enum family family;
	enum wrapper_kind wrapper;
	int64_t layers, hidden, heads, groups, head, ffn, vocab, tokens, positions;
	/* T5's; 0: no encoder. `tokens` are the decoder's, and so are Megatron-core's `layers`;
	 * transformers' are those of both. */
	int64_t encoder_layers, encoder_tokens;
	struct {
		int64_t side, patch, channels;
	} image; /* transformers' ViT; patch 0: the model reads no images */
	/* Megatron-core's LLaVA: `tokens` are those of the text and of its image, `text` those of
	 * the text and a place for the image */
	struct {
		int64_t layers, patch, pixels, patches, text;
		int drops_class, frozen, language_frozen;
		int by_transformers; /* the encoder is transformers' CLIP: examples/mimo */
	} vision;                    /* patch 0: the model reads no images */
	int hybrid;                  /* Megatron-core's hybrid model */
	const char *pattern;         /* hybrid_layer_pattern; NULL: none */
	struct {
		int64_t heads, head, state, groups;
	} mamba;
	struct delta_net {
		int64_t taps, key, value, key_heads, value_heads;
	} delta;                  /* Megatron-core's gated delta nets; taps 0: none */
	int output_gate;          /* attention_output_gate */
	int is_bert, binary_head; /* Megatron-core's BERT */
	int64_t batch, microbatches;
	int short_schedule; /* for a search: fewer micro-batches of a step are run */
	int learned_positions, rope, gated, linear_bias, qkv_bias, norm_bias, rms_norm, untied;
	int transformer_engine; /* layers of Transformer Engine, not Megatron-core's own */
	int training_loop;      /* Megatron-LM's training loop: the job has its command line */
	/* fused kernels of Megatron's command line: masked softmax (apex), rotary positions,
	 * SwiGLU, GELU, dropout, cross entropy */
	int fused_softmax, fused_rope, fused_swiglu, fused_gelu, fused_dropout, fused_loss;
	int fused_squared_relu; /* of the experts, with the router's weights */
	int deterministic;      /* --deterministic-mode */
	int masks;              /* create_attention_mask_in_dataloader */
	struct latent {
		int64_t q_rank, kv_rank, nope, rope, value;
		int yarn;       /* positions are YarnRotaryEmbedding's */
	} latent;               /* latent attention; kv_rank 0: none */
	int64_t value_head;     /* width of the values of a head */
	int allgather, grouped; /* the allgather dispatcher; experts as one grouped product */
	int overlap_grad_reduce, fused_gradient;
	int64_t first_layers,
		last_layers; /* layers of the first and the last stage; 0: as the others */
	int counts_embedding, counts_loss; /* they count as layers when the layers are divided */
	struct stages stages;              /* pipeline_model_parallel_layout; count 0: none */
	int64_t mtp;                       /* layers of multi-token prediction */
	int mtp_repeated;                  /* they are one layer */
	int64_t bucket_size;               /* elements; 0: Megatron's own */
	/* fp8: products are in fp8; weights are; scales are for blocks of values */
	int fp8, fp8_weights, fp8_blocks;
	int64_t bf16_first, bf16_last;
	int tp_overlap;
	enum {
		WHOLE,
		PING_PONG,
		BY_LAYOUT
	} layer_wise;      /* how Muon's parameters are distributed over ranks */
	int64_t instances; /* instances of the distributed optimizer */
	int defers;
	int64_t deferred;   /* micro-batches that defer the gradient of the output layer */
	int64_t group;      /* micro-batches that a model chunk runs in turn */
	int overlap_warmup; /* overlap_p2p_communication_warmup_flush */
	int qk_norm, mask_buffers, packed, keep_logits, use_cache;
	int precise_outputs; /* Accelerate's copy of the outputs in fp32 */
	enum attention attention;
	double attention_dropout, hidden_dropout;
	/* experts; 0: dense */
	int64_t experts, topk, expert_ffn, shared_ffn;
	int shared_gate;       /* moe_shared_expert_gate */
	int64_t expert_width;  /* moe_latent_size; 0: that of the layers */
	int overlaps_experts;  /* overlap_moe_expert_parallel_comm */
	int fused_permutation; /* moe_permute_fusion */
	int early_attention;   /* ep_overlap_early_attn_memory_release */
	double capacity;       /* most tokens of an expert over its even share; 0: no limit */
	int pads_experts;
	enum experts_kind experts_as;
	int norm_topk;     /* norm_topk_prob */
	int router_logits; /* output_router_logits */
	/* types of weights, of autocast (F32: off), of gradients */
	enum dtype weights, autocast, gradients;
	int mixed; /* 16-bit weights with fp32 master weights */
	enum optimizer_kind optimizer;
	enum implementation implementation;
	double momentum, clip, weight_decay;
	int nesterov;
	int grad_scaler, keep_gradients; /* zero_grad(set_to_none=False) */
	enum recompute recompute;
	int64_t recompute_layers;
	/* recompute_modules with RECOMPUTE_SELECTIVE */
#define RECOMPUTED(field, word) int field;
#include "torch/modules.def"
	int recompute_block; /* recompute_method */
	unsigned offload;    /* bits: offload_modules */
	struct {
		int on, attention, mlp, router; /* parts of a layer that are in its CUDA graph */
		int64_t warmup;
	} graphs;
	/* layout */
	int64_t tp, pp, cp, dp, ep, etp, vpp;
	int sequence_parallel, zero;
	/* DistributedDataParallel: bytes of a bucket, and of the first bucket */
	int64_t bucket_cap, bucket_first;
	int bucket_views;
	/* DeepSpeed: elements of a bucket; with overlap there are two */
	int64_t reduce_bucket;
	int overlap, offload_optimizer, offload_param, zero_init;
	/* ZeRO-3, in elements: stage3_prefetch_bucket_size, stage3_max_live_parameters,
	 * stage3_max_reuse_distance, stage3_param_persistence_threshold, sub_group_size */
	int64_t prefetch_bucket, max_live, max_reuse, persistence, sub_group;
	/* FSDP: the type of gathered weights; reshard_after_forward; the whole model is one unit */
	enum dtype sharded_compute;
	int reshard, one_unit;
	/* the rank in data and in context parallelism, on which shards of flat parameters depend */
	int64_t rank, context_rank;
	int is_placed; /* the rank is given; 0: an estimate for all ranks */
	const struct config *config;
};

static inline int is_fsdp(const struct hparams *s)
{
	return s->wrapper == FSDP1 || s->wrapper == FSDP2;
}

/* DeepSpeed's engine runs the backward pass and the optimizer's step. */
static inline int has_engine(const struct hparams *s)
{
	return s->wrapper == ZERO || s->wrapper == ZERO3;
}

/* -1: in->e names the key and the expected value. */
int hparams_read(struct hparams *s, struct inputs *in);
/* Reads only the framework. */
enum framework framework_read(struct inputs *in);

#endif

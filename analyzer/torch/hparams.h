/*
 * The declared configuration as the model families need it: checked, with defaults by framework.
 * Counts, not bytes.
 */
#ifndef MEMTRACE_SHAPE_H
#define MEMTRACE_SHAPE_H

#include "config/pipeline_layout.h"
#include "torch/machine.h"
#include "estimate/inputs.h"

enum framework {
#define FRAMEWORK(kind, ...) kind,
#include "torch/frameworks.def"
#undef FRAMEWORK
};
/* What is around a model: torch's or DeepSpeed's; Megatron-core has its own. */
enum wrapper { UNWRAPPED, DDP, FSDP1, FSDP2, ZERO, ZERO3, MEGATRON_OWN };
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
	MUON, /* matrices have a momentum, what else there is has Adam's moments */
	ADAM_8BIT
};
enum implementation { FUSED, FOREACH, LOOP };

/* frameworks.def */
struct framework_row {
	const struct family *family; /* NULL: models of all kinds */
	enum attention attention;
	int norm_bias, linear_bias, mask_buffers;
	int masters;      /* "mixed" is 16-bit weights beside fp32 ones, not autocast */
	int made_on_host; /* the model, which the framework converts and moves */
	int grad_scaler;  /* of fp16 */
	enum implementation implementation;
	double clip;
};

struct shape {
	enum framework framework;
	const struct framework_row *defaults; /* the framework's */
	const struct family *family;
	enum wrapper wrapper;
	int64_t layers, hidden, heads, groups, head, ffn, vocab, tokens, positions;
	int64_t batch, microbatches;
	int learned_positions, rope, gated, linear_bias, qkv_bias, norm_bias, rms_norm, untied;
	int transformer_engine; /* its layers rather than Megatron-core's own */
	int training_loop; /* Megatron-LM's, from its command line */
	/* of Megatron's command line: fused masked softmax (apex), rotary positions, SwiGLU, GELU,
	 * dropout, cross entropy */
	int fused_softmax, fused_rope, fused_swiglu, fused_gelu, fused_dropout, fused_loss;
	int deterministic; /* --deterministic-mode */
	int masks; /* create_attention_mask_in_dataloader */
	struct latent {
		int64_t q_rank, kv_rank, nope, rope, value;
	} latent; /* latent attention; kv_rank 0: none */
	int64_t value_head; /* width of a head's values */
	int allgather, grouped; /* the dispatcher; experts as one product */
	int overlap_grad_reduce, fused_gradient;
	int64_t first_layers, last_layers; /* of uneven stages; 0: even */
	struct stages stages; /* pipeline_model_parallel_layout; count 0: none */
	int64_t mtp; /* layers of multi-token prediction */
	int64_t bucket_size; /* elements; 0: Megatron's own */
	/* fp8: products; weights; layers at the ends that are not */
	int fp8, fp8_weights, fp8_blocks; /* blocks: of values that share a scale */
	int64_t bf16_first, bf16_last;
	int tp_overlap;
	enum { WHOLE, PING_PONG, BY_LAYOUT } layer_wise; /* whose parameters a rank's Muon has */
	int64_t instances; /* of the distributed optimizer */
	int defers;
	int64_t deferred; /* micro-batches whose gradient of the output layer waits */
	int64_t group; /* micro-batches that a model chunk runs in turn */
	int overlap_warmup; /* overlap_p2p_communication_warmup_flush */
	int qk_norm, mask_buffers, full_mask, keep_logits;
	enum attention attention;
	double attention_dropout, hidden_dropout;
	/* experts; 0: dense */
	int64_t experts, topk, expert_ffn, shared_ffn;
	double capacity; /* of an expert over its even share; 0: none */
	int pads_experts;
	enum experts_kind experts_as;
	int router_logits; /* output_router_logits */
	/* widths: weights as made, as trained, autocast (F32: none), gradients */
	enum dtype weights, autocast, gradients;
	int mixed; /* 16-bit weights with fp32 master weights */
	enum optimizer_kind optimizer;
	enum implementation implementation;
	double momentum, clip, weight_decay;
	int nesterov;
	int grad_scaler, keep_gradients; /* zero_grad(set_to_none=False) */
	enum recompute recompute;
	int64_t recompute_layers;
	/* of RECOMPUTE_SELECTIVE: core_attn, moe_act, mlp (where there are no experts), moe */
	int recompute_attention, recompute_activation, recompute_mlp, recompute_moe;
	int recompute_block; /* recompute_method */
	struct {
		int on, attention, mlp, router; /* what of a layer is in its CUDA graph */
		int64_t warmup;
	} graphs;
	/* layout */
	int64_t tp, pp, cp, dp, ep, etp, vpp;
	int sequence_parallel, zero;
	/* DistributedDataParallel: bytes of a bucket, and of the first */
	int64_t bucket_cap, bucket_first;
	int bucket_views;
	/* DeepSpeed: elements of a bucket; two of them */
	int64_t reduce_bucket;
	int overlap, offload_optimizer, offload_param, zero_init;
	/* ZeRO-3: elements gathered ahead, there at once, passed before a weight is used again, of
	 * weights that stay, of an optimizer's sub-group */
	int64_t prefetch_bucket, max_live, max_reuse, persistence, sub_group;
	/* FSDP: the type of gathered weights; blocks are freed after their forward pass */
	enum dtype sharded_compute;
	int reshard, one_unit;
	/* of data and of context parallelism: pieces of flat parameters and buffers differ */
	int64_t rank, context_rank;
	int is_placed; /* it is a certain rank's, not the one that stands for all */
	const struct config *config;
};

static inline int is_fsdp(const struct shape *s)
{
	return s->wrapper == FSDP1 || s->wrapper == FSDP2;
}

/* DeepSpeed's engine runs the backward pass and the optimizer's step. */
static inline int has_engine(const struct shape *s)
{
	return s->wrapper == ZERO || s->wrapper == ZERO3;
}

/* -1: the message says which key, and what was expected. */
int shape_read(struct shape *s, struct inputs *in);
/* Options that the families do not model: an error, or a note. */
int check_unmodelled(const struct shape *s, struct inputs *in);
/* megatron_options.c: Megatron-LM's, before anything is read. */
void check_megatron_options(struct inputs *in);

/* ---- families: a run of one rank, from initialization to the steady state ---- */
struct family {
	/* `stage` of the pipeline; notes go to r->out. -1: this family has no model of the job. */
	int (*check)(const struct shape *s, struct inputs *in);
	void (*run)(struct machine *m, const struct shape *s, int64_t stage);
};
extern const struct family gpt_family, llama_family, megatron_family, mlp_family;

/* ---- what families share ---- */

/* A model's parameters in the order of model.parameters(). */
struct module {
	struct param **params;
	size_t count, room;
	int64_t pieces; /* zero.Init: each is cut into these when it was made; 0: not */
};
/* The type that a model's weights are made in on the device: DeepSpeed converts them before. */
enum dtype made_as(const struct shape *s);
/* The parameter of out x in elements: made, and put into the list. */
struct param *module_add(struct machine *m, struct module *module, int64_t out, int64_t in,
			 enum dtype type, enum role term);
/* module.to(dtype): one parameter after the other. */
void module_convert(struct machine *m, struct module *module, enum dtype type);
void module_release(struct module *module);

struct optimizer {
	const struct shape *shape;
	struct module *module;
	enum dtype sharded; /* the type of what is a shard */
	struct state {
		tensor step, first, second, scale[2];
	} * states;
	tensor maps[2]; /* of 8-bit states */
};
void optimizer_init(struct machine *m, struct optimizer *o, const struct shape *s,
		    struct module *module);
/* clip_grad_norm_ */
void clip_gradients(struct machine *m, struct module *module);
void optimizer_step(struct machine *m, struct optimizer *o);
/* optimizers.c: the state of parameter i, and the temporaries of a step, of other kinds. */
void make_other_state(struct machine *m, struct optimizer *o, size_t i, int64_t n,
		      enum dtype type);
void other_step(struct machine *m, struct optimizer *o);
/* Is parameter i stepped by Muon, rather than by AdamW beside it? */
int muon_steps(const struct optimizer *o, size_t i);
void zero_grad(struct machine *m, struct module *module);
void optimizer_release(struct optimizer *o);
/* An optimizer of one flat fp32 tensor of n elements, whatever it was made of: ZeRO's. */
struct flat_optimizer {
	struct param param, *list[1];
	struct module module;
	struct optimizer optimizer;
};
void flat_optimizer_step(struct machine *m, struct flat_optimizer *f, const struct shape *s,
			 int64_t n);

/* loss.backward() */
void backward_from(struct machine *m, struct tape *tape, tensor loss);

/* torch.amp.GradScaler: blocks of one number each. */
struct scaler {
	tensor scale, growth, found[3];
};
/* The loss times a number. */
tensor loss_times(struct machine *m, tensor loss);
tensor scaler_scale(struct machine *m, struct scaler *g, tensor loss);
void scaler_unscale(struct machine *m, struct scaler *g);
void scaler_update(struct machine *m, struct scaler *g);

/* constants.c: by version of PyTorch, GPU and environment. */
int constants_read(struct constants *k, struct allocator_settings *a, struct inputs *in);
/* Each with its kind and source. */
void constants_list(const struct constants *k, const struct shape *s, struct estimate *out);

#endif

/* Megatron-core on one rank: its layers, its contiguous buffers, its schedules. */
#ifndef MEMTRACE_MEGATRON_H
#define MEMTRACE_MEGATRON_H

#include "torch/ops.h"
#include "torch/checkpoint.h"
#include "torch/module.h"

struct norm_weights {
	struct param *weight, *bias;
};

struct expert {
	struct param *up, *up_bias, *down, *down_bias;
};

struct megatron_layer {
	struct model_chunk *chunk;
	struct norm_weights before_attention, before_mlp;
	struct norm_weights q_norm, k_norm;
	struct param *q_down, *kv_down, *kv_up; /* latent attention; q_down NULL: none */
	struct param *proj, *proj_bias, *qkv, *qkv_bias, *up, *up_bias, *down, *down_bias;
	struct param *router; /* NULL: dense */
	struct expert *experts, shared;
	/* The dispatcher's probabilities hold the graph of the recomputation, whose leaves are the
	 * checkpoint's inputs: the layer's, or hidden states and embedded tokens (mtp.c). */
	struct input_ref graph[2];
};

/* Contiguous buffers: of one kind of weights each. */
enum buffer_kind { DENSE_BUFFER, EXPERT_BUFFER, FP8_BUFFER, MATRIX_BUFFER, BUFFERS };

/* A model chunk: the layers of one virtual stage, with the embedding and the head where they are.
 */
struct model_chunk {
	struct megatron_rank *rank;
	int first, last;
	int has_norm; /* the one behind the last layer */
	int64_t layer_count;
	struct megatron_layer *layers;
	int64_t mtp_count;
	struct mtp_layer *mtp;
	struct module module;
	unsigned char *on_host; /* parameters that are made on the host, in fp32 */
	struct param *tokens, *positions;
	struct param *head, *output; /* the output layer's own weight, and what it multiplies by */
	struct norm_weights norm;
	struct param_and_grad_buffer {
		tensor weights, gradients;
		int64_t elements;
	} buffers[BUFFERS];
	int64_t first_layer;
	struct buffer_slot *slots; /* of the parameters in them */
	struct input_ref input;    /* set_input_tensor(): what the last forward pass began with */
	tensor rotary;
};

/* One shard of a parameter: its master copy and the optimizer's states. */
struct optimizer_shard {
	int64_t n;
	int group, muon;
	tensor master, gradient, first, second;
};

struct megatron_rank {
	const struct hparams *s;
	int64_t stage;
	/* sizes on this rank: heads, groups, feed-forward width, vocabulary; rows: tokens of a
	 * micro-batch here, and outside tensor parallel regions */
	int64_t heads, groups, ffn, vocab, rows, local_rows;
	int64_t group;        /* micro-batches that a chunk runs in turn */
	int64_t microbatches; /* that are run */
	struct model_chunk *chunks;
	struct optimizer_shard *shards;
	size_t shard_count, shard_room;
	tensor te_workspace[5]; /* of plain products, and of a grouped one's streams */
	tensor ub_workspace;    /* of products that overlap tensor parallelism's communication */
	/* Transformer Engine's get_dummy_wgrad(): one for each shape, kept */
	struct {
		int64_t n, in;
		tensor gradient;
	} dummies[16];
	size_t dummy_count;
	/* the output layer's inputs and gradients, until its weight's gradient is computed */
	tensor *waiting;
	size_t waiting_count, waiting_room;
	unsigned measured; /* compiled kernels that ran: bits */
	tensor masks[2];   /* of a checkpointed layer's dropouts, until it returns */
	size_t mask_count;
	tensor global;     /* Megatron's GlobalMemoryBuffer */
	tensor dummy;      /* _dummy_overflow_buf */
	tensor numbers[6]; /* of the training loop: losses, norms, counts of what is not finite */
	int graphed;       /* CUDA graphs have been captured */
	tensor mtp_numbers[2]; /* of multi-token prediction: losses, their scale */
};

/* A micro-batch between its forward and its backward pass. */
struct microbatch {
	struct tape tape;
	struct param input; /* received from the stage before */
	tensor gradient;    /* of the output, received from the stage after */
	tensor weights;     /* of the tokens, in the loss */
	tensor tokens, labels, positions, mask, output, rotary;
	tensor logits; /* of the last of multi-token prediction, a variable of the forward pass */
};

/* megatron_layers.c: the forward pass of a chunk; `input` is none on the first stage. */
tensor chunk_forward(struct machine *m, struct model_chunk *c, struct microbatch *b);
/* run(), which runs the layer, with all of it recomputed or not; `in` are 1 or 2. */
tensor maybe_recomputed(struct machine *m, struct megatron_layer *l,
			tensor (*run)(struct machine *, void *, const tensor *), void *context,
			size_t size, const tensor *in, int count);
tensor layer_forward(struct machine *m, struct megatron_layer *l, struct microbatch *b, tensor x);
tensor layer_attention(struct machine *m, struct megatron_layer *l, struct microbatch *b, tensor x);
tensor layer_mlp(struct machine *m, struct megatron_layer *l, tensor x);
/* megatron.c: RotaryEmbedding.forward. Chunk and micro-batch of a rank's i-th step, and how many
 * forward passes are ahead of the backward ones. */
void load_rotary(struct machine *m, struct model_chunk *c, struct microbatch *b);
struct pipeline_step {
	int64_t chunk, batch;
};
struct pipeline_step schedule_step(const struct megatron_rank *r, int64_t i, int forward);
int64_t schedule_ahead(const struct megatron_rank *r);
/* Micro-batches of a step that are run: once the pipeline is full, more change nothing. */
int64_t batches_run(const struct hparams *s);
/* get_global_memory_buffer().get_tensor(n) */
void global_buffer(struct machine *m, struct megatron_rank *r, int64_t n, enum dtype type);

/* The gradient of a weight of n elements in rows of `in`; added in place where that is fused. */
tensor weight_gradient(struct machine *m, struct megatron_rank *r, int64_t n, int64_t in,
		       enum dtype type);
/* What waited is computed. */
void finish_deferred_gradients(struct machine *m, struct megatron_rank *r);

tensor parallel_linear(struct machine *m, struct megatron_rank *r, tensor x, struct param *weight,
		       struct param *bias, int gathers);
/* Megatron-core's own, not Transformer Engine's; the bias is added here unless it is skipped
 * (NULL). */
tensor mcore_linear(struct machine *m, struct megatron_rank *r, tensor x, struct param *weight,
		    struct param *bias, int gathers, int defers);
tensor normed(struct machine *m, struct megatron_rank *r, struct norm_weights *w, tensor x);
/* A part of the tokens for each of t ranks. */
tensor tp_scatter(struct machine *m, tensor x, int64_t t);
/* megatron_ends.c */
tensor chunk_embed(struct machine *m, struct model_chunk *c, struct microbatch *b);
/* The output layer and its loss, one number a token. The logits go to *logits. */
tensor token_losses(struct machine *m, struct model_chunk *c, tensor x, tensor *logits);
tensor chunk_loss(struct machine *m, struct model_chunk *c, tensor x);

/* ---- megatron_compiled.c: what Megatron-core hands to torch.compile (jit_fuser) ---- */

/* The activation function after a bias (NULL: none); gated: SwiGLU, else GELU. */
tensor compiled_activation(struct machine *m, tensor x, struct param *bias, int gated);
/* residual + dropout(x + bias) */
tensor compiled_dropout_add(struct machine *m, struct megatron_rank *r, tensor x,
			    struct param *bias, tensor residual);

/* A row-parallel product's sum over tensor parallelism. */
tensor tp_reduce(struct machine *m, struct megatron_rank *r, tensor x);

/* stages.c: which layers a chunk has. */
int64_t chunk_first_layer(const struct hparams *s, int64_t stage, int64_t chunk);
int64_t chunk_layers(const struct hparams *s, int64_t stage, int64_t chunk);
int64_t chunk_mtp(const struct hparams *s, int64_t stage, int64_t chunk);
/* All layers are somewhere, and those of multi-token prediction beside the loss. */
void check_stages(const struct hparams *s, struct inputs *in);

/* megatron_states.c: parameters, buffers, optimizer. */
struct norm_weights declare_norm(struct model_chunk *c, int64_t width);
void declare_layer(struct model_chunk *c, struct megatron_layer *l, int64_t number);
/* The matrices declared since `from` are multiplied in fp8. */
void quantize_layer(struct model_chunk *c, size_t from);
struct param *declare(struct model_chunk *c, enum term_id role, int64_t out, int64_t in,
		      int on_host);
void rank_make(struct machine *m, struct megatron_rank *r);
void rank_step(struct machine *m, struct megatron_rank *r);
/* optimizer.zero_grad() */
void rank_zero_grad(struct machine *m, struct megatron_rank *r);
void rank_release(struct megatron_rank *r);

#endif

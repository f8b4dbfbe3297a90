/* Megatron-core on one rank: its layers, its contiguous buffers, its schedules. */
#ifndef MEMTRACE_MEGATRON_MODEL_H
#define MEMTRACE_MEGATRON_MODEL_H

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

#endif

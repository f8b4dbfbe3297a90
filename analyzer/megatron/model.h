/* Megatron-core's model on one rank: model chunks, layers, contiguous buffers, micro-batches. */
#ifndef MEMTRACE_MEGATRON_MODEL_H
#define MEMTRACE_MEGATRON_MODEL_H

#include "offload/groups.h"
#include "torch/ops.h"
#include "torch/checkpoint.h"
#include "torch/module.h"

struct norm_weights {
	struct param *weight, *bias;
};

struct expert {
	struct param *up, *up_bias, *down, *down_bias;
};

/* MambaMixer's */
struct mamba_weights {
	struct param *conv, *conv_bias, *dt_bias, *a_log, *d, *in, *norm, *out;
};

/* GatedDeltaNet's */
struct gdn_weights {
	struct param *dt_bias, *a_log, *in, *conv, *out;
	struct norm_weights norm;
};

/* The rotary embedding that each layer of latent attention has for itself: inverse frequencies;
 * tables of cosines and sines; and the angles that forward() returned, if its cache keeps them. */
struct latent_positions {
	tensor frequencies[3], cached[2], result;
};

struct megatron_layer {
	struct model_chunk *chunk;
	/* of a hybrid model, the letter of hybrid_layer_pattern: the layer is one part alone; '\0':
	 * attention and a feed-forward network */
	char kind;
	size_t first_param; /* its first parameter in the module */
	struct mamba_weights mamba;
	struct gdn_weights gdn; /* gdn.in NULL: the layer attends */
	int in_encoder;         /* T5's */
	int of_images;          /* LLaVA's encoder: neither a mask nor rotary positions */
	struct norm_weights before_attention, before_mlp;
	struct norm_weights q_norm, k_norm;
	struct param *q_down, *kv_down, *kv_up; /* latent attention; q_down NULL: none */
	struct latent_positions positions;
	struct param *proj, *proj_bias, *qkv, *qkv_bias, *up, *up_bias, *down, *down_bias;
	/* attention to the encoder's output; cross.q NULL: none */
	struct {
		struct norm_weights before;
		struct param *proj, *proj_bias, *q, *q_bias, *kv, *kv_bias;
	} cross;
	struct param *router;      /* NULL: dense */
	struct param *shared_gate; /* NULL: none */
	/* projections to the experts' width and back; NULL: it is that of the layer */
	struct param *narrow, *widen, *narrow_bias, *widen_bias;
	struct expert *experts, shared;
	/* The dispatcher keeps the router's probabilities, and with them the graph of the
	 * recomputation. Its leaves are the inputs of the checkpoint: those of the layer, or hidden
	 * states and embedded tokens (mtp.c). */
	struct input_ref graph[2];
};

/* Where a parameter is made: on the device; on the host, in fp32; on the host, in its own type. */
enum made_on { ON_DEVICE, ON_HOST, ON_HOST_NARROW };

/* A contiguous buffer has weights of one kind. */
enum buffer_kind { DENSE_BUFFER, EXPERT_BUFFER, FP8_BUFFER, MATRIX_BUFFER, BUFFERS };

/* A model chunk: the layers of one virtual stage, with the embedding and the output layer if it has
 * them. */
struct model_chunk {
	struct megatron_rank *rank;
	int first, last;
	int has_norm; /* the norm after the last layer */
	int64_t layer_count;
	struct megatron_layer *layers;
	/* T5's encoder; count 0: none */
	struct {
		int64_t count;
		struct megatron_layer *layers;
		struct norm_weights norm;
	} encoder;
	/* LLaVA's: CLIPViTModel and the projector of its output; patches NULL: none */
	struct vision_encoder {
		struct param *class_token, *patches, *positions;
		struct norm_weights norm; /* before the layers */
		struct megatron_layer *layers, *projector;
		struct clip_layer *clip; /* transformers' layers */
		tensor numbers;          /* position_ids */
	} vision;
	struct bert_head {
		struct param *dense, *dense_bias;
		struct norm_weights norm;
		/* the order of two sentences; NULL: not predicted */
		struct param *order, *order_bias, *pooler, *pooler_bias;
	} bert;
	int64_t mtp_count;
	struct mtp_layer *mtp;
	struct module module;
	size_t after_layers;    /* the first parameter after those of the layers */
	unsigned char *on_host; /* for each parameter: enum made_on */
	struct param *tokens, *positions, *token_types;
	struct param *head, *output; /* the weight that belongs to the output layer, and the weight
					that it uses */
	struct param *output_bias;   /* T5's and BERT's */
	struct norm_weights norm;
	struct param_and_grad_buffer {
		tensor weights, gradients;
		int64_t elements;
	} buffers[BUFFERS];
	int64_t first_layer;
	struct buffer_slot *slots; /* the place of each parameter in its buffer */
	struct input_ref input;    /* set_input_tensor(): the input of the last forward pass */
	tensor rotary;
};

/* One shard of a parameter: its master copy and the optimizer's states. */
struct optimizer_shard {
	int64_t n;
	int group, muon;
	struct fsdp_unit *unit; /* of fully_shard; NULL: none */
	tensor master, gradient, first, second;
};

struct megatron_rank {
	const struct hparams *s;
	int64_t stage;
	/* sizes on this rank: heads, groups, feed-forward width, vocabulary; tokens of a
	 * micro-batch in tensor parallel regions and outside them */
	int64_t heads, groups, ffn, vocab, rows, local_rows;
	int64_t group;        /* micro-batches that a chunk runs in turn */
	int64_t microbatches; /* micro-batches of a step */
	struct model_chunk *chunks;
	int64_t kept_positions;       /* results in the cache of latent attention's positions */
	struct fsdp *fsdp;            /* fully_shard; NULL: not */
	struct unit_buffers *buffers; /* Megatron's own FSDP; NULL: not */
	struct offload *offload;      /* NULL: no module is offloaded */
	struct optimizer_shard *shards;
	size_t shard_count, shard_room;
	tensor te_workspace[5]; /* workspaces of single products, and of the streams of a grouped
				   product */
	tensor ub_workspace;    /* workspace of products that overlap with tensor-parallel
				   communication */
	/* Transformer Engine's get_dummy_wgrad(): keeps one placeholder for each shape */
	struct {
		int64_t n, in;
		tensor gradient;
	} dummies[16];
	size_t dummy_count;
	/* inputs and gradients of the output layer, until the gradient of its weight is computed */
	tensor *waiting;
	size_t waiting_count, waiting_room;
	tensor masks[2]; /* dropout masks of a checkpointed layer, until it returns */
	size_t mask_count;
	tensor causal;     /* the mask that Transformer Engine's unfused attention keeps */
	tensor global;     /* Megatron's GlobalMemoryBuffer */
	tensor dummy;      /* _dummy_overflow_buf */
	tensor numbers[6]; /* numbers of the training loop: losses, norms, counts of values that are
			      not finite */
	int graphed;       /* CUDA graphs have been captured */
	tensor mtp_numbers[2]; /* numbers of multi-token prediction: losses and their scale */
};

/* A micro-batch between its forward and its backward pass. */
struct microbatch {
	struct tape tape;
	struct param input; /* received from the previous stage */
	tensor gradient;    /* gradient of the output, received from the next stage */
	tensor weights;     /* the loss mask */
	tensor tokens, labels, positions, mask, output, rotary;
	tensor token_types, order; /* BERT's */
	/* LLaVA's: images, in the model's type, and projected; tokens of the text, and embedded */
	struct {
		tensor pixels, converted, projected, tokens, text;
	} image;
	/* T5's: the encoder's tokens, masks, and its output, to which the decoder attends */
	struct {
		tensor tokens, positions, mask, cross_mask, output;
	} encoder;
	tensor logits; /* the logits of the last multi-token prediction, a variable of the forward
			  pass */
	struct chunk_plan *plan; /* of combined passes (overlap.c) */
};

/* The groups of an offloaded module; NULL: it is not offloaded. */
static inline struct offload *offload_of(const struct megatron_rank *r,
					 enum offloaded_module module)
{
	return r->s->offload >> module & 1 ? r->offload : NULL;
}

#endif

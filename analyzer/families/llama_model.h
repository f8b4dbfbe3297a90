/* A decoder of transformers while it runs: weights, and tensors that all layers share. */
#ifndef MEMTRACE_FAMILIES_LLAMA_MODEL_H
#define MEMTRACE_FAMILIES_LLAMA_MODEL_H

#include "distributed/wrapper.h"
#include "families/decoders.h"
#include "families/experts.h"
#include "families/loop.h"

struct llama_layer {
	struct llama *model;
	struct param *attention_norm, *mlp_norm, *q, *k, *v, *o, *bias[3], *gate, *up, *down;
	struct param *q_norm, *k_norm;             /* of queries and keys */
	struct param *after_attention, *after_mlp; /* norms of what the residual gets */
	struct experts experts;
	int sparse, sliding;
	tensor logits; /* the router's logits, kept for the auxiliary loss */
};

struct rotary_table {
	tensor cos, sin;
};

struct llama {
	const struct hparams *s;
	const struct decoder *row;
	int64_t rotary; /* the part of a head that turns */
	struct wrapper w;
	struct llama_layer *layers;
	struct param *tokens, *last, *head;
	tensor mask, sliding, places, frequencies[5]; /* places: position_ids */
	struct rotary_table rope[2]; /* of layers that see all tokens, and of those with a window */
	struct loop loop;
};

#endif

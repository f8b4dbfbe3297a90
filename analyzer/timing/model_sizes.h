/* The sizes of a model and its training, as far as time depends on them. */
#ifndef TIMING_MODEL_SIZES_H
#define TIMING_MODEL_SIZES_H

#include "timing/gpu_speed.h"

struct model_sizes {
	double layers, hidden, ffn, heads, groups, head, vocab, tokens; /* of one sequence */
	double gates; /* matrices into the feed-forward network's width: 2 if it is gated */
	/* Mixture of experts. */
	double expert_layers, experts, chosen, expert_ffn, shared_ffn;
	double expert_tp;     /* ranks that divide an expert; 0: as the other layers */
	double window;        /* tokens that a token attends to at most */
	double batch;         /* sequences of a step */
	double weight, grad;  /* bytes of a weight and of a gradient that is reduced */
	double product_rate;  /* of the layers' products */
	int stores_attention; /* the attention's weights are in memory: no flash attention */
	int overlaps_reduction, overlaps_gather, is_deepspeed;
	double loader; /* bytes that a data loader's worker moves for a sample's attention mask */
};

/* 0: a size is missing that time depends on, or the model has an encoder and a decoder. */
int model_sizes_read(struct model_sizes *m, const struct config *c, const struct gpu_speed *g);

/* Weights of one layer without experts, of the experts of one layer, and of an embedding. */
double dense_weights(const struct model_sizes *m);
double expert_weights(const struct model_sizes *m);
/* Operations of the model in one step, without recomputation: products and the whole attention,
 * as Megatron-LM and document 003 count them. */
double step_operations(const struct model_sizes *m);

#endif

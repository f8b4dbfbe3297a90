/* The repeated layers in a sequence of parameter sizes, and the models that they may be. */
#ifndef MEMTRACE_INFER_LAYERS_H
#define MEMTRACE_INFER_LAYERS_H

#include "infer/alloc_profile.h"
#include "estimate/estimate.h" /* wide */
#include "util/util.h"

#define MAX_SLOTS 320 /* parameters of one layer at most */

/* A layer that repeats in a sequence of parameters. */
struct layers {
	enum parameter_source source;
	size_t start, period,
		count;         /* index of the first, blocks of a layer, layers; count 0: none */
	bytes slot[MAX_SLOTS]; /* each parameter's smallest block: the one with the least tail */
};
/* Finds the repetition that covers most bytes of the source's sequence. */
void layers_find(struct layers *l, const struct alloc_profile *c, enum parameter_source source);

/* One interpretation of a layer's sizes. Rows are of the whole model, not of a tensor-parallel
 * part. */
struct layer_hypothesis {
	int64_t hidden, ffn, kv; /* kv: rows of keys; values have as many */
	int64_t tp;
	int width; /* bytes of an element when the parameter is allocated */
	int gated, linear_bias, qkv_bias;
	int vectors;       /* of hidden_size elements in a layer: normalizations and biases */
	int64_t ffn_least; /* the sizes allow ffn_least to `ffn`, until `ffn` is narrowed */
	int64_t vocab_most, vocab_least, positions_most, positions_least; /* 0: none on this rank */
	int heads_seen; /* blocks of the vocabulary's size: embedding and output layer */
	/* 0: no experts. Otherwise `ffn` is the width of one expert; `experts_here` are this
	 * rank's. */
	int64_t experts, experts_here;
	int apart;     /* each expert's matrices are blocks of their own */
	int no_router; /* no router was found: any number of ranks may share the experts */
	int64_t shared, shared_least; /* width of the shared experts together; 0: none */
};
#define MAX_HYPOTHESES 32

/* Limits of the hypotheses, from the job. */
struct job_assumptions {
	int64_t shards; /* ranks that a sharded parameter is split over */
	int64_t world;  /* tensor-parallel ranks at most */
	int experts;    /* code of mixtures of experts ran */
};
/* Writes up to MAX_HYPOTHESES interpretations of `l`; returns how many. */
size_t layers_interpret(const struct layers *l, const struct alloc_profile *c,
			const struct job_assumptions *job, struct layer_hypothesis *hypotheses);

/* Can a request of `wanted` bytes have got a block of `size`? True for the rounded size and, for
 * large blocks, up to one unsplit tail more. */
int size_fits(bytes size, wide wanted);

#endif

/* T5's attention, with a bias of relative positions. */
#ifndef MEMTRACE_FAMILIES_T5_ATTENTION_H
#define MEMTRACE_FAMILIES_T5_ATTENTION_H

#include "families/plain_model.h"

/* What the attention of a layer gets, and what it returns beside its result. */
struct t5_call {
	const struct pair *parts; /* projections of queries, keys, values */
	const struct pair *out;
	tensor source;  /* of keys and values */
	tensor mask;    /* of eager attention; none: there is none */
	int causal;     /* without a mask, the kernel gets the causal one in its bias */
	tensor bias;    /* the caller's; none: it is made, and is the caller's then */
	tensor weights; /* the probabilities of eager attention, which are the caller's */
};

/* T5Attention.forward of layer l */
tensor t5_attention(struct machine *m, struct plain_layer *l, tensor x, struct t5_call *call);

#endif

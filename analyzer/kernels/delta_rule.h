/* The rule by which a gated delta net computes its output from its heads. */
#ifndef MEMTRACE_KERNELS_DELTA_RULE_H
#define MEMTRACE_KERNELS_DELTA_RULE_H

#include "torch/ops.h"

/* A sequence is worked on in chunks of that many tokens. */
#define DELTA_CHUNK 64

struct delta_sizes {
	int64_t batch, tokens, heads, key, value; /* of this rank; widths of a head */
};

/* `decay` in fp32 and `beta`: a number for each token and head. The caller owns the result, in the
 * type of q. */
struct delta_inputs {
	tensor q, k, v, decay, beta;
};

/* Megatron-core's torch_chunk_gated_delta_rule(), with --deterministic-mode */
tensor delta_rule_of_torch(struct machine *m, const struct delta_sizes *z,
			   const struct delta_inputs *in);
/* flash-linear-attention's chunk_gated_delta_rule() */
tensor delta_rule_of_fla(struct machine *m, const struct delta_sizes *z,
			 const struct delta_inputs *in);

#endif

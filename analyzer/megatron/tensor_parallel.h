/* Tensor parallelism: linear layers with split weights, and the exchanges between ranks. Results
 * are the caller's to unref. */
#ifndef MEMTRACE_MEGATRON_TENSOR_PARALLEL_H
#define MEMTRACE_MEGATRON_TENSOR_PARALLEL_H

#include "megatron/model.h"

/* get_global_memory_buffer().get_tensor(n) */
void global_buffer(struct machine *m, struct megatron_rank *r, int64_t n, enum dtype type);

/* ColumnParallelLinear, RowParallelLinear, or Transformer Engine's. `bias`: NULL, none. `gathers`:
 * the input is gathered over sequence parallelism. */
tensor parallel_linear(struct machine *m, struct megatron_rank *r, tensor x, struct param *weight,
		       struct param *bias, int gathers);
/* Megatron-core's own. `bias`: NULL, none or added by the caller. `defers`: the weight's gradient
 * is computed after the backward passes (defer_embedding_wgrad_compute). */
tensor mcore_linear(struct machine *m, struct megatron_rank *r, tensor x, struct param *weight,
		    struct param *bias, int gathers, int defers);
/* Frees the inputs and gradients that deferred weight gradients were kept for. */
void finish_deferred_gradients(struct machine *m, struct megatron_rank *r);
/* A row-parallel product's sum over the ranks; with sequence parallelism this rank's part of it. */
tensor tp_reduce(struct machine *m, struct megatron_rank *r, tensor x);
/* This rank's part of the tokens; t: ranks. */
tensor tp_scatter(struct machine *m, tensor x, int64_t t);

/* LayerNorm or RMSNorm of the hidden states. */
tensor hidden_norm(struct machine *m, struct megatron_rank *r, struct norm_weights *w, tensor x);

/* tensor_parallel.checkpoint() */

/* A part of the forward pass that begins with a layer: run() gets a context of `size` bytes. */
struct layer_run {
	struct megatron_layer *first;
	tensor (*run)(struct machine *, void *, const tensor *);
	void *context;
	size_t size;
};

/* Runs a part on `count` tensors, 1 or 2. `again`: the backward pass recomputes all of it. */
tensor maybe_recomputed(struct machine *m, int again, const struct layer_run *part,
			const tensor *in, int count);

#endif

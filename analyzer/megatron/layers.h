/* The transformer layers of Megatron-core. Results are the caller's to unref. */
#ifndef MEMTRACE_MEGATRON_LAYERS_H
#define MEMTRACE_MEGATRON_LAYERS_H

#include "megatron/model.h"

/* run(), which runs the layer, and others behind it; `again`: all are recomputed as a whole.
 * `context` has `size` bytes; `in` has `count` tensors, 1 or 2. */
tensor maybe_recomputed(struct machine *m, int again, struct megatron_layer *l,
			tensor (*run)(struct machine *, void *, const tensor *), void *context,
			size_t size, const tensor *in, int count);
tensor layer_forward(struct machine *m, struct megatron_layer *l, struct microbatch *b, tensor x);
/* The two halves of a layer, each with its normalization and its residual connection. */
tensor layer_attention(struct machine *m, struct megatron_layer *l, struct microbatch *b, tensor x);
tensor layer_mlp(struct machine *m, struct megatron_layer *l, tensor x);

#endif

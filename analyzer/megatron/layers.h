/* The transformer layers of Megatron-core. Results are the caller's to unref. */
#ifndef MEMTRACE_MEGATRON_LAYERS_H
#define MEMTRACE_MEGATRON_LAYERS_H

#include "megatron/model.h"

tensor layer_forward(struct machine *m, struct megatron_layer *l, struct microbatch *b, tensor x);
/* The two halves of a layer, each with its normalization and its residual connection. */
tensor layer_attention(struct machine *m, struct megatron_layer *l, struct microbatch *b, tensor x);
tensor layer_mlp(struct machine *m, struct megatron_layer *l, tensor x);
/* A dense feed-forward network without the bias of its result. */
tensor layer_dense(struct machine *m, struct megatron_layer *l, tensor x);

/* The parts of a layer that run in a CUDA graph. */
enum graph_part { GRAPH_ATTENTION, GRAPH_MLP };

/* Is the part of the layer in a graph? */
int graph_has(const struct megatron_layer *l, enum graph_part part);

#endif

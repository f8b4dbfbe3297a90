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

/* What is around the feed-forward part of a layer: mlp_begin() normalizes the layer's input to x,
 * which the caller owns as it owns `entered`, the input that the group of an offloaded
 * normalization begins with; discard_outputs() discards x behind the part. mlp_end() replaces
 * *part by its sum with `residual`. */
struct mlp_call {
	struct offload *offload;
	struct discarded *discarded;
	tensor entered, x;
};
void mlp_begin(struct machine *m, struct megatron_layer *l, tensor input, struct mlp_call *call);
void mlp_end(struct machine *m, struct megatron_layer *l, struct mlp_call *call, tensor *part,
	     tensor residual);

/* The parts of a layer that run in a CUDA graph. */
enum graph_part { GRAPH_ATTENTION, GRAPH_MLP };

/* Is the part of the layer in a graph? */
int graph_has(const struct megatron_layer *l, enum graph_part part);

#endif

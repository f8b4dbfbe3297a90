/* The parts of a layer that run in a CUDA graph. */
#ifndef MEMTRACE_MEGATRON_GRAPH_INPUT_H
#define MEMTRACE_MEGATRON_GRAPH_INPUT_H

#include "megatron/model.h"

enum graph_part { GRAPH_ATTENTION, GRAPH_MLP };

/* Is the part of the layer in a graph? */
int graph_has(const struct megatron_layer *l, enum graph_part part);
/* The input of a layer's part, which the caller owns: the graph's own copy if a graph begins there.
 * If a graph has ended before, blocks are allocated again from here on. */
tensor graph_enter(struct machine *m, struct megatron_layer *l, enum graph_part part, tensor x);

#endif

/* Transformer Engine's CUDA graphs, one for each layer and micro-batch, as Megatron-core captures
 * them. */
#ifndef MEMTRACE_GRAPHS_H
#define MEMTRACE_GRAPHS_H

#include "families/megatron.h"

enum graph_part { GRAPH_ATTENTION, GRAPH_MLP };

/* The input of a layer's part: where its graph begins, the graph's own copy; where the graph has
 * ended before, what comes from now on is allocated again. */
tensor graph_enter(struct machine *m, struct megatron_layer *l, enum graph_part part, tensor x);
void check_graphs(const struct hparams *s, struct inputs *in);
/* Before a step: captures them when the warm-up is over. */
void graphs_capture(struct machine *m, struct megatron_rank *r);

#endif

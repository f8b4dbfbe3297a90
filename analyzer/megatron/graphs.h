/* Transformer Engine's CUDA graphs, one for each layer and micro-batch, as Megatron-core captures
 * them. */
#ifndef MEMTRACE_MEGATRON_GRAPHS_H
#define MEMTRACE_MEGATRON_GRAPHS_H

#include "megatron/model.h"

void check_graphs(const struct hparams *s, struct inputs *in);
/* Before a step: captures the graphs once the warm-up is over. */
void graphs_capture(struct machine *m, struct megatron_rank *r);

#endif

#ifndef MEMTRACE_KEPT_GRAPHS_H
#define MEMTRACE_KEPT_GRAPHS_H

#include "attribution/block_info.h"

/*
 * Without gradients, an evaluation frees what a layer made when the next one is through. If many
 * lines of a model have blocks of several layers or calls at once, it keeps a graph: activations,
 * and no temporaries.
 */
void find_kept_graphs(const struct block_context *c, struct lifetimes *l);

#endif

/* Parameters of 8 bytes for each number. A trace has the bytes of a block, not its type; the blocks
 * of a linear layer tell the type together. */
#ifndef MEMTRACE_FLOAT64_H
#define MEMTRACE_FLOAT64_H

#include "attribution/lifetime.h"
#include "trace/tables.h"

/*
 * How many linear layers of float64 there are, of as many inputs as outputs; 0 if others are of
 * another type, or if the job has gated linear units, whose sizes are alike. The weight of such a
 * layer has n * n numbers, and its bias, and that of the layer before, n. `*narrow` gets the number
 * of those whose sizes are of another type. `l` is classified.
 */
uint32_t layers_of_float64(const struct lifetimes *l, const struct tables *t, uint32_t *narrow);

#endif

/*
 * The category of each live block: from the phase in which it was allocated (spans.h), the time at
 * which it was freed, and its Python stack (frames.def). If the trace ends before a block is freed,
 * the phase and the stack decide alone.
 */
#ifndef MEMTRACE_CLASSIFY_H
#define MEMTRACE_CLASSIFY_H

#include "attribution/block_info.h"

/* Sets the category of each lifetime. `in->end_ns` is the last time for which frees are known. */
void classify(struct lifetimes *l, const struct block_setting *in);

/* The same, and the category of `others`, which are not live at the moment of `l`: the facts that
 * a comparison of the blocks of `l` shows hold for them too. */
void classify_beside(struct lifetimes *l, struct lifetimes *others, const struct block_setting *in);

#endif

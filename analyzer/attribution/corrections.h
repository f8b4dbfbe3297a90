/* Categories that only a comparison of the classified blocks by their sizes shows. */
#ifndef MEMTRACE_CORRECTIONS_H
#define MEMTRACE_CORRECTIONS_H

#include "attribution/block_info.h"
#include "attribution/lifetime.h"

/* Small blocks of one size, without a stack, that are the samples of a data set: fewer may be
 * parameters, or numbers that a loop keeps. */
#define MANY_SAMPLES 1000

/* `l` is classified, each block by itself. */
void correct_categories(const struct block_context *c, struct lifetimes *l);

#endif

/* Categories that only a comparison of the classified blocks by their sizes shows. */
#ifndef MEMTRACE_CORRECTIONS_H
#define MEMTRACE_CORRECTIONS_H

#include "attribution/block_info.h"
#include "attribution/lifetime.h"

/* `l` is classified, each block by itself. */
void correct_categories(const struct block_context *c, struct lifetimes *l);

#endif

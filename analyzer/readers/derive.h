/* Fields that follow from the given ones, and contradictions between fields. */
#ifndef MEMTRACE_DERIVE_H
#define MEMTRACE_DERIVE_H

#include "config/config.h"

/* Derives fields from those that are given (data_parallel_size from world_size, the padded
 * vocabulary
 * ...). Fields derived by an earlier call are derived anew. -1: a contradiction. */
int config_derive(struct config *c, struct err *e);

/* Do the parallel sizes divide what they split? The message names both. */
int config_check_layout(const struct config *c, struct err *e);

#endif

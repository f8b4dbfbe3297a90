/* The difference between two declared configurations. */
#ifndef MEMTRACE_DIFF_CONFIG_H
#define MEMTRACE_DIFF_CONFIG_H

#include "diff/diff_items.h"

/* Adds an item of DIFF_CONFIG for each value that the sides' first runs do not share: fields,
 * options, environment, versions, device. */
void diff_configs(struct diff *d);

#endif

/* The ranks of --ranks. */
#ifndef MEMTRACE_RANK_LIST_H
#define MEMTRACE_RANK_LIST_H

#include "util/err.h"

#include <stddef.h>

/* Parses "0,8-15" or "all": ranks below `world`, each once, ascending. *ranks is allocated. */
int rank_list_parse(const char *list, int world, int **ranks, size_t *count, struct err *e);

#endif

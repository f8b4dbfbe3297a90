/* Broadcast data between ranks that do not run at the same time: a directory that
 * cudasim/python/memtrace_broadcasts.py writes and reads. */
#ifndef MEMTRACE_BROADCASTS_H
#define MEMTRACE_BROADCASTS_H

#include "util/err.h"

#include <stddef.h>

struct broadcasts {
	char *directory; /* empty at first; removed by broadcasts_close() */
	size_t seen;     /* bytes that were read of the list of wanted ranks */
};

/* Creates the directory and sets its path in the environment of what is started from here. */
int broadcasts_open(struct broadcasts *s, struct err *e);
/* The next rank below `world` that another rank waits for; -1: none now. */
int broadcasts_next_wanted(struct broadcasts *s, int world);
/* Tells waiting ranks that this rank will send no more. */
void broadcasts_end(const struct broadcasts *s, int rank);
void broadcasts_close(struct broadcasts *s);

#endif

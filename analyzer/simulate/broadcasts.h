/* What ranks broadcast that others of the job, which do not run at the same time, wait for: a
 * directory that cudasim/python/memtrace_broadcasts.py writes and reads. */
#ifndef MEMTRACE_BROADCASTS_H
#define MEMTRACE_BROADCASTS_H

#include "util/err.h"

#include <stddef.h>

struct broadcasts {
	char *directory; /* empty at first; removed by broadcasts_close() */
	size_t seen;     /* bytes of its list of wanted ranks */
};

/* Makes the directory, and names it to what is started from here. */
int broadcasts_open(struct broadcasts *s, struct err *e);
/* The next rank below `world` that somebody waits for; -1: none now. */
int broadcasts_next_wanted(struct broadcasts *s, int world);
/* Nothing more comes from that rank. */
void broadcasts_end(const struct broadcasts *s, int rank);
void broadcasts_close(struct broadcasts *s);

#endif

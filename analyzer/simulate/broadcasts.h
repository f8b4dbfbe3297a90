/* What ranks broadcast that others of the job, which do not run at the same time, wait for: a
 * directory that cudasim/python/memtrace_broadcasts.py writes and reads. */
#ifndef MEMTRACE_SIM_SENT_H
#define MEMTRACE_SIM_SENT_H

#include "util/err.h"

#include <stddef.h>

struct sent {
	char *directory; /* empty at first; removed by sent_close() */
	size_t seen;     /* bytes of its list of wanted ranks */
};

/* Makes the directory, and names it to what is started from here. */
int sent_open(struct sent *s, struct err *e);
/* The next rank below `world` that somebody waits for; -1: none now. */
int sent_wanted(struct sent *s, int world);
/* Nothing more comes from that rank. */
void sent_end(const struct sent *s, int rank);
void sent_close(struct sent *s);

#endif

/* Sizes, times and names of processes in few columns. */
#ifndef MEMTRACE_TOP_FRAME_WORDS_H
#define MEMTRACE_TOP_FRAME_WORDS_H

#include "live/rows.h"
#include "util/buf.h"

/* "7.9G": at most five columns and a sign. */
void frame_size(struct buf *b, bytes size);
/* "12 s", "4 min", "3 h", "2 d". */
void frame_time(struct buf *b, double seconds);
/* "rank 3", "pid 7", of a damaged trace its file. */
void frame_name(struct buf *b, const struct live_process *p);

#endif

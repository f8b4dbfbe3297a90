/* Counts the events that could not be recorded, in the trace's header. */
#ifndef PRELOAD_LOSSES_H
#define PRELOAD_LOSSES_H

#include <memtrace/trace.h>

/* A recording with this header begins. IS_COUNTING 0: events are not wanted, so none is lost. */
void losses_begin(struct mt_header *header, int is_counting);

/* An event is lost; the header keeps the first REASON. The first loss wakes the helper thread,
 * which prints one line. */
void losses_count(enum mt_lost reason);

/* The recording has ended: nothing is lost any more. */
void losses_end(void);

#endif

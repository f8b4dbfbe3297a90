/* Counts the events that could not be recorded, in the trace's header. */
#ifndef PRELOAD_LOSSES_H
#define PRELOAD_LOSSES_H

#include <memtrace/trace.h>

/* Begins a recording with this header. IS_COUNTING 0: events are not recorded, so none is lost. */
void losses_begin(struct mt_header *header, int is_counting);

/* Counts one lost event; the header keeps the first REASON. The first loss wakes the helper thread,
 * which prints one line. */
void losses_count(enum mt_lost reason);

/* Ends the counting: the recording has ended, so no more events are lost. */
void losses_end(void);

#endif

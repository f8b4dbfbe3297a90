/* The second pass of the replay: the live blocks at the peaks, at the failures and at the end. */
#ifndef MEMTRACE_LIVE_BLOCKS_H
#define MEMTRACE_LIVE_BLOCKS_H

#include "replay/replay.h"

/* After replay_levels() and steps_number(). */
void replay_live_blocks(struct replay *r, const struct trace *t, const struct replay_options *o);

#endif

/* One process at present, on a line for each of its devices: for `memtrace report --follow`. */
#ifndef MEMTRACE_TOP_FOLLOW_TEXT_H
#define MEMTRACE_TOP_FOLLOW_TEXT_H

#include "live/process.h"
#include "util/buf.h"

/* `clock`: the time of the day. */
void follow_text(struct buf *b, const struct live_process *p, const char *clock);

/* Why a process in LIVE_UNKNOWN, and `others` like it, are not waited for. */
void follow_given_up(struct buf *b, const struct live_process *p, size_t others);

#endif

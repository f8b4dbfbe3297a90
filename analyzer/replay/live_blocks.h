/* The second pass of the replay: the live blocks at the peaks, at the failures and at the end. */
#ifndef MEMTRACE_LIVE_BLOCKS_H
#define MEMTRACE_LIVE_BLOCKS_H

#include "replay/replay.h"

/* After replay_levels() and steps_number(). */
void replay_live_blocks(struct replay *r, const struct trace *t, const struct replay_options *o);

/* Merges segments, which are sorted by device and address: adjacent mapped ranges are one, since a
 * block may lie across them. Memory of cudaMalloc is a segment by itself. Returns how many are
 * left.
 */
size_t live_blocks_merge_mapped(struct mt_record *segment, size_t count);

#endif

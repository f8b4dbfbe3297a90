/* The category of every block of a stream. */
#ifndef MEMTRACE_STREAM_CLASSIFY_H
#define MEMTRACE_STREAM_CLASSIFY_H

#include "html/stream.h"

/*
 * `d`: the device after the replay, with keep_peak_blocks. A block's category follows from a
 * comparison of the blocks that are live beside it. What was live at the peak has the report's
 * category; then what was live at the last failure; then what was live at one of some moments
 * spread over the trace. Other blocks are compared with those of the next such moment.
 */
void stream_classify(struct stream *s, const struct device *d, uint64_t end_ns);

#endif

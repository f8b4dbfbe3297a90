/* The segments of a memory snapshot. */
#ifndef MEMTRACE_EXPORT_PYTORCH_SEGMENTS_H
#define MEMTRACE_EXPORT_PYTORCH_SEGMENTS_H

#include "export/pytorch_writer.h"

/* A segment with its live blocks, by address. */
void snapshot_segment(struct snapshot_writer *w, const struct mt_record *segment,
		      const struct mt_record *block, size_t count);
/* The key "segments" and its value, from `live`. */
void snapshot_segments(struct snapshot_writer *w);

#endif

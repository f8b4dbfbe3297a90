/* What the user of `memtrace top` should know first, as a sentence. */
#ifndef MEMTRACE_TOP_STATUS_LINE_H
#define MEMTRACE_TOP_STATUS_LINE_H

#include "live/rows.h"
#include "util/buf.h"

/* Why a row needs attention (live_rows_worst()). */
void status_line_row(struct buf *b, const struct process_row *r, const char *directory);
/* The device with the least room. */
void status_line_fullest(struct buf *b, const struct process_row *rows, size_t count);

#endif

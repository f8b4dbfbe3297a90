/* What the user of `memtrace top` should know first, as a sentence. */
#ifndef MEMTRACE_TOP_NEWS_H
#define MEMTRACE_TOP_NEWS_H

#include "live/rows.h"
#include "util/buf.h"

/* Why a row needs somebody (live_rows_worst()). */
void news_of(struct buf *b, const struct process_row *r, const char *directory);
/* The device with the least room. */
void news_fullest(struct buf *b, const struct process_row *rows, size_t count);

#endif

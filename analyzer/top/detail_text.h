/* One process in detail: its memory by category, owner and stack. */
#ifndef MEMTRACE_TOP_DETAIL_TEXT_H
#define MEMTRACE_TOP_DETAIL_TEXT_H

#include "live/rows.h"
#include "render/page.h"
#include "report/report.h"

/* `tail`: the report on the tail of the trace (live/tail.h); empty: it cannot be read, `why` says
 * the reason. */
void detail_text(struct page *p, const struct process_row *r, const struct report *tail,
		 const char *why);

#endif

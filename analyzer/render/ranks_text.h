/* The ranks of a job, and the runs of a directory, beside each other, as text. */
#ifndef MEMTRACE_RANKS_TEXT_H
#define MEMTRACE_RANKS_TEXT_H

#include "render/page.h"
#include "report/report.h"
#include "session/trace_files.h"

/* The worst rank first, the others by number. */
void ranks_text_table(struct page *p, const struct report *r);
/* The tables of ranks and groups, the outliers, missing ranks and unreadable files. */
void ranks_text(struct page *p, const struct report *r);
/* The warnings of all ranks but one. */
void ranks_text_warnings(struct page *p, const struct report *r, const struct rank *shown);

/* A table of the runs of a directory. */
void runs_text(const struct recorded_run *runs, size_t count, const struct style *style,
	       struct buf *out);

#endif

/* The ranks of a job beside each other, as text. */
#ifndef MEMTRACE_RANKS_TEXT_H
#define MEMTRACE_RANKS_TEXT_H

#include "render/page.h"
#include "report/report.h"

/* The tables of ranks and groups, the outliers, missing ranks and unreadable files. */
void ranks_text(struct page *p, const struct report *r);
/* The warnings of all ranks but one. */
void ranks_text_warnings(struct page *p, const struct report *r, const struct rank *shown);

#endif

/* The ranks of a job beside each other, as text and as JSON. */
#ifndef MEMTRACE_RANK_TABLE_H
#define MEMTRACE_RANK_TABLE_H

#include "render/page.h"
#include "report/report.h"

#include <jansson.h>

/* The tables of ranks and groups, the outliers, missing ranks and unreadable files. */
void put_ranks(struct page *p, const struct report *r);
/* The warnings of all ranks but one. */
void put_other_warnings(struct page *p, const struct report *r, const struct rank *shown);
/* Layout, groups, outliers, missing ranks and unreadable files. */
json_t *ranks_json(const struct report *r);

#endif

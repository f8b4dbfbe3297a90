/* Of a report in its forms: the ranks of a job beside each other. */
#ifndef MEMTRACE_RANK_TABLE_H
#define MEMTRACE_RANK_TABLE_H

#include "render/page.h"
#include "report/report.h"

#include <jansson.h>

/* The table of ranks and groups, outliers, what is missing. */
void put_ranks(struct page *p, const struct report *r);
/* The warnings of all ranks but one. */
void put_other_warnings(struct page *p, const struct report *r, const struct rank *shown);
/* The job as data: layout, groups, outliers, missing ranks, files that cannot be read. */
json_t *ranks_json(const struct report *r);

#endif

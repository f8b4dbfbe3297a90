/* The ranks of a job beside each other, as JSON. */
#ifndef MEMTRACE_RANKS_JSON_H
#define MEMTRACE_RANKS_JSON_H

#include "report/report.h"

#include <jansson.h>

/* Layout, groups, outliers, missing ranks and unreadable files. */
json_t *ranks_json(const struct report *r);

#endif

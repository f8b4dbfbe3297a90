/* A diagnosis as JSON. */
#ifndef MEMTRACE_FINDINGS_JSON_H
#define MEMTRACE_FINDINGS_JSON_H

#include "report/report.h"

#include <jansson.h>

/* One finding of the report's diagnosis. */
json_t *finding_json(const struct report *of, size_t index);
/* The memory that a whole step needs, if the job failed in its first one; else null. */
json_t *need_json(const struct report *of, const struct rank *r);
/* Weights, cache and the current call; null if the job trains. */
json_t *inference_json(const struct rank *of);

#endif

/* The findings of a rank beyond its cause, for every form of output. */
#ifndef MEMTRACE_ADVICE_H
#define MEMTRACE_ADVICE_H

#include "report/report.h"

struct finding;

/* Is the device's memory nearly used up, or did the allocator have to make room? */
int rank_is_nearly_full(const struct rank *r);
/* The finding whose remedy saves memory in a rank that did not fail, or survived it; NULL: none. */
const struct finding *advice_finding(const struct report *r, size_t rank);
/* Does a whole step need more than the failure shows, or is that unknown? */
int rank_has_need(const struct rank *r);
/* The stage of the moment that the metrics are about, if the job only calls its model:
 * "prefill", "decode" or "inference"; NULL if the job trains. */
const char *inference_stage(const struct rank *r);

#endif

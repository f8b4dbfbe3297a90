/* A diagnosis as text and as JSON. */
#ifndef MEMTRACE_FINDINGS_H
#define MEMTRACE_FINDINGS_H

#include "diagnose/diagnose.h"
#include "render/page.h"
#include "report/report.h"

#include <jansson.h>

/* The cause and the remedies for the rank that is shown, or the advice if it did not
 * fail. Returns 0 if there was nothing to print. */
int findings_verdict(struct page *p, const struct report *r);
/* The memory that a whole step needs, if the job failed in its first one. */
void findings_need(struct page *p, const struct report *report, const struct rank *r);
/* The causes that were ruled out, and other findings. */
void findings_rest(struct page *p, const struct report *r);
/* The same as JSON; null if there is nothing to say. */
json_t *need_json(const struct report *report, const struct rank *r);
/* One finding of the report's diagnosis. */
json_t *finding_json(const struct report *r, size_t index);
/* The table of all diagnosis rules. */
void findings_rules(const struct style *style, struct buf *out);

/* The stage of the moment that the metrics are about, if the job only calls its model:
 * "prefill", "decode" or "inference"; NULL if the job trains. */
const char *findings_stage(const struct rank *r);
/* Weights, cache and the current call; nothing, or null, if the job trains. */
void findings_inference(struct page *p, const struct rank *r);
json_t *inference_json(const struct rank *r);

/* Adds the commands that show more of the rank `r`. */
void put_next(struct page *p, const struct report *report, const struct rank *r);

#endif

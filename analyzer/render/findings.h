/* A diagnosis as text. */
#ifndef MEMTRACE_FINDINGS_H
#define MEMTRACE_FINDINGS_H

#include "diagnose/diagnose.h"
#include "render/page.h"
#include "report/report.h"

/* The cause and the remedies for the rank that is shown, or the advice if it did not
 * fail. Returns 0 if there was nothing to print. */
int findings_verdict(struct page *p, const struct report *r);
/* The memory that a whole step needs, if the job failed in its first one. */
void findings_need(struct page *p, const struct report *report, const struct rank *r);
/* The causes that were ruled out, and other findings. */
void findings_rest(struct page *p, const struct report *r);
/* The table of all diagnosis rules. */
void findings_rules(const struct style *style, struct buf *out);

/* Weights, cache and the current call; nothing if the job trains. */
void findings_inference(struct page *p, const struct rank *r);

/* Adds the commands that show more of the rank `r`. */
void put_next(struct page *p, const struct report *report, const struct rank *r);

#endif

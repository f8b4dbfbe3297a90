/* A diagnosis in its forms. */
#ifndef MEMTRACE_FINDINGS_H
#define MEMTRACE_FINDINGS_H

#include "diagnose/diagnose.h"
#include "render/page.h"
#include "report/report.h"

#include <jansson.h>

/* For the rank that is shown. The cause and what to change; returns whether there was anything to
 * say. */
int findings_verdict(struct page *p, const struct report *r);
/* What was ruled out, and what else was found. */
void findings_rest(struct page *p, const struct report *r);
/* An array of all findings. */
json_t *findings_json(const struct report *r);

#endif

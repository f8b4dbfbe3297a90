/* A diagnosis in its forms. */
#ifndef MEMTRACE_FINDINGS_H
#define MEMTRACE_FINDINGS_H

#include "diagnose.h"
#include "page.h"
#include "report.h"

/* The verdict: cause, fixes, what was ruled out, what else was found. */
void findings_text(struct page *p, const struct report *r, const struct diagnosis *d);
/* json_t *, an array. */
void *findings_json(const struct report *r, const struct diagnosis *d);

#endif

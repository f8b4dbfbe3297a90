/* The texts of a diagnosis: names of its values, and those of rules.def with the quantities of a
 * trace. */
#ifndef MEMTRACE_MESSAGE_H
#define MEMTRACE_MESSAGE_H

#include "diagnose/diagnose.h"
#include "metrics/metrics.h"
#include "util/buf.h"

const char *severity_name(enum severity s);
/* "at least" or "at the failure"; NULL for SAVING_ABOUT. */
const char *saving_bound_name(enum saving_bound b);

/* Adds a message with its {metrics} filled in, which become evidence of `f`; that may be NULL. Of
 * "[a part with {metrics}]", the brackets are dropped, and all of it if the first metric is 0. */
void diagnose_fill(struct buf *out, const char *format, const struct metrics *m, struct finding *f);

#endif

/* The texts of rules.def with the quantities of a trace. */
#ifndef MEMTRACE_MESSAGE_H
#define MEMTRACE_MESSAGE_H

#include "metrics/metrics.h"
#include "util/buf.h"

struct finding;

/* Adds a message with its {metrics} filled in. They become evidence of `f`, which may be NULL. */
void diagnose_fill(struct buf *out, const char *format, const struct metrics *m, struct finding *f);

#endif

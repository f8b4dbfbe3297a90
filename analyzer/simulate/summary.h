/* The result of a simulation, as text and as JSON. */
#ifndef MEMTRACE_SUMMARY_H
#define MEMTRACE_SUMMARY_H

#include "report/report.h"
#include "simulate/simulation.h"
#include "util/buf.h"
#include "simulate/deduplicate.h"

enum verdict { FITS, OUT_OF_MEMORY, FAILED };

/* Reads the traces that a simulation left, which began at `since` (new_traces_now()) or later; -1
 * if there are none. */
int summary_read(const char *directory, int64_t since, int measures_need, struct report *r);
/* FITS if all commands succeeded, OUT_OF_MEMORY if a trace has a failed allocation, else FAILED. */
enum verdict summary_verdict(const struct outcome *outcomes, size_t count, const struct report *r);
/* Adds a table of the ranks' peaks and ends, and how to see more if there are traces. `classes`:
 * NULL, or the ranks that each stands for. */
void summary_text(const struct simulation *s, const struct outcome *outcomes, size_t count,
		  const struct rank_classes *classes, const struct report *r, struct buf *out);
/* Adds the same as a JSON document. */
void summary_json(const struct simulation *s, const struct outcome *outcomes, size_t count,
		  const struct rank_classes *classes, const struct report *r, struct buf *out);

#endif

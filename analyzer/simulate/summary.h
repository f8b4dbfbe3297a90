/* What a simulation showed: a table for people on stderr, JSON for programs. */
#ifndef MEMTRACE_SIM_SUMMARY_H
#define MEMTRACE_SIM_SUMMARY_H

#include "report/report.h"
#include "simulate/simulation.h"
#include "simulate/deduplicate.h"

enum verdict { FITS, OUT_OF_MEMORY, FAILED };

/* Reads the traces that a simulation left; -1 if there are none. */
int summary_read(const char *directory, struct report *r);
/* Did the ranks' commands succeed? If not, did memory end them? */
enum verdict summary_verdict(const struct outcome *outcomes, size_t count, const struct report *r);
void summary_print(const struct simulation *s, const struct outcome *outcomes, size_t count,
		   const struct symmetry *symmetry, const struct report *r);
/* To a file; "-" is standard output. */
int summary_json(const char *path, const struct simulation *s, const struct outcome *outcomes,
		 size_t count, const struct symmetry *symmetry, const struct report *r,
		 struct err *e);

#endif

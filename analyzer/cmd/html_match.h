/* The estimate of a page: what `match` says about the same traces. */
#ifndef MEMTRACE_HTML_MATCH_H
#define MEMTRACE_HTML_MATCH_H

#include "modelrun/run_system.h"
#include "session/job_options.h"
#include "util/buf.h"

struct html_match_options {
	const char *run, *python;
	const struct job *job;
	enum how how;
	int infer, redact;
};

/* Writes what `match --json` prints. `redact`: without the reasons of a gap, which name values of
 * the command line. */
int html_match(char **paths, size_t count, const struct html_match_options *o, struct buf *json,
	       struct err *e);

#endif

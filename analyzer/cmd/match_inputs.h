/* The traces of a job: what they have, and what was declared of it, or inferred. */
#ifndef MEMTRACE_MATCH_JOB_H
#define MEMTRACE_MATCH_JOB_H

#include "session/trace_files.h"
#include "infer/infer.h"
#include "session/job_options.h"
#include "report/report.h"

struct job_trace {
	struct config config;
	struct alloc_profile profile;
	int has_profile;
	const char *path;
};

struct match_job {
	struct report report;
	struct trace_files files;
	struct job_trace *traces;
	size_t count;
	int is_inferred; /* what follows is set */
	struct inference inference;
};

/* Reads the traces. `infer`: also what is declared in part is completed; without it only where
 * nothing at all is declared. */
int match_job_read(struct match_job *j, char **paths, size_t count, const char *run,
		   const struct job *declared, int infer, struct err *e);
const struct config *match_job_config(const struct match_job *j, const struct rank *r);
void match_job_release(struct match_job *j);

#endif

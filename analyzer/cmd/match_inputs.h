/* The inputs of `match`: the traces of a job, and the configuration of each, declared or inferred.
 */
#ifndef MEMTRACE_MATCH_INPUTS_H
#define MEMTRACE_MATCH_INPUTS_H

#include "infer/infer.h"
#include "session/job_options.h"
#include "session/session.h"
#include "util/hash.h"

struct match_trace {
	struct config config;
	struct alloc_profile profile;
	int has_profile;
	const char *path;  /* of the session's files; the key of `by_path` */
	UT_hash_handle hh; /* of `by_path` */
};

struct match_inputs {
	struct session session;
	struct match_trace *traces; /* one for each file of the session */
	struct match_trace *by_path;
	int is_inferred; /* `inferred` is set, and all configurations are the inferred one */
	struct inferred_config inferred;
};

/*
 * Reads the traces of `paths` and their configurations; `declared` wins over what a trace declares.
 * Missing values are inferred if `infer` is set, or if a trace declares nothing about its model.
 * Must be released even on failure.
 */
int match_inputs_read(struct match_inputs *m, char **paths, size_t count, const char *run,
		      const struct job *declared, int infer, struct err *e);
/* The configuration of the trace of rank `r`. */
const struct config *match_inputs_config(const struct match_inputs *m, const struct rank *r);
void match_inputs_release(struct match_inputs *m);

#endif

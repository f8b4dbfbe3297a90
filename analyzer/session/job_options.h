/* Options of `estimate`, `plan` and `match` that describe a job: files, its command line, single
 * values. */
#ifndef MEMTRACE_JOB_OPTIONS_H
#define MEMTRACE_JOB_OPTIONS_H

#include "config/config.h"
#include "util/opt.h"

struct job {
	struct opt_list files, values, environment, command;
	const char *gpu;
	int world_size;
};

/* The rows of an option table that fill a job. */
#define JOB_OPTIONS(job)                                                                               \
	{ "config", 0,                                                                                 \
	  OPT_LIST, &(job)->files,                                                                     \
	  "FILE",   "read a configuration file, or the configuration of a trace; may be repeated",     \
	  0,        0 },                                                                               \
		{ "set", 0, OPT_LIST, &(job)->values, "K=V", "set one value; may be repeated", 0, 0 }, \
		{ "env",    0,                                                                         \
		  OPT_LIST, &(job)->environment,                                                       \
		  "K=V",    "set a variable of the job's environment; may be repeated",                \
		  0,        0 },                                                                       \
	{                                                                                              \
		"gpu", 0, OPT_TEXT, &(job)->gpu, "NAME",                                               \
			"the GPU: a job fits if it needs at most 80 % of its memory", 0, 0             \
	}

/* Fails if the job is not declared at all, or if arguments are left that are not options.
 * `command`: "estimate", for the message. */
int job_check(const struct job *job, const char *command, char *const *arguments, size_t count,
	      struct err *e);

/* Reads the job in this order, in which later values win: files, the command line, world size and
 * GPU, --set. */
int job_read(const struct job *job, struct config *c, struct err *e);
/* Reads one value of --config: a configuration file, a trace, or a directory of traces. */
int job_read_file(struct config *c, const char *path, struct err *e);

#endif

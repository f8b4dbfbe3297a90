/* How `estimate` and `plan` are told of a job: files, its command line, single values. */
#ifndef MODEL_JOB_H
#define MODEL_JOB_H

#include "config/config.h"
#include "util/opt.h"

struct job {
	struct opt_list files, values, environment, command;
	const char *gpu;
	int world_size;
};

/* The rows of an option table that fill a job. */
#define JOB_OPTIONS(job)                                                                           \
	{ "config", 0,                                                                             \
	  OPT_LIST, &(job)->files,                                                                 \
	  "FILE",   "a configuration file, or a trace; may be repeated",                           \
	  0,        0 },                                                                           \
		{ "set", 0, OPT_LIST, &(job)->values, "K=V", "one value; may be repeated", 0, 0 }, \
		{ "env",    0,                                                                     \
		  OPT_LIST, &(job)->environment,                                                   \
		  "K=V",    "a variable of the job's environment; may be repeated",                \
		  0,        0 },                                                                   \
	{                                                                                          \
		"gpu", 0, OPT_TEXT, &(job)->gpu, "NAME",                                           \
			"the GPU: does it fit, by the rule of 80 %", 0, 0                          \
	}

/* Parses the options of a command that is told of a job, and the job's command after "--". -1: bad
 * usage; nothing is checked where help is wanted. Released in both cases. */
int job_parse(struct job *job, struct opt_set *set, int argc, char **argv, struct err *e);
void job_release(struct job *job);

/* Files, then the command line, then world size and GPU, then --set: later ones win. */
int job_read(const struct job *job, struct config *c, struct err *e);

#endif

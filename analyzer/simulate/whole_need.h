/* The memory that a job needs, by running it on a simulated device that is large enough. */
#ifndef MEMTRACE_WHOLE_NEED_H
#define MEMTRACE_WHOLE_NEED_H

#include "report/report.h"
#include "simulate/messages.h"
#include "util/err.h"

/* A job that ran out of memory, as its trace tells it. */
struct failed_job {
	char *const *command; /* ends with NULL */
	const char *working;  /* its working directory */
	int rank, world;      /* NO_RANK, or a world of one: the command runs as it is */
	const char *gpu;      /* as the device names itself; NULL: unknown */
	bytes total;          /* of the device */
	int gpus;             /* of a node */
	int steps;            /* to run */
};

/*
 * Runs the command, of a rank alone if there are several, on a device of much more memory, in the
 * present environment. Its output goes to standard error, and its traces into `directory`. The
 * environment of this process changes.
 */
int whole_need_measure(const struct failed_job *job, const char *directory,
		       const struct messages *messages, struct measured_need *need, struct err *e);

#endif

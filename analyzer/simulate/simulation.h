/* Simulates ranks of a job: each alone, or several together. The simulated device and the store
 * emulate the ranks that do not run. */
#ifndef MEMTRACE_SIMULATION_H
#define MEMTRACE_SIMULATION_H

#include "simulate/messages.h"
#include "util/err.h"

struct simulation {
	const char *directory; /* for traces; absolute */
	char *const *command;
	int *ranks; /* the ranks to run */
	size_t rank_count;
	int together; /* at the same time, exchanging data; else each alone */
	int whole;    /* instead of ranks: the command as it is, once, with all that it starts */
	int world, gpus_a_node;
	int jobs;             /* ranks at a time; 0: as many as memory and processors allow */
	int timeout;          /* seconds that a rank may take; 0: no limit */
	int steps;            /* of the optimizers, after which a job ends; 0: no limit */
	int output_to_stderr; /* what the commands write to standard output goes to standard error
			       */
	const struct messages *messages; /* NULL: none are reported */
};

struct outcome {
	int rank;
	int status; /* as a shell reports it: the exit status, or 128 + the signal */
	int timed_out;
	int was_ended; /* by memtrace, after another rank had failed */
	double seconds;
	char *last_key; /* the last key that was emulated in its store; NULL: none. Owned */
};

/* Runs all; outcomes[] has one entry a rank (one if `whole`). */
int simulation_run(const struct simulation *s, struct outcome *outcomes, struct err *e);

#endif

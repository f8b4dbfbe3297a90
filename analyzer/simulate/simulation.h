/* Simulating some ranks of a job: each alone, or all of them together; the device and the store
 * play their peers that do not run. */
#ifndef MEMTRACE_SIM_RANKS_H
#define MEMTRACE_SIM_RANKS_H

#include "util/err.h"
#include "util/util.h"

struct simulation {
	const char *directory; /* for traces; absolute */
	char *const *command;
	int *ranks; /* to run */
	size_t rank_count;
	int together; /* at once, and with one another; else each alone */
	int whole;    /* instead: the command as it is, once, with all that it starts */
	int world, gpus_a_node;
	int jobs;    /* at a time; 0: as many as memory allows */
	int timeout; /* seconds a rank may take; 0: for ever */
	int steps;
	int is_quiet; /* no progress */
};

struct outcome {
	int rank;
	int status; /* as a shell has it */
	int timed_out;
	int was_ended; /* by us, since another one had failed */
	double seconds;
	char *last_key; /* the last key of the store that it waited for in vain; NULL: none */
};

/* `text` with every `place` ("{mbs}") replaced. Allocated. */
char *simulation_fill(const char *text, const char *place, const char *value);
/* How many ranks the command's launcher says; 0: nothing. */
int simulation_world(char *const *command, int *world, struct err *e);
/* Runs all; outcomes[] has one entry a rank (one if `whole`). */
int simulation_run(const struct simulation *s, struct outcome *outcomes, struct err *e);
/* PYTHONPATH and --steps for what is started from here. */
int simulation_inject(int steps, struct err *e);
/* "0,8-15", "all": ranks below `world`, each once, in order. Allocated. */
int simulation_parse_ranks(const char *list, int world, int **ranks, size_t *count, struct err *e);

#endif

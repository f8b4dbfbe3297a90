/*
 * Parses a launcher's command line (`torchrun --nproc-per-node 8 train.py …`) instead of running
 * it: the command of each rank's worker, and the number of ranks.
 */
#ifndef MEMTRACE_LAUNCHER_H
#define MEMTRACE_LAUNCHER_H

#include "util/err.h"
#include "util/util.h"

struct worker {
	char **argv; /* NULL at the end; owned */
	size_t count, room;
	const char *launcher; /* its name; NULL: the command itself is the worker */
	int world;            /* ranks that the launcher starts; 0: it does not say */
	int per_node;         /* those of a node; 0: it does not say */
	int is_slurm;         /* srun: the worker reads SLURM_… */
	/* --local_rank=N goes before argv[local_rank_at]; NULL: it does not. */
	const char *local_rank;
	size_t local_rank_at;
};

/* `helper`: the program that replaces `accelerate launch` (see accelerate_worker.py). */
int launcher_parse(char *const *command, const char *helper, struct worker *w, struct err *e);
void worker_release(struct worker *w);
/* The number of ranks that the command's launcher starts; 0: it does not say. */
int launcher_world(char *const *command, int *world, struct err *e);
/* Those of a node; 0: it does not say, or is none. */
int launcher_per_node(char *const *command);

#endif

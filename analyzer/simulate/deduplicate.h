/* Classes of ranks that hold the same memory: one rank of a class is simulated for all of them. */
#ifndef MEMTRACE_DEDUPLICATE_H
#define MEMTRACE_DEDUPLICATE_H

#include "util/err.h"
#include "util/util.h"

/* The first, those between, the last: of pipeline stages, of an expert group's placeholders. */
enum { CLASS_PARTS = 3 };

/* A rank that is simulated, and the `count` ranks from `first` to `last` that it represents. */
struct rank_class {
	int rank, first, last, count;
	int stage_first, stage_last;
	int expert_first,
		expert_last; /* placeholders in their expert group; -1: of all placeholders */
};
struct rank_classes {
	struct rank_class rows[CLASS_PARTS * CLASS_PARTS];
	size_t count;
};

/*
 * From the job's own command line, in Megatron's order of ranks. Ranks of one pipeline stage hold
 * the same: those of data, tensor and context groups, and of expert groups where tokens are spread
 * evenly. With `uneven` experts (CUDASIM_ROUTING=skewed) those of each expert group's first place
 * get most tokens. Of the stages, or placeholders, between the first and the last the second is
 * taken: under 1F1B it holds most micro-batches of them, with uneven experts most tokens.
 */
int deduplicate_ranks(char *const *command, int world, int uneven, struct rank_classes *s,
		      struct err *e);

#endif

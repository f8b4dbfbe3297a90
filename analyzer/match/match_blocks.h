/* Which observed block is which predicted one. */
#ifndef MEMTRACE_MATCH_BLOCKS_H
#define MEMTRACE_MATCH_BLOCKS_H

#include "match/match.h"

/* A remainder of at most this is not split off a large block (kSmallSize), and small ones are
 * always split. */
#define MAX_UNSPLIT_TAIL (INT64_C(1) << 20)

/* A block that a system predicts. */
struct predicted {
	int term; /* index of the match's terms */
	enum category category;
	bytes least, size; /* as asked for, rounded; with the tail that the prediction gave it */
	int found;
};

/* An observed one; `term` -1: not assigned. */
struct observed {
	const struct peak_block *row;
	int term;
	size_t partner; /* index of the predicted one, if there is a term */
};

/* Pairs them: the same category and size, then the same but for a tail that the allocator did not
 * split off; then both in any
 * category. Sorts both. */
void match_blocks(struct predicted *p, size_t predicted, struct observed *o, size_t observed);

#endif

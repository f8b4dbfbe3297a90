/* Pairs observed blocks with predicted ones. */
#ifndef MEMTRACE_MATCH_BLOCKS_H
#define MEMTRACE_MATCH_BLOCKS_H

#include "match/match.h"

/* The largest remainder that the allocator does not split off a large block (kSmallSize). Small
 * blocks are always split. */
#define MAX_UNSPLIT_TAIL (INT64_C(1) << 20)

/* A block that a system predicts. */
struct predicted {
	int term; /* index of the match's terms */
	enum category category;
	bytes least, size; /* the rounded request; with the predicted tail */
	int found;
};

/* An observed one; `term` -1: not assigned. */
struct observed {
	const struct peak_block *row;
	int term;
	size_t partner; /* index of the predicted one, if there is a term */
};

/* Sorts and pairs both: first by the same category and size, then by the same category and size up
 * to an unsplit tail; then both in any category. */
void match_blocks(struct predicted *p, size_t predicted, struct observed *o, size_t observed);

#endif

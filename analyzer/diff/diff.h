/*
 * Two jobs beside each other: what grew, what shrank. Each side is one run or several of the same;
 * of several the median counts, and only what their spread does not explain is a change.
 */
#ifndef MEMTRACE_DIFF_H
#define MEMTRACE_DIFF_H

#include "session/session.h"

#define DIFF_MAX_RUNS 64 /* of a side, at most */

enum diff_kind { DIFF_PEAK, DIFF_CATEGORY, DIFF_OWNER, DIFF_PHASE, DIFF_STACK, DIFF_CONFIG };
#define DIFF_KINDS (DIFF_CONFIG + 1)
const char *diff_kind_name(enum diff_kind k);

enum { SIDE_A, SIDE_B, SIDES };

/* What the runs of a side have. */
struct diff_spread {
	bytes median, least, most;
	char *text; /* of DIFF_CONFIG; NULL: not given */
};

struct diff_item {
	enum diff_kind kind;
	char *name;  /* as in the report's JSON; of a stack the one of B, if both have it */
	char *title; /* for people */
	struct diff_spread side[SIDES];
	int order;      /* of items of a kind that have one; then by change */
	int is_changed; /* beyond the spread */
};

struct diff_side {
	const struct session *runs[DIFF_MAX_RUNS];
	const struct rank *ranks[DIFF_MAX_RUNS]; /* the one that is compared */
	size_t count;
};

struct diff {
	struct diff_side side[SIDES];
	struct diff_item *items; /* by kind, the largest change first */
	size_t count, room;
};

/* The sides' runs must be set and stay. `rank`: the one to compare, or NO_RANK for the worst of
 * each run. */
int diff_make(struct diff *c, int rank, struct err *e);
void diff_release(struct diff *c);

/* The item of that name; NULL: none. */
const struct diff_item *diff_find(const struct diff *c, enum diff_kind kind, const char *name);

static inline bytes diff_item_change(const struct diff_item *i)
{
	return i->side[SIDE_B].median - i->side[SIDE_A].median;
}

/* The parts of it. */
int diff_item_is_beyond(const struct diff_item *i);
void diff_item_release(struct diff_item *i);
/* Stacks that only one side has are one stack where nothing but line numbers moved. The items are
 * sorted. */
void diff_pair_moved(struct diff *c);
/* Adds what the two configurations do not share. */
void diff_configs(struct diff *c);
/* A next item of DIFF_CONFIG; texts are copied, NULL: not given. */
void diff_add_text(struct diff *c, const char *name, const char *a, const char *b);

#endif

/*
 * Two jobs beside each other: what grew, what shrank. Each side is one run or several of the same;
 * of several the median counts, and only what their spread does not explain is a change.
 */
#ifndef MEMTRACE_COMPARE_H
#define MEMTRACE_COMPARE_H

#include "session/session.h"

#define COMPARE_RUNS 64 /* of a side, at most */

enum item_kind { ITEM_PEAK, ITEM_CATEGORY, ITEM_OWNER, ITEM_PHASE, ITEM_STACK, ITEM_CONFIG };
#define ITEM_KINDS (ITEM_CONFIG + 1)
const char *item_kind_name(enum item_kind k);

enum { SIDE_A, SIDE_B, SIDES };

/* What the runs of a side have. */
struct spread {
	bytes median, least, most;
	char *text; /* of ITEM_CONFIG; NULL: not given */
};

struct item {
	enum item_kind kind;
	char *name;  /* as in the report's JSON; of a stack the one of B, if both have it */
	char *title; /* for people */
	struct spread side[SIDES];
	int order;      /* of items of a kind that have one; then by change */
	int is_changed; /* beyond the spread */
};

struct side {
	const struct loaded *runs[COMPARE_RUNS];
	const struct rank *ranks[COMPARE_RUNS]; /* the one that is compared */
	size_t count;
};

struct comparison {
	struct side side[SIDES];
	struct item *items; /* by kind, the largest change first */
	size_t count, room;
};

/* The sides' runs must be set and stay. `rank`: the one to compare, or NO_RANK for the worst of
 * each run. */
int compare(struct comparison *c, int rank, struct err *e);
void compare_release(struct comparison *c);

/* The item of that name; NULL: none. */
const struct item *compare_find(const struct comparison *c, enum item_kind kind, const char *name);

static inline bytes item_change(const struct item *i)
{
	return i->side[SIDE_B].median - i->side[SIDE_A].median;
}

/* The parts of it. */
int compare_is_beyond(const struct item *i);
void compare_item_release(struct item *i);
/* Places that only one side has are one place where nothing but line numbers moved. The items are
 * sorted. */
void compare_pair_moved(struct comparison *c);
/* Adds what the two configurations do not share. */
void compare_configs(struct comparison *c);
/* A next item of ITEM_CONFIG; texts are copied, NULL: not given. */
void compare_add_text(struct comparison *c, const char *name, const char *a, const char *b);

#endif

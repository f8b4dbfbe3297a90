/* The items of a diff: one quantity, or one declared value, on both sides. */
#ifndef MEMTRACE_DIFF_ITEMS_H
#define MEMTRACE_DIFF_ITEMS_H

#include "session/session.h"

#define DIFF_MAX_RUNS 64 /* of one side */

enum diff_kind { DIFF_PEAK, DIFF_CATEGORY, DIFF_OWNER, DIFF_PHASE, DIFF_STACK, DIFF_CONFIG };
#define DIFF_KINDS (DIFF_CONFIG + 1)
/* As in the JSON. */
const char *diff_kind_name(enum diff_kind k);

enum { SIDE_A, SIDE_B, SIDES };

/* The values of the runs of one side; a run without the item counts as 0. */
struct diff_spread {
	bytes median, least, most; /* or all UNKNOWN_BYTES */
	char *text;                /* the value of a DIFF_CONFIG item; NULL: not given */
};

struct diff_item {
	enum diff_kind kind;
	char *name;  /* as in the report's JSON; of a stack that both sides have, the one of B */
	char *title; /* for people; of a stack "", for its row has the words */
	const struct stack_row *stack; /* of DIFF_STACK: the row with its words, of a run of B if B
					* has the stack; NULL: another kind */
	struct diff_spread side[SIDES];
	int order;      /* among the items of a kind; items of equal order are sorted by change */
	int is_changed; /* the difference is beyond the spread */
};

struct diff_side {
	const struct session *runs[DIFF_MAX_RUNS];
	const struct rank *ranks[DIFF_MAX_RUNS]; /* the rank of each run that is compared */
	size_t count;
};

/* Did the rank run out of memory and end there, as far as is known? Its figures end there too. */
static inline int diff_has_failed(const struct rank *r)
{
	return r->oom_count && rank_died(r);
}
/* The first rank that is compared and failed, or NULL; `count` (or NULL): how many did. */
const struct rank *diff_side_failed(const struct diff_side *s, size_t *count);

struct diff {
	struct diff_side side[SIDES];
	struct diff_item *items; /* by kind, the largest change first */
	size_t count, room;
};

/* What distinguishes rows of one stack: all blocks without frames of a thread have the same. */
static inline const char *diff_stack_place(const struct stack_row *row)
{
	return row->backward_of ? row->backward_of : row->label;
}

static inline int diff_item_is_known(const struct diff_item *i)
{
	return i->side[SIDE_A].median != UNKNOWN_BYTES && i->side[SIDE_B].median != UNKNOWN_BYTES;
}

/* 0 if a side is unknown. */
static inline bytes diff_item_change(const struct diff_item *i)
{
	return diff_item_is_known(i) ? i->side[SIDE_B].median - i->side[SIDE_A].median : 0;
}

/* Do the values of the two sides not overlap? */
int diff_item_is_beyond(const struct diff_item *i);
void diff_item_release(struct diff_item *i);

/* Adds an empty item; the texts are copied. It is valid until the next is added. */
struct diff_item *diff_add_item(struct diff *d, enum diff_kind kind, const char *name,
				const char *title);
/* Adds an item of DIFF_CONFIG; the texts are copied. NULL: not given. */
void diff_add_text(struct diff *d, const char *name, const char *a, const char *b);
/* The item of that name, or NULL. */
const struct diff_item *diff_find(const struct diff *d, enum diff_kind kind, const char *name);

#endif

/* The allocations of each stack so far. A job that never calls backward() has no steps; the
 * number of allocations of its stacks shows the calls of its model instead. */
#ifndef MEMTRACE_HISTORY_H
#define MEMTRACE_HISTORY_H

#include <memtrace/trace.h>

#include "util/util.h"

#define HISTORY_MARKS 4096

/*
 * Blocks of one stack, none of which is much smaller than the one before. If they grow a cache,
 * each call of the model makes `each` of them, one for each layer.
 */
struct series {
	uint32_t begin, allocs; /* blocks of the stack before the series; of the series */
	uint32_t each, most;    /* 0: unknown; most of them that were live at once */
	int replaced;           /* several blocks were live at all times */
	bytes first, last;      /* sizes: of the first block; of the latest block */
};

/* The blocks of one stack. */
struct stack_history {
	uint32_t allocs, live, most; /* blocks; of them, live now and at a time at most */
	uint32_t least; /* live after a block was freed, at least, since none was; 0: unknown */
	uint32_t series_allocs;        /* of the current series */
	uint32_t rises, changes;       /* blocks larger than the one before; of another size */
	bytes series_first, last;      /* sizes: of the series' first block; of the latest block */
	bytes bytes, largest;          /* of all blocks; of the largest one */
	bytes first_clock, last_clock; /* when the first and the latest block were allocated */
	bytes series_clock;            /* when the series' first block was */
	/* The series that goes on; the one with the most calls; the one at the moment that
	 * history_mark() noted. */
	struct series now, longest, marked;
	int is_marked; /* the series that goes on is the one of the moment */
};

/* The clock counts allocated bytes: it advances with the job's work. */
struct history {
	struct stack_history *stacks; /* by stack */
	size_t stack_count;
	bytes clock;
	/* The clock at some times, evenly spread over the blocks. */
	struct {
		uint64_t time_ns;
		bytes clock;
	} marks[HISTORY_MARKS];
	unsigned mark_count;
	uint64_t blocks, every; /* blocks so far; each so many gets a mark */
};

struct history *history_new(size_t stack_count);
struct history *history_copy(const struct history *h);
void history_free(struct history *h);

void history_add(struct history *h, const struct mt_record *block);
void history_take(struct history *h, const struct mt_record *block);

/* Notes the present moment. Only the last one counts. */
void history_mark(struct history *h);

/* How often a series has replaced all its blocks by the next ones; 0: unknown. */
static inline uint32_t series_calls(const struct series *s)
{
	return s->allocs && s->each ? (s->allocs - 1) / s->each : 0;
}

/* Do the blocks of a call replace those of the call before? At most both are live. */
static inline int series_replaces(const struct series *s)
{
	return s->most <= 2 * s->each;
}

/* The series of the marked moment, if it goes on for some calls; else the longest one. */
static inline const struct series *history_series(const struct stack_history *s)
{
	return series_calls(&s->marked) > 1 ? &s->marked : &s->longest;
}

/* The clock at a time. */
bytes history_clock(const struct history *h, uint64_t time_ns);
/* By how much history_clock() can be too early; 0: it is exact. */
bytes history_step(const struct history *h);

#endif

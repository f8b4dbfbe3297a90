/* The allocations of each stack so far. A job that never calls backward() has no steps; the
 * number of allocations of its stacks shows the calls of its model instead. */
#ifndef MEMTRACE_HISTORY_H
#define MEMTRACE_HISTORY_H

#include <memtrace/trace.h>

#include "util/util.h"

#define HISTORY_MARKS 4096

/* The blocks of one stack. A series ends with a block that is much smaller than the one before. */
struct stack_history {
	uint32_t allocs, live, most; /* blocks; of them, live now and at a time at most */
	uint32_t least; /* live after a block was freed, at least, since none was; 0: unknown */
	uint32_t series_allocs;        /* of the current series */
	uint32_t rises, changes;       /* blocks larger than the one before; of another size */
	bytes series_first, last;      /* sizes: of the series' first block; of the latest block */
	bytes bytes;                   /* of all blocks */
	bytes first_clock, last_clock; /* when the first and the latest block were allocated */
	bytes series_clock;            /* when the series' first block was */
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

/* The clock at a time. */
bytes history_clock(const struct history *h, uint64_t time_ns);
/* By how much history_clock() can be too early; 0: it is exact. */
bytes history_step(const struct history *h);

#endif

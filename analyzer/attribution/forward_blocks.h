/*
 * The latest blocks of forward passes, in the order of their allocation, for the names of the
 * backward pass's blocks (backward.h). A place is the number of a block, counted from the first
 * one.
 */
#ifndef MEMTRACE_FORWARD_BLOCKS_H
#define MEMTRACE_FORWARD_BLOCKS_H

#include "trace/tables.h"

#define FORWARD_BLOCKS (1u << 16) /* that are remembered: 2 MiB of memory */
#define NO_PLACE UINT64_MAX

struct forward_block {
	uint64_t time_ns;
	bytes bytes;
	uint32_t address; /* its lower half, which tells blocks of one time apart */
	uint32_t stack;
	uint32_t unframed; /* blocks since the last one with a stack; 0: it has one */
	uint32_t run;      /* blocks before it from the same stack, with small ones between them */
};

struct forward_blocks {
	struct forward_block *ring;
	uint64_t count;      /* blocks that were ever added */
	uint64_t first;      /* no earlier place can be used */
	uint64_t found_last; /* by forward_blocks_find() */
};

static inline const struct forward_block *forward_block_at(const struct forward_blocks *f,
							   uint64_t place)
{
	return &f->ring[place % FORWARD_BLOCKS];
}

void forward_blocks_add(struct forward_blocks *f, const struct tables *t,
			const struct mt_record *r);
void forward_blocks_release(struct forward_blocks *f);

/* The first place that is remembered. */
uint64_t forward_blocks_oldest(const struct forward_blocks *f);
/* The place of a block, NO_PLACE if it is not remembered. */
uint64_t forward_blocks_find(struct forward_blocks *f, const struct mt_record *was);
/* The block with a stack at or before a place, NO_PLACE if there is none. */
uint64_t forward_blocks_framed(const struct forward_blocks *f, uint64_t place);
/* Where the blocks begin that the line of a place allocated, with small ones between them. */
uint64_t forward_blocks_beginning(const struct forward_blocks *f, uint64_t place);

#endif

/*
 * The latest blocks of forward passes, in the order of their allocation, for the names of the
 * backward pass's blocks (backward.h). A position is the number of a block, counted from the first
 * one.
 */
#ifndef MEMTRACE_FORWARD_BLOCKS_H
#define MEMTRACE_FORWARD_BLOCKS_H

#include "trace/tables.h"

#define FORWARD_BLOCKS (1u << 16) /* that are remembered: 2 MiB of memory */
#define NO_POSITION UINT64_MAX

struct forward_block {
	uint64_t time_ns;
	bytes bytes;
	uint32_t address; /* its lower half: blocks of one time differ in it */
	uint32_t stack;
	uint32_t unframed; /* blocks since the last one with a stack; 0: it has one */
	uint32_t run;      /* blocks before it from the same stack, with small ones between them */
};

struct forward_blocks {
	struct forward_block *ring;
	uint64_t count;      /* blocks that were ever added */
	uint64_t first;      /* no earlier position can be used */
	uint64_t found_last; /* by forward_blocks_find() */
};

static inline const struct forward_block *forward_block_at(const struct forward_blocks *f,
							   uint64_t position)
{
	return &f->ring[position % FORWARD_BLOCKS];
}

void forward_blocks_add(struct forward_blocks *f, const struct tables *t,
			const struct mt_record *r);
void forward_blocks_release(struct forward_blocks *f);

/* The first position that is remembered. */
uint64_t forward_blocks_oldest(const struct forward_blocks *f);
/* The position of a block, NO_POSITION if it is not remembered. */
uint64_t forward_blocks_find(struct forward_blocks *f, const struct mt_record *was);
/* The block with a stack at or before a position, NO_POSITION if there is none. */
uint64_t forward_blocks_framed(const struct forward_blocks *f, uint64_t position);
/* The first of the consecutive blocks that the line of the block at a position allocated; small
 * blocks may lie between them. */
uint64_t forward_blocks_beginning(const struct forward_blocks *f, uint64_t position);

#endif

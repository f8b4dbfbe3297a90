/*
 * The latest blocks of forward passes, in the order of their allocation, for the names of the
 * backward pass's blocks (backward.h). A position is the number of a block, counted from the first
 * one.
 */
#ifndef MEMTRACE_FORWARD_BLOCKS_H
#define MEMTRACE_FORWARD_BLOCKS_H

#include "trace/tables.h"

#define FORWARD_BLOCKS (1u << 16) /* that are remembered: 2 MiB of memory */
#define FORWARD_HEADS (1u << 15)  /* of the lists of blocks with equal hashes of the address */
#define NO_POSITION UINT64_MAX

struct forward_block {
	uint64_t time_ns;
	bytes bytes;
	uint32_t address; /* its lower half: blocks of one time differ in it */
	uint32_t stack;
	uint32_t older; /* position in the list, lower half + 1, of the next older block; 0: none */
	uint32_t is_framed : 1; /* it has a stack */
	/* With a stack: blocks back to the first of the consecutive ones from this stack; small
	 * ones may lie between them. Without one: back to the last block with a stack. */
	uint32_t back : 31;
};
static_assert(sizeof(struct forward_block) == 32, "see FORWARD_BLOCKS");

struct forward_blocks {
	struct forward_block *ring;
	uint32_t *heads;      /* the newest block of each list, as in `older` */
	uint64_t count;       /* blocks that were ever added */
	uint64_t first;       /* no earlier position can be used */
	uint64_t last_ns;     /* time of the last block */
	uint64_t last_framed; /* the last position with a stack; UINT64_MAX: none */
	uint64_t run;         /* the first position of its consecutive blocks */
	uint32_t last_stack;  /* its stack */
};

static inline const struct forward_block *forward_block_at(const struct forward_blocks *f,
							   uint64_t position)
{
	return &f->ring[position % FORWARD_BLOCKS];
}

/* The first position that is remembered. */
static inline uint64_t forward_blocks_oldest(const struct forward_blocks *f)
{
	uint64_t kept = f->count > FORWARD_BLOCKS ? f->count - FORWARD_BLOCKS : 0;

	return kept > f->first ? kept : f->first;
}

void forward_blocks_add(struct forward_blocks *f, const struct tables *t,
			const struct mt_record *r);
void forward_blocks_release(struct forward_blocks *f);

/* The position of a block, NO_POSITION if it is not remembered. */
uint64_t forward_blocks_find(const struct forward_blocks *f, const struct mt_record *was);
/* The block with a stack at or before a position, NO_POSITION if there is none. */
uint64_t forward_blocks_framed(const struct forward_blocks *f, uint64_t position);
/* The first of the consecutive blocks that the line of the block at a position allocated; small
 * blocks may lie between them. */
uint64_t forward_blocks_beginning(const struct forward_blocks *f, uint64_t position);

#endif

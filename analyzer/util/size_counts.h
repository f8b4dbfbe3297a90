/* How many blocks there are of each size. */
#ifndef MEMTRACE_SIZE_COUNTS_H
#define MEMTRACE_SIZE_COUNTS_H

#include "util/util.h"

/* PyTorch's allocator splits off no smaller remainder (kSmallSize): a block above it may have up to
 * this more than was asked for. */
#define MAX_SPARE (INT64_C(1) << 20)

/* May blocks of these sizes hold tensors of one size? Blocks of up to 1 MiB, of a pool of their
 * own, have no spare. */
static inline int sizes_are_alike(bytes a, bytes b)
{
	if (a <= MAX_SPARE || b <= MAX_SPARE)
		return a == b;
	return (a > b ? a - b : b - a) <= MAX_SPARE;
}

struct size_count {
	bytes size;
	uint64_t count;
};

/* Blocks are counted in a hash by size; size_counts_sort() turns it into the list. */
struct size_counts {
	struct size_count *list; /* by size, ascending */
	size_t count;
	struct size_entry *entries;
};

/* Counts one block of `size`. Of more than 65,536 sizes the later ones are not counted. */
void size_counts_add(struct size_counts *s, bytes size);
/* Fills the list: once, after the last size_counts_add(). */
void size_counts_sort(struct size_counts *s);
/* The entry of the list with exactly this size, or NULL. */
struct size_count *size_counts_at(const struct size_counts *s, bytes size);
/* How many blocks of exactly this size the list has. */
uint64_t size_counts_find(const struct size_counts *s, bytes size);
/* An entry that still counts a block of about this size: PyTorch's allocator gives a block up to 1
 * MiB more than it needs. NULL if there is none. */
struct size_count *size_counts_near(const struct size_counts *s, bytes size);
/* How many blocks of about this size the list has. Blocks up to 1 MiB have exactly their size. */
uint64_t size_counts_count_near(const struct size_counts *s, bytes size);
void size_counts_release(struct size_counts *s);

#endif

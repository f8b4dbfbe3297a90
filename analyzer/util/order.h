/* Orders of numbers, for comparators. */
#ifndef MEMTRACE_ORDER_H
#define MEMTRACE_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "util/util.h"

/* -1, 0 or 1: a before b, equal, a after b. */
#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* A comparator for qsort() and bsearch(): elements begin with their size, the smallest first. */
int by_bytes_rising(const void *a, const void *b);
/* The median of `count` values, at least one; of an even number the lower middle one, so that it is
 * one of the values. Sorts them. */
bytes bytes_median(bytes *values, size_t count);

/* Sizes are alike if they differ by less than 1/BYTES_ALIKE, or by one segment of PyTorch's
 * allocator; a value is far from the others if it differs by more than BYTES_FAR median
 * deviations. */
#define BYTES_ALIKE 100
#define BYTES_SMALL (INT64_C(2) << 20)
#define BYTES_FAR 5

bytes bytes_distance(bytes a, bytes b);
/* Small differences do not count, however small the spread is. `deviation`: the median of
 * |value - middle|. */
int bytes_is_far(bytes value, bytes middle, bytes deviation);

/* How many elements of a list, whose MEMBER ascends, have one of at most VALUE. */
#define COUNT_UNTIL(list, count, member, value) \
	count_until(list, count, sizeof(*(list)), offsetof(__typeof__(*(list)), member), value)
static inline size_t count_until(const void *list, size_t count, size_t size, size_t offset,
				 uint64_t value)
{
	const char *members = (const char *)list + offset;
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (*(const uint64_t *)(const void *)(members + middle * size) <= value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

#endif

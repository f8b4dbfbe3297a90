/* Orders of numbers, for comparators. */
#ifndef MEMTRACE_ORDER_H
#define MEMTRACE_ORDER_H

#include <stddef.h>

#include "util/util.h"

/* -1, 0 or 1: a before b, equal, a after b. */
#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* A comparator for qsort() and bsearch(): elements begin with their size, the smallest first. */
int by_bytes_rising(const void *a, const void *b);
/* The median of `count` values, at least one; of an even number the lower middle one, so that it is
 * one of the values. Sorts them. */
bytes bytes_median(bytes *values, size_t count);

#endif

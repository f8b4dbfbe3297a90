#include "util/order.h"

#include <stdlib.h>

int by_bytes_rising(const void *a, const void *b)
{
	return ORDER(*(const bytes *)a, *(const bytes *)b);
}

bytes bytes_median(bytes *values, size_t count)
{
	qsort(values, count, sizeof(*values), by_bytes_rising);
	return values[(count - 1) / 2];
}

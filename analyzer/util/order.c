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

bytes bytes_distance(bytes a, bytes b)
{
	return a > b ? a - b : b - a;
}

int bytes_is_far(bytes value, bytes middle, bytes deviation)
{
	bytes off = bytes_distance(value, middle);

	return off / BYTES_FAR > deviation && off > middle / BYTES_ALIKE && off > BYTES_SMALL;
}

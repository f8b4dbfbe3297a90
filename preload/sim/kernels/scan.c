/* Running sums: torch.cumsum() of one row (CUB's kernel), of many rows, and along an outer
 * dimension. Programs make positions and offsets of them. */
#include "device/common.h"
#include "kernels/computed.h"

#include <string.h>

/* `outer` x `length` x `inner` elements, which are summed along the second dimension. */
struct scan {
	const char *in;
	char *out;
	struct element from, to;
	uint64_t outer, length, inner;
};

static void sum_up(const struct scan *s)
{
	for (uint64_t first = 0; first < s->outer * s->inner; first++) {
		uint64_t at = first / s->inner * s->length * s->inner + first % s->inner, sum = 0;
		for (uint64_t i = 0; i < s->length; i++, at += s->inner) {
			sum += number_bits(number_load(s->in + at * s->from.size, s->from.type));
			number_store(s->out + at * s->to.size, s->to.type, (int64_t)sum);
		}
	}
}

/* `in`, `out`: the arguments that point to the elements and to their sums. */
static bool scan(const struct launch *l, unsigned in, unsigned out, uint64_t outer, uint64_t length,
		 uint64_t inner)
{
	const struct scan s = { .in = *(char **)l->arguments[in],
				.out = *(char **)l->arguments[out],
				.from = element_of(l, in),
				.to = element_of(l, out),
				.outer = outer,
				.length = length,
				.inner = inner };
	uint64_t items = product(product(outer, length), inner);

	if (!s.from.type || !s.to.type || (!strstr(l->name, "plus<") && !strstr(l->name, "Sum")) ||
	    (number_floating(s.to.type) && items > COMPUTED_FLOATS))
		return true;
	if (items > COMPUTED_INTEGERS) {
		launch_leaves(l, s.out, product(items, s.to.size));
		return true;
	}
	if (!launch_device(s.in, items * s.from.size) || !launch_device(s.out, items * s.to.size))
		return false;
	if (number_floating(s.to.type)) {
		memset(s.out, 0, items * s.to.size);
		return true;
	}
	launch_reads(s.in, items * s.from.size);
	launch_writes(s.out, items * s.to.size);
	sum_up(&s);
	return true;
}

static uint64_t count_of(const struct launch *l, unsigned argument)
{
	return *(unsigned *)l->arguments[argument];
}

/* (in, out, tiles, first tile, sum, initial value, items, ...) */
bool compute_scan(const struct launch *l)
{
	return scan(l, 0, 1, 1, count_of(l, 6), 1);
}

/* (out, in, rows, elements of a row, ...) */
bool compute_scan_rows(const struct launch *l)
{
	return scan(l, 1, 0, count_of(l, 2), count_of(l, 3), 1);
}

/* (out, in, outer elements, inner elements, elements that are summed, ...) */
bool compute_scan_outer(const struct launch *l)
{
	return scan(l, 1, 0, count_of(l, 2), count_of(l, 4), count_of(l, 3));
}

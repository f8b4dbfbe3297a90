#include "duplicates/float64.h"

#include "util/glob.h"

#include <stdlib.h>

#define MULTIPLE 4   /* of a layer's width: others are rare, and have the sizes of other types */
#define MIN_BIAS 512 /* bytes: a smaller bias is as large in every type, see ROUND */
#define MAX_BIAS (INT64_C(1) << 24)
#define ROUND 512    /* kMinBlockSize of c10/cuda/CUDACachingAllocator.cpp */
#define MIN_LAYERS 2 /* fewer may be a table of that size by chance */

/* Layers by the type that their sizes have as square ones, 8 bytes and 4 or 2; those that are not
 * square. */
struct typed_layers {
	uint32_t wide, narrow, others;
};

static bytes rounded(bytes n)
{
	return (n + ROUND - 1) / ROUND * ROUND;
}

/* Is it a square weight with a bias of that size, of numbers of `each` bytes? */
static int is_square(bytes weight, bytes bias, bytes each)
{
	bytes n = bias / each / MULTIPLE * MULTIPLE;

	for (; n > 0 && rounded(n * each) == bias; n -= MULTIPLE)
		if (rounded(n * n * each) == weight)
			return 1;
	return 0;
}

static void add_layer(struct typed_layers *l, bytes weight, bytes bias)
{
	if (is_square(weight, bias, 8))
		l->wide++;
	else if (is_square(weight, bias, 4) || is_square(weight, bias, 2))
		l->narrow++;
	else
		l->others++;
}

/* Gated linear units: a layer that widens n numbers to 2 n has the sizes of a square one of twice
 * the type. */
static int has_gates(const struct tables *t)
{
	for (uint32_t i = 0; t->string_count && i < t->frame_count; i++) {
		struct str name = tables_string(t, t->frames[i].function);

		if (str_matches(name, "*GLU*") || str_matches(name, "*glu*"))
			return 1;
	}
	return 0;
}

uint32_t layers_of_float64(const struct lifetimes *l, const struct tables *t, uint32_t *narrow)
{
	const struct lifetime **list = xcalloc(l->count + 1, sizeof(struct lifetime *));
	struct typed_layers between = { 0 }, all = { 0 };
	size_t count = 0;

	for (size_t i = 0; i < l->count; i++)
		if (l->list[i].category == CATEGORY_PARAMETERS)
			list[count++] = &l->list[i];
	if (count && has_gates(t))
		count = 0;
	if (count)
		qsort(list, count, sizeof(struct lifetime *), lifetime_by_time);
	for (size_t i = 1; i + 1 < count; i++) {
		bytes weight = list[i]->alloc.bytes, bias = list[i + 1]->alloc.bytes;

		if (bias <= MIN_BIAS || bias > MAX_BIAS || weight <= bias)
			continue;
		add_layer(&all, weight, bias);
		if (list[i - 1]->alloc.bytes == bias)
			add_layer(&between, weight, bias);
	}
	free(list);
	*narrow = all.narrow;
	/* Beside layers of another type, the others may be tables; beside more layers that are not
	 * square, they may be those that double the width, as in each stage of a ResNet. */
	return between.wide >= MIN_LAYERS && between.wide > between.others &&
			       between.narrow <= between.wide / 4 && all.narrow < all.wide
		       ? between.wide
		       : 0;
}

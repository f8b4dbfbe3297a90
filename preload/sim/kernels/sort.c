/* Sorts, as PyTorch and CUB launch them: unique() and similar functions count sorted items, and
 * a permutation that the host reads must be one. */
#include "kernels/computed.h"

#include <stdlib.h>
#include <string.h>

enum { DIGIT = 8, DIGITS = 1 << DIGIT };

struct item {
	uint64_t key;
	uint32_t from;
};

/* Bits in the same order as the numbers, as radix sorts make them. */
static uint64_t ordered(const char *at, enum number_type type, bool descending)
{
	size_t bits = number_size(type) * 8;
	uint64_t key = 0, sign = 1ull << (bits - 1), all = sign | (sign - 1);
	memcpy(&key, at, bits / 8);
	if (number_floating(type))
		key ^= key & sign ? all : sign;
	else if (type == NUMBER_INT8 || type == NUMBER_INT16 || type == NUMBER_INT32 ||
		 type == NUMBER_INT64)
		key ^= sign;
	return descending ? key ^ all : key;
}

/* Sorts by one digit, stably; false if all have the same. */
static bool sort_digit(const struct item *in, struct item *out, uint64_t items, unsigned shift)
{
	uint64_t place[DIGITS + 1] = { 0 };
	for (uint64_t i = 0; i < items; i++)
		place[(in[i].key >> shift & (DIGITS - 1)) + 1]++;
	if (place[(in[0].key >> shift & (DIGITS - 1)) + 1] == items)
		return false;
	for (unsigned d = 0; d < DIGITS; d++)
		place[d + 1] += place[d];
	for (uint64_t i = 0; i < items; i++)
		out[place[in[i].key >> shift & (DIGITS - 1)]++] = in[i];
	return true;
}

/* A sort of keys, and of values beside them; `value_size` 0: no values. Keys are `step` apart,
 * values `value_step`. */
struct sorting {
	enum number_type type;
	bool descending;
	unsigned bit, bits; /* of the keys, by which they are sorted */
	uint64_t items;
	const char *keys_in, *values_in;
	char *keys_out, *values_out;
	size_t size, value_size, step, value_step;
};

/* `space` is for what is sorted in place. */
static void move(const struct item *order, const char *in, char *out, size_t size, size_t step,
		 uint64_t items, char *space)
{
	if (in == out) {
		for (uint64_t i = 0; i < items; i++)
			memcpy(space + i * size, in + order[i].from * step, size);
		for (uint64_t i = 0; i < items; i++)
			memcpy(out + i * step, space + i * size, size);
		return;
	}
	for (uint64_t i = 0; i < items; i++)
		memcpy(out + i * step, in + order[i].from * step, size);
}

static bool fits(const void *at, size_t step, uint64_t items)
{
	return !step || launch_device(at, step * items);
}

/* True: `order` is no longer as it was, and may be in `*other`. */
static bool sort_items(const struct sorting *s, struct item **order, struct item **other)
{
	bool moved = false;
	for (uint64_t i = 0; i < s->items; i++) {
		uint64_t key = 0;
		if (s->type)
			key = ordered(s->keys_in + i * s->step, s->type, s->descending) >> s->bit;
		(*order)[i] = (struct item){ s->bits < 64 ? key & ((1ull << s->bits) - 1) : key,
					     (uint32_t)i };
	}
	for (unsigned shift = 0; shift < s->bits; shift += DIGIT) {
		if (!sort_digit(*order, *other, s->items, shift))
			continue;
		struct item *sorted = *other;
		*other = *order;
		*order = sorted;
		moved = true;
	}
	return moved;
}

static bool sort(const struct sorting *s)
{
	if (!s->items)
		return true;
	if (s->items > COMPUTED_PLACES || !fits(s->keys_in, s->step, s->items) ||
	    !fits(s->keys_out, s->step, s->items) || !fits(s->values_in, s->value_step, s->items) ||
	    !fits(s->values_out, s->value_step, s->items))
		return false;
	size_t size = s->size > s->value_size ? s->size : s->value_size;
	struct item *order = malloc(s->items * sizeof *order);
	struct item *other = malloc(s->items * sizeof *other);
	char *space = malloc(s->items * size);
	bool done = order && other && space;
	if (s->type && !number_floating(s->type))
		launch_reads(s->keys_in, s->step * s->items);
	launch_reads(s->values_in, s->value_step * s->items);
	launch_writes(s->keys_out, s->step * s->items);
	launch_writes(s->values_out, s->value_step * s->items);
	if (done && (sort_items(s, &order, &other) || s->keys_in != s->keys_out)) {
		move(order, s->keys_in, s->keys_out, s->size, s->step, s->items, space);
		if (s->value_size)
			move(order, s->values_in, s->values_out, s->value_size, s->value_step,
			     s->items, space);
	}
	free(order);
	free(other);
	free(space);
	return done;
}

/* ---- CUB's radix sorts: in one tile, or digit by digit between two buffers */

struct places { /* of the launch's arguments */
	unsigned keys_in, keys_out, values_in, values_out, items;
};

static bool sort_radix(const struct launch *l, struct places at, unsigned bit, unsigned end)
{
	struct element key = element_of(l, at.keys_in), value = element_of(l, at.values_in);
	const char *order = launch_after(l, "::Policy"), *next, *second;
	if (!order || !(order = strchr(order, ',')) || !(next = strchr(order + 1, ',')) ||
	    !key.size || end <= bit || end > 64)
		return false;
	second = strstr(order, "SortOrder)1");
	struct sorting s = {
		.type = key.type,
		.descending = !strncmp(order, ", true", 6) || (second && second < next),
		.bit = bit,
		.bits = end - bit,
		.items = *(unsigned *)l->arguments[at.items],
		.keys_in = *(char **)l->arguments[at.keys_in],
		.keys_out = *(char **)l->arguments[at.keys_out],
		.values_in = *(char **)l->arguments[at.values_in],
		.values_out = *(char **)l->arguments[at.values_out],
		.size = key.size,
		.step = key.size,
		.value_size = value.size,
		.value_step = value.size,
	};
	return sort(&s);
}

/* (keys in, keys out, values in, values out, items, first bit, end bit, ...) */
bool compute_sort_tile(const struct launch *l)
{
	return sort_radix(l, (struct places){ 0, 1, 2, 3, 4 }, *(unsigned *)l->arguments[5],
			  *(unsigned *)l->arguments[6]);
}

/* (lookback, counters, bins out, bins in, keys out, keys in, values out, values in, items, first
 * bit, bits, ...): one digit, from one buffer to the other */
bool compute_sort_sweep(const struct launch *l)
{
	unsigned bit = *(unsigned *)l->arguments[9];
	return sort_radix(l, (struct places){ 5, 4, 7, 6, 8 }, bit,
			  bit + *(unsigned *)l->arguments[10]);
}

/* ---- CUB's merge sort, all of it at its first kernel: (first buffer, keys in, values in, keys
 * out, values out, items, other keys, other values, ...). What only the program can compare stays.
 */

bool compute_sort_blocks(const struct launch *l)
{
	struct element key = element_of(l, 1), value = element_of(l, 2);
	struct sorting s = {
		.type = strstr(l->name, "LTOp<") ? key.type : NUMBER_NONE,
		.bits = 64,
		.items = *(unsigned *)l->arguments[5],
		.keys_in = *(char **)l->arguments[1],
		.keys_out = *(char **)l->arguments[3],
		.values_in = *(char **)l->arguments[2],
		.values_out = *(char **)l->arguments[4],
		.size = key.size,
		.step = key.size,
		.value_size = value.size,
		.value_step = value.size,
	};
	if (!key.size || !sort(&s))
		return false;
	/* the buffer that the merges would read from */
	char *keys = *(char **)l->arguments[6], *values = *(char **)l->arguments[7];
	if (launch_device(keys, s.items * key.size))
		memcpy(keys, s.keys_out, s.items * key.size);
	if (value.size && launch_device(values, s.items * value.size))
		memcpy(values, s.values_out, s.items * value.size);
	return true;
}

/* ---- PyTorch's sorts of short rows, in place: (TensorInfo of keys, rows, items, step, TensorInfo
 * of values, step, ...), where TensorInfo is data, sizes, strides and dimensions */

struct rows {
	char *data;
	unsigned sizes[DIMENSIONS], strides[DIMENSIONS];
	int dimensions;
};

static uint64_t row_at(const struct rows *r, unsigned row)
{
	uint64_t at = 0;
	for (int d = r->dimensions - 1; d >= 0; d--) {
		at += (uint64_t)(row % r->sizes[d]) * r->strides[d];
		row /= r->sizes[d];
	}
	return at;
}

static bool rows_read(struct rows *r, const void *from)
{
	memcpy(r, from, sizeof *r);
	if (r->dimensions < 1 || r->dimensions > DIMENSIONS)
		return false;
	for (int d = 0; d < r->dimensions; d++)
		if (!r->sizes[d])
			return false;
	return true;
}

bool compute_sort_rows(const struct launch *l)
{
	struct rows keys, values;
	unsigned rows = *(unsigned *)l->arguments[1], items = *(unsigned *)l->arguments[2];
	size_t step = *(unsigned *)l->arguments[3], value_step = *(unsigned *)l->arguments[5];
	enum number_type type = launch_type(launch_after(l, "TensorInfo<"));
	bool descending = strstr(l->name, "radixSortKVInPlace<") ? *(bool *)l->arguments[6]
								 : strstr(l->name, "GTOp<") != NULL;
	size_t size = number_size(type), value_size = sizeof(int64_t);
	if (!type || !strstr(l->name, "TensorInfo<long, unsigned int>") ||
	    !rows_read(&keys, l->arguments[0]) || !rows_read(&values, l->arguments[4]))
		return false;
	if ((uint64_t)rows * items > COMPUTED_PLACES) {
		launch_leaves(l, values.data, (uint64_t)rows * items * value_size);
		return true;
	}
	for (unsigned row = 0; row < rows; row++) {
		char *key = keys.data + row_at(&keys, row) * size;
		char *value = values.data + row_at(&values, row) * value_size;
		struct sorting s = { .type = type,
				     .descending = descending,
				     .bits = 64,
				     .items = items,
				     .keys_in = key,
				     .values_in = value,
				     .keys_out = key,
				     .values_out = value,
				     .size = size,
				     .value_size = value_size,
				     .step = step * size,
				     .value_step = value_step * value_size };
		if (!sort(&s))
			return false;
	}
	return true;
}

/* (long *out, count, items a row): the earlier position of each item of a row */
bool compute_places_in_row(const struct launch *l)
{
	int64_t *out = *(int64_t **)l->arguments[0];
	unsigned count = *(unsigned *)l->arguments[1], row = *(unsigned *)l->arguments[2];
	if (count > COMPUTED_INTEGERS) {
		launch_leaves(l, out, count * sizeof *out);
		return true;
	}
	if (!row || !launch_device(out, count * sizeof *out))
		return false;
	launch_writes(out, count * sizeof *out);
	for (unsigned i = 0; i < count; i++)
		out[i] = i % row;
	return true;
}

/* Routing of tokens to experts, and the kernels that follow from it.
 *
 * topk() of a row has the indices of its largest numbers if the launch before drew them at random
 * (random.c). Else it has representative indices, since nobody computed what it looks at: with E
 * entries a row and k chosen of them, balanced (CUDASIM_ROUTING, the default)  token t takes t*k,
 * t*k + 1 ... modulo E skewed   expert e is taken 1/(e + 1) as often as the first (Zipf's law, as
 * popular experts have it); a token's choices differ, the next free expert replaces one taken twice
 * What PyTorch then makes of them (one-hot masks, histograms, counts) is computed, so that every
 * size that follows agrees with every other.
 */
#include "device/common.h"
#include "device/memory.h"
#include "device/settings.h"
#include "kernels/computed.h"
#include "kernels/random.h"

#include <string.h>

enum { EXPERTS = 4096 };

/* PyTorch's TensorInfo<type, index>: data, sizes[25], strides[25], dimensions. */
struct tensor_info {
	char *data;
	uint64_t sizes[DIMENSIONS], strides[DIMENSIONS];
	int dimensions;
};

static bool read_info(struct tensor_info *t, const void *from, bool wide)
{
	const char *at = from;
	size_t word = wide ? 8 : 4;
	memcpy(&t->data, at, sizeof t->data);
	at += sizeof t->data;
	for (int i = 0; i < DIMENSIONS; i++) {
		t->sizes[i] = t->strides[i] = 0;
		memcpy(&t->sizes[i], at + (size_t)i * word, word);
		memcpy(&t->strides[i], at + (size_t)(DIMENSIONS + i) * word, word);
	}
	memcpy(&t->dimensions, at + 2 * DIMENSIONS * word, sizeof t->dimensions);
	return t->dimensions >= 1 && t->dimensions <= DIMENSIONS && memory_is_device(t->data);
}

static uint64_t info_offset(const struct tensor_info *t, uint64_t index)
{
	uint64_t offset = 0;
	for (int i = t->dimensions - 1; i >= 0; i--) {
		uint64_t size = t->sizes[i] ? t->sizes[i] : 1;
		offset += index % size * t->strides[i];
		index /= size;
	}
	return offset;
}

/* ---- the choice of experts */

static uint64_t skewed(uint64_t turn, uint64_t experts)
{
	/* turns are spread over 0 ... 1 by multiples of the golden ratio */
	double at = (double)(turn * 0x9e3779b97f4a7c15ull >> 11) * 0x1p-53, total = 0;
	for (uint64_t e = 0; e < experts; e++)
		total += 1.0 / (double)(e + 1);
	at *= total;
	for (uint64_t e = 0; e < experts; e++)
		if ((at -= 1.0 / (double)(e + 1)) < 0)
			return e;
	return experts - 1;
}

static void choose(int64_t *chosen, uint64_t token, uint64_t count, uint64_t experts)
{
	unsigned char taken[EXPERTS] = { 0 };
	for (uint64_t j = 0; experts && j < count; j++) {
		uint64_t turn = token * count + j;
		uint64_t e =
			settings.routing == ROUTING_SKEWED ? skewed(turn, experts) : turn % experts;
		while (taken[e])
			e = (e + 1) % experts;
		taken[e] = 1;
		chosen[j] = (int64_t)e;
	}
}

/* The choice of a row that was drawn at random. */
static void choose_drawn(int64_t *chosen, float *row, uint64_t count, uint64_t experts,
			 bool largest)
{
	for (uint64_t j = 0; j < count; j++) {
		uint64_t best = 0;
		for (uint64_t e = 1; e < experts; e++)
			if (largest ? row[e] > row[best] : row[e] < row[best])
				best = e;
		chosen[j] = (int64_t)best;
		row[best] = largest ? -__builtin_inff() : __builtin_inff();
	}
}

/* (input, row length, k, largest, rows, step in a row, values, step, indices, step, ...) */
bool compute_topk(const struct launch *l)
{
	struct tensor_info in, out;
	bool wide = !strstr(l->name, "unsigned int, "), largest = *(bool *)l->arguments[3];
	uint64_t length = 0, count = 0, rows = 0, step = 0;
	size_t word = wide ? 8 : 4;
	memcpy(&length, l->arguments[1], word);
	memcpy(&count, l->arguments[2], word);
	memcpy(&rows, l->arguments[4], word);
	memcpy(&step, l->arguments[9], word);
	if (length > EXPERTS)
		return true; /* not experts: samplers and similar code decide no size */
	int64_t chosen[EXPERTS];
	float drawn[EXPERTS];
	bool readable = read_info(&in, l->arguments[0], wide);
	if (!read_info(&out, l->arguments[8], wide) || count > length ||
	    rows * count > COMPUTED_PLACES)
		return false;
	for (uint64_t row = 0; row < rows; row++) {
		const float *from =
			readable ? (const float *)(const void *)in.data + info_offset(&in, row)
				 : NULL;
		if (from && random_normals(drawn, from, length))
			choose_drawn(chosen, drawn, count, length, largest);
		else
			choose(chosen, row, count, length);
		for (uint64_t j = 0; j < count; j++) {
			int64_t *to = (int64_t *)out.data + info_offset(&out, row) + j * step;
			if (!launch_device(to, 8))
				return false;
			*to = chosen[j];
		}
		launch_writes((int64_t *)out.data + info_offset(&out, row),
			      ((count ? count - 1 : 0) * step + 1) * 8);
	}
	return true;
}

/* ---- kernels that follow from the choice */

static size_t opaque_size(const struct launch *l)
{
	const char *text = launch_after(l, "OpaqueType<");
	int size = text ? *text - '0' : 0;
	return text && text[1] == '>' && (size == 1 || size == 2 || size == 4 || size == 8)
		       ? (size_t)size
		       : 0;
}

/* The element of a dimension, from `base` on, that an index names; NULL: there is none. */
static char *element_at(const char *base, const char *index, int64_t length, int64_t step,
			size_t element)
{
	if (!launch_device(index, 8))
		return NULL;
	int64_t place = *(const int64_t *)index;
	if (place < 0 || place >= length)
		return NULL;
	const char *at = base + (size_t)(place * step) * element;
	return launch_device(at, element) ? (char *)at : NULL;
}

/* (int count, lambda): layout of the output and the indices, then indices, length of the dimension,
 * the operation, output, step in the dimension, ..., value. One-hot and routing maps are made so.
 */
bool compute_scatter_fill(const struct launch *l)
{
	const char *state = l->arguments[1];
	struct strided s;
	struct {
		const char *indices;
		int64_t length;
		uint64_t operation;
		char *output;
		int64_t step, elements;
		char value[8];
	} captured;
	uint64_t count = *(unsigned *)l->arguments[0], at[ARGUMENTS];
	size_t element = opaque_size(l), size = strided_read(&s, state, 2);
	if (!element || !size)
		return !element;
	memcpy(&captured, state + round_up(size, 8), sizeof captured);
	if (!strstr(l->name, "TensorAssign"))
		return true;
	launch_reads(captured.indices, strided_reach(&s, 1) + 8);
	if (count > COMPUTED_PLACES) {
		launch_leaves(l, captured.output, strided_reach(&s, 0) + element);
		return true;
	}
	for (uint64_t i = 0; i < count; i++) {
		strided_offsets(&s, i, at);
		char *to = element_at(captured.output + at[0], captured.indices + at[1],
				      captured.length, captured.step, element);
		if (!to)
			return false;
		memcpy(to, captured.value, element);
	}
	return true;
}

/* (int count, lambda): layout of the output, the input and the indices, then indices, length of the
 * dimension, the operation, output, step in the input's dimension, ..., input. */
bool compute_gather(const struct launch *l)
{
	const char *state = l->arguments[1];
	struct strided s;
	struct {
		const char *indices;
		int64_t length;
		uint64_t operation;
		char *output;
		int64_t step, elements;
		const char *input;
	} captured;
	uint64_t count = *(unsigned *)l->arguments[0], at[ARGUMENTS];
	size_t element = opaque_size(l), size = strided_read(&s, state, 3);
	if (element != 1 && element != 8) /* others are rather activations, as in compute_index() */
		return true;
	if (!size)
		return false;
	memcpy(&captured, state + round_up(size, 8), sizeof captured);
	if (count > COMPUTED_PLACES) {
		launch_leaves(l, captured.output, strided_reach(&s, 0) + element);
		return true;
	}
	for (uint64_t i = 0; i < count; i++) {
		strided_offsets(&s, i, at);
		const char *from = element_at(captured.input + at[1], captured.indices + at[2],
					      captured.length, captured.step, element);
		if (!from || !launch_device(captured.output + at[0], element))
			return false;
		memcpy(captured.output + at[0], from, element);
	}
	launch_reads(captured.input, element);
	launch_reads(captured.indices, strided_reach(&s, 2) + 8);
	launch_writes(captured.output, strided_reach(&s, 0) + element);
	return true;
}

/* (count, lambda): layout of output, input and index; output, input, number of indices, their data,
 * sizes and steps (25 each). */
bool compute_index(const struct launch *l)
{
	const char *state = l->arguments[1];
	struct strided s;
	struct {
		char *output;
		const char *input;
		int indices; /* wider from PyTorch 2.1 on */
		const char *index[DIMENSIONS];
		int64_t sizes[DIMENSIONS], steps[DIMENSIONS];
	} captured;
	uint64_t count = *(unsigned *)l->arguments[0], at[ARGUMENTS];
	size_t element = opaque_size(l), size = strided_read(&s, state, 3);
	/* rows of activations are left out: masks and counts are integers of 1 or 8 bytes */
	if (element != 1 && element != 8)
		return true;
	if (!size)
		return false;
	memcpy(&captured, state + round_up(size, 8), sizeof captured);
	if (count > COMPUTED_PLACES) {
		launch_leaves(l, captured.output, strided_reach(&s, 0) + element);
		return true;
	}
	if (captured.indices < 1 || captured.indices > DIMENSIONS)
		return false;
	for (uint64_t i = 0; i < count; i++) {
		strided_offsets(&s, i, at);
		const char *from = captured.input + at[1];
		for (int d = 0; d < captured.indices; d++) {
			const char *index = captured.index[d] + at[2];
			if (!launch_device(index, 8))
				return false;
			int64_t place = *(const int64_t *)index;
			from += (place < 0 ? place + captured.sizes[d] : place) * captured.steps[d];
		}
		if (!launch_device(from, element) ||
		    !launch_device(captured.output + at[0], element))
			return false;
		memcpy(captured.output + at[0], from, element);
	}
	launch_reads(captured.input, element);
	launch_reads(captured.index[0], strided_reach(&s, 2) + 8);
	launch_writes(captured.output, strided_reach(&s, 0) + element);
	return true;
}

/* <type, index, unsigned or unsigned long, ...>(output, input, index, dimension of the output, of
 * the input, ..., elements of an index, ...): rows that are integers or booleans */
static bool select_rows(const struct launch *l, const char *mark, unsigned inner)
{
	struct tensor_info to, from, index;
	const char *types = launch_after(l, mark), *next = strchr(types, ',');
	enum number_type type = launch_type(types),
			 place = next ? launch_type(next + 2) : NUMBER_NONE;
	bool wide = next && !strstr(next, ", unsigned int, ");
	int to_at = *(int *)l->arguments[3], from_at = *(int *)l->arguments[4];
	uint64_t count = 0, rows;
	if (!number_integral(type) || !place)
		return true;
	if (!read_info(&to, l->arguments[0], wide) || !read_info(&from, l->arguments[1], wide) ||
	    !read_info(&index, l->arguments[2], wide) || to_at < 0 || to_at >= to.dimensions ||
	    from_at < 0 || from_at >= from.dimensions)
		return false;
	memcpy(&count, l->arguments[inner], wide ? 8 : 4);
	rows = index.sizes[0];
	if (product(rows, count) > COMPUTED_PLACES) {
		launch_leaves(l, to.data, number_size(type));
		return true;
	}
	for (uint64_t i = 0; i < rows; i++) {
		const char *which = index.data + i * index.strides[0] * number_size(place);
		if (!launch_device(which, number_size(place)))
			return false;
		uint64_t row = number_bits(number_load(which, place));
		for (uint64_t k = 0; k < count; k++) {
			uint64_t in = info_offset(&from, k) + row * from.strides[from_at];
			uint64_t out = info_offset(&to, k) + i * to.strides[to_at];
			const char *read = from.data + in * number_size(type);
			char *write = to.data + out * number_size(type);
			if (in > BEYOND || !launch_device(read, number_size(type)) ||
			    !launch_device(write, number_size(type)))
				return false;
			memcpy(write, read, number_size(type));
		}
	}
	launch_reads(from.data, number_size(type));
	launch_reads(index.data, rows * number_size(place));
	launch_writes(to.data, number_size(type));
	return true;
}

bool compute_index_select(const struct launch *l)
{
	return select_rows(l, "indexSelectSmallIndex<", 5);
}

/* The number of all elements comes before that of an index's. */
bool compute_index_select_large(const struct launch *l)
{
	return select_rows(l, "indexSelectLargeIndex<", 6);
}

/* repeat_interleave(): <type>(repetitions, their running sums, output, how many, elements of the
 * output) */
bool compute_repeats(const struct launch *l)
{
	enum number_type type = launch_type(launch_after(l, "compute_cuda_kernel<"));
	const char *repeats = *(char **)l->arguments[0], *ends = *(char **)l->arguments[1];
	char *output = *(char **)l->arguments[2];
	uint64_t count = *(uint64_t *)l->arguments[3], length = *(uint64_t *)l->arguments[4];
	size_t size = number_size(type);
	if (!type || !length)
		return true;
	if (count > COMPUTED_PLACES || length > COMPUTED_PLACES) {
		launch_leaves(l, output, product(length, size));
		return true;
	}
	if (!launch_device(repeats, count * size) || !launch_device(ends, count * 8) ||
	    !launch_device(output, length * size))
		return false;
	launch_reads(repeats, count * size);
	launch_reads(ends, count * 8);
	launch_writes(output, length * size);
	for (uint64_t i = 0, at = 0; i < count; i++)
		for (const uint64_t end = ((const uint64_t *)ends)[i]; at < end && at < length;
		     at++)
			number_store(output + at * size, type, i);
	return true;
}

/* <output, input, index, ...>(output, partial, input, bins, least, most, elements, weights) */
bool compute_histogram(const struct launch *l)
{
	struct tensor_info to, from;
	const char *types = launch_after(l, "kernelHistogram1D<"), *next = strchr(types, ',');
	enum number_type out = launch_type(types), in = next ? launch_type(next + 2) : NUMBER_NONE;
	bool wide = next && !strstr(next, ", unsigned int, ");
	int64_t bins = *(int64_t *)l->arguments[3];
	uint64_t count = 0;
	if (!out || !in || !read_info(&to, l->arguments[0], wide) ||
	    !read_info(&from, l->arguments[2], wide))
		return false;
	enum number_type bound = number_floating(in) ? in : NUMBER_INT64;
	number least = number_load(l->arguments[4], bound),
	       most = number_load(l->arguments[5], bound);
	memcpy(&count, l->arguments[6], wide ? 8 : 4);
	if (count > COMPUTED_PLACES || bins < 1 || most <= least ||
	    !launch_device(from.data, count * number_size(in)) ||
	    !launch_device(to.data, (uint64_t)bins * number_size(out)))
		return false;
	launch_reads(from.data, count * number_size(in));
	launch_writes(to.data, (uint64_t)bins * number_size(out));
	for (uint64_t i = 0; i < count; i++) {
		number x = number_load(from.data + i * number_size(in), in);
		if (x < least || x > most)
			continue;
		int64_t bin = (int64_t)((x - least) * bins / (most - least));
		char *at = to.data + (size_t)(bin < bins ? bin : bins - 1) * number_size(out);
		number_store(at, out, number_load(at, out) + 1);
	}
	return true;
}

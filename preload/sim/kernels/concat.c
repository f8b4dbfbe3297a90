/* torch.cat() and torch.stack() of small tensors: object collectives join sizes and bytes with
 * it. */
#include "device/settings.h"
#include "kernels/computed.h"

#include <stdlib.h>
#include <string.h>

/* The most bytes of an input: of objects and their sizes; of indices, which are 64-bit integers. */
enum {
	CONCAT_BYTES = 1 << 16,
	CONCAT_INDEX_BYTES = COMPUTED_PLACES * 8,
	CONCAT_DIMENSIONS = 4,
	CONCAT_INPUTS = 1024
};

struct shape { /* PyTorch's TensorSizeStride<unsigned, 4> */
	unsigned sizes[CONCAT_DIMENSIONS], strides[CONCAT_DIMENSIONS];
};

struct concat {
	size_t element;
	unsigned capacity; /* inputs that the metadata has room for */
	unsigned shapes;   /* inputs with a shape of their own */
	unsigned dimensions, along, step;
	char *output;
	const char *metadata;
	struct shape to;
};

/* <type, index, dimensions, capacity, shapes, ...> */
static bool read_types(struct concat *c, const char *text)
{
	const char *opaque = strstr(text, "OpaqueType<"), *comma = strchr(text, ',');
	if (!comma)
		return false;
	c->element = opaque && opaque < comma
			     ? (size_t)strtoul(opaque + strlen("OpaqueType<"), NULL, 10)
			     : number_size(launch_type(text));
	if (!c->element || c->element > 16 ||
	    strncmp(comma, ", unsigned int, ", strlen(", unsigned int, ")) != 0)
		return false;
	char *end;
	c->dimensions = (unsigned)strtoul(comma + strlen(", unsigned int, "), &end, 10);
	c->capacity = *end == ',' ? (unsigned)strtoul(end + 1, &end, 10) : 0;
	c->shapes = *end == ',' ? (unsigned)strtoul(end + 1, &end, 10) : 0;
	return c->dimensions >= 1 && c->dimensions <= CONCAT_DIMENSIONS && c->capacity &&
	       c->capacity <= CONCAT_INPUTS && c->shapes && c->shapes <= c->capacity;
}

static uint64_t offset_in(const struct shape *s, unsigned dimensions, unsigned along,
			  unsigned length, uint64_t index)
{
	uint64_t offset = 0;
	for (unsigned d = dimensions - 1; d; d--) {
		uint64_t size = d == along ? length : s->sizes[d];
		if (!size)
			return 0;
		offset += index % size * s->strides[d];
		index /= size;
	}
	return offset + index * s->strides[0];
}

/* CatArrInputTensorMetadata: pointers, offsets, lengths, numbers of elements, "is contiguous",
 * shapes; the arrays have room for `capacity`. */
static bool copy_input(const struct concat *c, unsigned i)
{
	size_t n = c->capacity;
	const char *from = ((const char *const *)(const void *)c->metadata)[i];
	const unsigned *words = (const unsigned *)(const void *)(c->metadata + 8 * n);
	unsigned offset = words[i], length = words[n + i], elements = words[2 * n + i];
	const char *flags = (const char *)(words + 3 * n);
	bool contiguous = flags[i];
	struct shape own;
	memcpy(&own, flags + n + (c->shapes > 1 ? i : 0) * sizeof own, sizeof own);
	uint64_t most = c->element == 1   ? settings.copy_max
			: c->element == 8 ? CONCAT_INDEX_BYTES
					  : CONCAT_BYTES;
	if (elements * c->element > most)
		return true; /* larger than objects and their sizes */
	if (elements && !launch_device(from, elements * c->element))
		return false;
	launch_reads(from, elements * c->element);
	for (uint64_t e = 0; e < elements; e++) {
		uint64_t to = (uint64_t)offset * c->step +
			      offset_in(&c->to, c->dimensions, c->along, length, e);
		uint64_t at = contiguous ? e : offset_in(&own, c->dimensions, c->along, length, e);
		if (!launch_device(from + at * c->element, c->element) ||
		    !launch_device(c->output + to * c->element, c->element))
			return false;
		memcpy(c->output + to * c->element, from + at * c->element, c->element);
	}
	return true;
}

/* (output, metadata, output's shape, dimension, its step): a row of blocks for each input. */
bool compute_concat(const struct launch *l)
{
	struct concat c = { .output = *(char **)l->arguments[0],
			    .metadata = l->arguments[1],
			    .along = *(unsigned *)l->arguments[3],
			    .step = *(unsigned *)l->arguments[4] };
	const char *types = strchr(launch_after(l, "CatArrayBatchedCopy"), '<');
	memcpy(&c.to, l->arguments[2], sizeof c.to);
	if (!types || !read_types(&c, types + 1))
		return true; /* larger tensors decide no sizes */
	for (unsigned i = 0; i < l->rows && i < c.capacity; i++)
		if (!copy_input(&c, i))
			return false;
	return true;
}

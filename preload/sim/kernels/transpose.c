/* Transposed copies of large matrices, as PyTorch's copy_() makes them from 2.15 on: routing maps
 * of experts are turned so. */
#include "device/copy.h"
#include "kernels/computed.h"

#include <stdlib.h>
#include <string.h>

struct matrix { /* in words, of `packed` elements each */
	int64_t width, height, from_pitch, to_pitch;
	unsigned slices;
};

static void transpose(char *to, const char *from, const struct matrix *s, size_t size)
{
	for (int64_t row = 0; row < s->width; row++)
		for (int64_t column = 0; column < s->height; column++)
			memcpy(to + (size_t)(row * s->to_pitch + column) * size,
			       from + (size_t)(column * s->from_pitch + row) * size, size);
}

/* <word, packed elements, ...>(from, to, width, height, pitch of `from`, pitch of `to`); newer ones
 * have the numbers in a structure, with the number of matrices. */
bool compute_transpose(const struct launch *l)
{
	const char *types = launch_after(l, "transpose_copy_tiled_kernel<");
	size_t word = number_size(launch_type(types));
	const char *packed = strchr(types, ','), *from = *(char **)l->arguments[0];
	char *to = *(char **)l->arguments[1];
	struct matrix s = { .slices = 1 };
	if (strstr(l->name, "TransposeCopyArgs")) {
		memcpy(&s, l->arguments[2], sizeof s.width * 4 + sizeof s.slices);
		packed = packed ? strchr(packed + 1, ',') : NULL; /* after "is batched" */
	} else {
		s.width = *(int64_t *)l->arguments[2], s.height = *(int64_t *)l->arguments[3];
		s.from_pitch = *(int64_t *)l->arguments[4];
		s.to_pitch = *(int64_t *)l->arguments[5];
	}
	unsigned long each = packed ? strtoul(packed + 1, NULL, 10) : 0;
	each = each ? each : 1;
	if (!word || word % each || s.width < 1 || s.height < 1 || s.from_pitch < s.width ||
	    s.to_pitch < s.height)
		return false;
	s.width *= (int64_t)each, s.height *= (int64_t)each;
	s.from_pitch *= (int64_t)each, s.to_pitch *= (int64_t)each;
	size_t size = word / each;
	uint64_t in = product((uint64_t)s.height - 1, (uint64_t)s.from_pitch * size) +
		      (uint64_t)s.width * size;
	uint64_t out = product((uint64_t)s.width - 1, (uint64_t)s.to_pitch * size) +
		       (uint64_t)s.height * size;
	if (product((uint64_t)s.width, (uint64_t)s.height) > COMPUTED_FLAGS || s.slices != 1) {
		if (size == 1 || size == 8) /* booleans or indices */
			launch_leaves(l, to, out);
		return true;
	}
	if (!launch_device(from, in) || !launch_device(to, out))
		return false;
	launch_reads(from, in);
	launch_writes(to, out);
	if (copy_used(from, in) || copy_used(to, out))
		transpose(to, from, &s, size);
	return true;
}

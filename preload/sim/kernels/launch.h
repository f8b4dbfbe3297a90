/* A launch of a computed kernel: its name, its arguments, the tensors that they describe. */
#ifndef CUDASIM_LAUNCH_H
#define CUDASIM_LAUNCH_H

#include "device/common.h"
#include "kernels/number.h"

/* A launch of a kernel that kernels.def names. */
struct launch {
	const char *name; /* demangled */
	void **arguments;
	unsigned columns, rows; /* of its grid of blocks */
};

/* The most elements that are computed: of integers and booleans, which decide sizes; of elements
 * that are only counted, summed or picked out (one-hot masks of many experts); and of floats,
 * which only have to be finite when the host reads them. Attention masks of long sequences are
 * larger: nothing depends on them. */
enum { COMPUTED_INTEGERS = 1 << 20, COMPUTED_COUNTS = 1 << 23, COMPUTED_FLOATS = 1 << 10 };

/* The text after `mark` in the name; NULL if it is not there. */
const char *launch_after(const struct launch *l, const char *mark);
/* The type that begins at `text`, up to the next comma, bracket or parenthesis. */
enum number_type launch_type(const char *text);
bool launch_device(const void *pointer, uint64_t bytes);
/* The memory that argument `n` of the kernel points to: size 0 if there is none; a type only if
 * it is a number. */
struct element {
	enum number_type type;
	size_t size;
};
struct element element_of(const struct launch *l, unsigned n);
#define BEYOND (1ull << 48) /* more bytes than any memory has */

/* PyTorch's OffsetCalculator<arguments, unsigned>: sizes and, by dimension, each argument's stride.
 */
enum { DIMENSIONS = 25, ARGUMENTS = 5 };
struct strided {
	unsigned dimensions, arguments, sizes[DIMENSIONS], strides[DIMENSIONS][ARGUMENTS];
};
/* Reads one; returns its bytes, 0 if it cannot be one. */
size_t strided_read(struct strided *s, const void *from, unsigned arguments);
/* The offset of an argument's last element, up to BEYOND. */
uint64_t strided_reach(const struct strided *s, unsigned argument);
void strided_offsets(const struct strided *s, uint64_t index, uint64_t offsets[ARGUMENTS]);

#endif

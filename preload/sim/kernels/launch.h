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

/* The most elements that are computed: of booleans and of integers, which decide sizes (a one-hot
 * mask of 256 experts, 8 a token, 65,536 tokens has 2^27); of those that are sorted, or found by
 * an index (experts by token: 2^19); of integers that become floats; and of other floats, which
 * only have to be finite when the host reads them. What is larger is left alone, and tainted
 * (device/taint.h). */
enum {
	COMPUTED_FLAGS = 1 << 27,
	COMPUTED_INTEGERS = 1 << 28,
	COMPUTED_PLACES = 1 << 24,
	COMPUTED_CONVERTED = 1 << 20,
	COMPUTED_FLOATS = 1 << 10,
};
/* By the type of the elements. */
uint64_t computed_most(enum number_type type);

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

/* All offsets in turn, up to CHUNK at a time. */
enum { CHUNK = 256 };
struct walk {
	const struct strided *layout;
	unsigned at[DIMENSIONS];
	uint64_t offsets[ARGUMENTS];
};
void walk_next(struct walk *w, uint64_t offsets[][CHUNK], unsigned n);
/* A row of `items` elements of these bytes, for all `arguments`. */
struct strided strided_row(uint64_t items, unsigned arguments, const size_t *bytes);

/* The arguments of a kernel that point to integers that it may write, one bit each. Their number is
 * not known, so launch_taint() taints the first element of each. */
unsigned launch_outputs(const char *name);
void launch_taint(const struct launch *l, unsigned outputs);
/* The memory that a launch reads, and then the memory that it writes: results of tainted data are
 * tainted. launch_leaves(): the memory that the launch should have written and did not. */
void launch_begins(void);
void launch_reads(const void *from, uint64_t bytes);
void launch_writes(const void *to, uint64_t bytes);
void launch_leaves(const struct launch *l, const void *to, uint64_t bytes);

#endif

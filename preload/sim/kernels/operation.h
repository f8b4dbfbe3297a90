/* The operation of an elementwise kernel: a functor, whose C++ type names it. */
#ifndef CUDASIM_OPERATION_H
#define CUDASIM_OPERATION_H

#include "kernels/launch.h"

struct operation {
	char functor[1024];         /* its type in the kernel's name */
	const unsigned char *state; /* its bytes */
	unsigned inputs;
	enum number_type in[3], out;
	number (*apply)(const struct operation *, const number *);
	number scalar;
	int choice;
	bool copies, swapped; /* swapped: the scalar is the left operand */
};

/* The types of a lambda's parameters: "...{lambda(long, long)#1}". */
unsigned operation_lambda(const char *functor, enum number_type types[3]);
/* Reads the functor. False: not an operation that is computed. */
bool operation_parse(struct operation *o);
/* A result in floating point that is not computed is 0. */
void operation_settle(struct operation *o);
bool operation_copies_input(const struct operation *o);
number operation_result(const struct operation *o, number in[3]);
/* The same for CHUNK elements at most, all of them integers; false: only operation_result() has
 * it. */
bool operation_results(const struct operation *o, int64_t *out, int64_t in[3][CHUNK], unsigned n);
/* Comparisons of real numbers. */
bool operation_compares(const struct operation *o, int64_t *out, double in[3][CHUNK], unsigned n);

#endif

/* The sizes of what training keeps: a parameter, its gradient and its states have the same size. */
#ifndef MEMTRACE_TRAINED_H
#define MEMTRACE_TRAINED_H

#include "attribution/lifetime.h"
#include "trace/tables.h"
#include "util/size_counts.h"

#define TRAINED_MIN_SIZE \
	(INT64_C(64) << 10)   /* smaller blocks have no stack, and many have one size */
#define TRAINED_MOST_STATES 3 /* of each parameter: Adam with amsgrad */
#define TRAINED_MIN_SIZES 3   /* different sizes, of which something can be said */

/* The counts by size. */
struct trained {
	struct size_counts parameters, states, gradients;
	bytes parameter_bytes, gradient_bytes;
	bytes extra_gradients; /* beyond one of each parameter */
	int by_gradients;      /* each parameter's gradient is there: they tell what is trained */
	uint64_t states_each;
};

/* `n` is zero, `l` is classified. */
void trained_count(struct trained *n, const struct lifetimes *l, const struct tables *t,
		   int is_backward);
void trained_release(struct trained *n);

/* Trained parameters of a size; 0 if nothing shows it. */
uint64_t trained_of(const struct trained *n, bytes size);
/* The same of about that size: blocks of one size may have kept a rest of their segments. */
uint64_t trained_near(const struct trained *n, bytes size);
/* The parameters of a size, or its gradients if those are more: what has a gradient is a parameter,
 * whatever category its own block has. */
uint64_t trained_at_most(const struct trained *n, bytes size);
/* Does a parameter have this size? */
int trained_has(const struct trained *n, bytes size);
/* Have all gradients together this size, or all parameters, but for what is too small to count? */
int trained_is_all(const struct trained *n, bytes size);

#endif

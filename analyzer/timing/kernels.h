/* The time of single kernels and collectives, in seconds. */
#ifndef TIMING_KERNELS_H
#define TIMING_KERNELS_H

#include "timing/gpu_speed.h"

/* A product of matrices m x k and k x n, `batch` times in one launch. */
struct product {
	double m, n, k, batch;
	double rate;      /* operations a second */
	double width;     /* bytes of an element of the factors */
	double out_width; /* bytes moved for an element of the result */
};
double product_time(const struct gpu_speed *g, const struct product *p);

/* `kernels` kernels that move `bytes` through the device's memory. */
double stream_time(const struct gpu_speed *g, double bytes, int kernels);

/* A group of ranks, `stride` ranks apart from each other. */
struct group {
	double ranks, stride;
};
/* An all-gather or reduce-scatter: every rank holds all `bytes` after it, or before it. An
 * all-reduce is two of them. */
double gather_time(const struct gpu_speed *g, double bytes, struct group of);
/* Every rank sends `bytes` in all, an equal part to each. */
double exchange_time(const struct gpu_speed *g, double bytes, struct group of);
/* `bytes` to the next rank of the group, which does the same. */
double ring_time(const struct gpu_speed *g, double bytes, struct group of);

#endif

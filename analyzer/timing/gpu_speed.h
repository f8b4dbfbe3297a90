/* The operations and bytes of a GPU in a second: data sheets (speeds.def), and the part of them
 * that kernels reach (efficiency.def). */
#ifndef TIMING_GPU_SPEED_H
#define TIMING_GPU_SPEED_H

#include "config/config.h"

/* Bytes or floating-point operations in a second. */
struct gpu_speed {
	double peak;    /* half-precision tensor arithmetic of the data sheet */
	double product; /* matrix products, half precision */
	double single;  /* matrix products, single precision */
	double attention_forward, attention_backward;
	double memory;
	double peers;   /* one way between GPUs of a node */
	double network; /* one way to other nodes */
	int processors, capability;
	int64_t node; /* GPUs of a node */
};

/* 0: the job's GPU is not known. */
int gpu_speed_read(struct gpu_speed *speed, const struct config *c);

#endif

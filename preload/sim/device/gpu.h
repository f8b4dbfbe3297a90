/* The GPUs that can be simulated (gpus.def), and their attributes. */
#ifndef CUDASIM_GPU_H
#define CUDASIM_GPU_H

#include <stddef.h>
#include <stdint.h>

struct gpu {
	const char *name;
	int nominal_gib;
	uint64_t memory;
	int major, minor, multiprocessors;
	const char *device_name;
	uint64_t l2_cache, shared_optin;
	int clock_mhz, memory_clock_mhz;
};

/* The GPU of this name, alias or full device name; NULL: there is none. */
const struct gpu *gpu_find(const char *name);
/* Writes "one of A100, ..." into OUT; returns its length. */
size_t gpu_names(char *out, size_t size);
/* The threads that it holds at a time. */
uint64_t gpu_threads(const struct gpu *gpu);
/* The value of a CU_DEVICE_ATTRIBUTE of device number DEVICE; 0 for a feature that it lacks. */
int gpu_attribute(const struct gpu *gpu, int attribute, int device);
/* The driver's default of a CU_LIMIT. */
uint64_t gpu_limit(int limit);

#endif

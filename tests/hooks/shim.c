/* Another tracer of CUDA in the same process: it counts allocations, and calls the next one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int cudaMalloc(void **p, size_t n);
EXPORT int cudaFree(void *p);

static int allocated, released;

EXPORT int cudaMalloc(void **p, size_t n)
{
	int (*next)(void **, size_t) = (int (*)(void **, size_t))dlsym(RTLD_NEXT, "cudaMalloc");

	allocated++;
	return next ? next(p, n) : -1;
}

EXPORT int cudaFree(void *p)
{
	int (*next)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, "cudaFree");

	released++;
	return next ? next(p) : -1;
}

__attribute__((destructor)) static void say(void)
{
	printf("shim %d %d\n", allocated, released);
}

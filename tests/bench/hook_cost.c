/*
 * Calls a c10 report function as the caching allocator does, in pairs of alloc and free, and
 * returns ns an event. Loaded by hook_cost.py under a real Python stack; measuring the preload's
 * definition and then PyTorch's own gives the hook's cost.
 */
#include <stdint.h>
#include <stddef.h>
#include <time.h>

struct device {
	int8_t type, index;
};
typedef void report(void *pointer, int64_t bytes, size_t allocated, size_t reserved,
		    struct device device);

double hook_cost(report *f, long pairs, int64_t bytes);

double hook_cost(report *f, long pairs, int64_t bytes)
{
	struct device cuda0 = { 1, 0 };
	struct timespec a, b;

	clock_gettime(CLOCK_MONOTONIC, &a);
	for (long i = 0; i < pairs; i++) {
		void *p = (void *)(uintptr_t)(0x7f0000000000 + (uint64_t)(i & 1023) * 0x200000);
		f(p, bytes, (size_t)bytes, 1u << 30, cuda0);
		f(p, -bytes, 0, 1u << 30, cuda0);
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) /
	       (2.0 * (double)pairs);
}

/*
 * Calls a c10 report function as the caching allocator does, in pairs of alloc and free. Loaded by
 * hook_cost.py under a real Python stack; measuring the preload's definition and then PyTorch's own
 * gives the hook's cost, without the loop's and the clock's.
 */
#include <stdint.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __x86_64__
#include <x86intrin.h>
#endif

#define OTHER (64u << 20) /* bytes of other data, of which a part is touched at a time */
#define LINE 64
#define MAX_EVENTS 10000

struct device {
	int8_t type, index;
};
typedef void report(void *pointer, int64_t bytes, size_t allocated, size_t reserved,
		    struct device device);

double hook_cost(report *f, long pairs, int64_t bytes);
void touch(long kib);
void cold_cost(report *f, long events, int64_t bytes, long kib, double quartiles[2]);

static double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static uint64_t ticks(void)
{
#ifdef __x86_64__
	unsigned processor;

	return __rdtscp(&processor);
#else
	return (uint64_t)now(CLOCK_MONOTONIC);
#endif
}

static void *block(long i)
{
	return (void *)(uintptr_t)(0x7f0000000000 + (uint64_t)(i & 1023) * 0x200000);
}

/* ns of processor time an event, one right after the other. */
double hook_cost(report *f, long pairs, int64_t bytes)
{
	struct device cuda0 = { 1, 0 };
	double began = now(CLOCK_THREAD_CPUTIME_ID);

	for (long i = 0; i < pairs; i++) {
		f(block(i), bytes, (size_t)bytes, 1u << 30, cuda0);
		f(block(i), -bytes, 0, 1u << 30, cuda0);
	}
	return (now(CLOCK_THREAD_CPUTIME_ID) - began) / (2.0 * (double)pairs);
}

/* Reads so many KiB of whole lines spread over all pages of a large buffer, other ones each time.
 */
void touch(long kib)
{
	static volatile char *other;
	static size_t next;

	if (!other) {
		other = malloc(OTHER);
		if (!other)
			return;
		memset((char *)(uintptr_t)other, 1, OTHER);
	}
	for (long i = 0; i < kib * 1024 / LINE; i++) {
		next = (next + 17 * LINE) % OTHER;
		(void)other[next];
	}
	next += LINE;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The first quartile and the median of the ns of one event, each after so much else was touched. */
void cold_cost(report *f, long events, int64_t bytes, long kib, double quartiles[2])
{
	static uint64_t taken[MAX_EVENTS];
	struct device cuda0 = { 1, 0 };
	uint64_t first = ticks();
	double began = now(CLOCK_MONOTONIC), rate;

	events = events < MAX_EVENTS ? events : MAX_EVENTS;
	for (long i = 0; i < events; i++) {
		uint64_t before;

		touch(kib);
		before = ticks();
		f(block(i / 2), i & 1 ? -bytes : bytes, (size_t)bytes, 1u << 30, cuda0);
		taken[i] = ticks() - before;
	}
	rate = (now(CLOCK_MONOTONIC) - began) / (double)(ticks() - first);
	qsort(taken, (size_t)events, sizeof(*taken), by_size);
	quartiles[0] = (double)taken[events / 4] * rate;
	quartiles[1] = (double)taken[events / 2] * rate;
}

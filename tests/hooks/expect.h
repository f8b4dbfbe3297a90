/* The common part of the programs of this folder: calls with expected results, and the events
 * that must follow. */
#ifndef HOOKS_EXPECT_H
#define HOOKS_EXPECT_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MiB (1ll << 20)
#define ADDR(p) ((uint64_t)(uintptr_t)(p))
#define ANY UINT64_MAX

static int failed;

static inline void check(const char *what, int result, int expected)
{
	if (result == expected)
		return;
	fprintf(stderr, "%s: %d, not %d\n", what, result, expected);
	failed = 1;
}

static inline void event(const char *kind, uint64_t address, long long bytes, int device)
{
	if (address == ANY)
		printf("event %s - %lld %d\n", kind, bytes, device);
	else
		printf("event %s %llu %lld %d\n", kind, (unsigned long long)address, bytes, device);
}

/* The layer's total is this now, before the next event. */
static inline void level(const char *kind, long long bytes, int device)
{
	event(kind, ANY, bytes, device);
}

struct family {
	const char *name;
	void (*run)(void);
};

/* The exit status of a program that runs the one called `name`. */
static inline int run_family(const struct family *families, unsigned count, const char *name)
{
	for (unsigned i = 0; i < count; i++)
		if (strcmp(name, families[i].name) == 0) {
			families[i].run();
			return failed;
		}
	return 2;
}

#define RUN_FAMILY(families, name) \
	run_family(families, sizeof(families) / sizeof(*(families)), name)

#endif

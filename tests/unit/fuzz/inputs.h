/* Inputs of the fuzz targets that a test makes itself. */
#ifndef MEMTRACE_TEST_FUZZ_INPUTS_H
#define MEMTRACE_TEST_FUZZ_INPUTS_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of xorshift: not 0. The same numbers follow in each run. */
static uint64_t random_state = 1;

static inline uint64_t random_number(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % below;
}

/* In memory of exactly its size, so that a sanitizer sees who reads past its end. */
static inline void fuzz_exactly(const void *data, size_t size)
{
	uint8_t *exact = malloc(size + !size);

	if (!exact)
		abort();
	memcpy(exact, data, size);
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
}

#endif

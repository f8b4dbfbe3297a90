/* Files of tests/unit/fuzz/corpus. */
#ifndef MEMTRACE_TEST_SEEDS_H
#define MEMTRACE_TEST_SEEDS_H

#include "fixture.h"
#include "util/util.h"

/* The caller frees it; `*size` bytes of it are the file's, 64 KiB at most. */
static inline void *read_seed(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	char *data = xcalloc(1, 1 << 16);

	assert_non_null(f);
	*size = fread(data, 1, 1 << 16, f);
	fclose(f);
	return data;
}

#endif

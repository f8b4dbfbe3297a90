/* FNV-1a, a number that tells contents apart, unless somebody chose them to be alike. */
#ifndef MEMTRACE_FNV_H
#define MEMTRACE_FNV_H

#include <stddef.h>
#include <stdint.h>

/* The number of nothing. */
#define FNV_START UINT64_C(0xcbf29ce484222325)

/* The number of what `hash` is of, and of `content` behind it. */
static inline uint64_t fnv_add(uint64_t hash, const void *content, size_t size)
{
	const unsigned char *at = content;

	for (size_t i = 0; i < size; i++)
		/* NOLINTNEXTLINE(clang-analyzer-core.*): callers have set all bytes */
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
	return hash;
}

#endif

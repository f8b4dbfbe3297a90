/*
 * The ranges of addresses that are mapped, as a search tree: an unmap may cover a part of one, or
 * several. They never overlap.
 */
#ifndef MEMTRACE_IMPORT_MAPPED_H
#define MEMTRACE_IMPORT_MAPPED_H

#include <stdint.h>

struct mapped {
	uint64_t begin, end;
	uint32_t stack;
};

struct cut {
	struct mapped was;
	struct mapped
		rest[2]; /* what is left of it, below and above; of 0 bytes if there is none */
};

static inline int64_t mapped_size(struct mapped range)
{
	return (int64_t)(range.end - range.begin);
}

/* `to`: NULL at first. Adds a range that shares nothing with the others. */
void mapped_add(void **to, struct mapped range);
/* Takes out a range that shares addresses with [begin, end). Returns whether there was one. */
int mapped_take(void **from, uint64_t begin, uint64_t end, struct mapped *taken);
/* Takes only [begin, end) out of such a range: its parts outside of that stay. */
int mapped_cut(void **from, uint64_t begin, uint64_t end, struct cut *cut);
void mapped_release(void **ranges);

#endif

/* What was live at a moment, by stack and category. */
#ifndef MEMTRACE_SNAPSHOT_H
#define MEMTRACE_SNAPSHOT_H

#include "attribution/lifetime.h"
#include "trace/tables.h"

/*
 * Live blocks that came from the same stack and are in the same category. Within a model it does not matter who called that: a pipeline does
 * so from several stacks. Without Python frames, blocks of different threads are different groups.
 */
struct group {
	uint64_t key; /* of the stack */
	uint32_t stack;
	uint16_t thread;
	uint8_t category;
	uint64_t blocks;
	bytes bytes, smallest, largest;
};

struct snapshot {
	struct group *groups; /* largest first */
	size_t count;
	bytes bytes;
	uint64_t blocks;
	bytes by_category[CATEGORIES];
};

/* Of blocks that have their categories; the caller frees the groups. */
struct snapshot snapshot_of(const struct lives *l, const struct tables *t);

#endif

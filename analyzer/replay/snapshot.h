/* The live blocks of a moment, in groups of one stack and category. */
#ifndef MEMTRACE_SNAPSHOT_H
#define MEMTRACE_SNAPSHOT_H

#include "duplicates/duplicates.h"
#include "duplicates/untied.h"
#include "inference/live_inference.h"
#include "attribution/lifetime.h"
#include "passes/passes.h"
#include "trace/tables.h"
#include "util/size_counts.h"

/*
 * Live blocks with the same stack and category. Two stacks that differ only outside of the model
 * are one group: the schedule of a pipeline calls the model from several lines. Blocks without
 * Python frames are grouped by their thread too, and by the place in the forward pass to which they
 * belong.
 */
struct block_group {
	uint32_t stack; /* of one of the blocks */
	uint16_t thread;
	uint8_t category;
	uint32_t origin;        /* backward_origin() */
	uint64_t blocks, alike; /* alike: about as large as the largest (sizes_are_alike()) */
	bytes bytes, smallest, largest;
};

struct snapshot {
	struct block_group *groups; /* by bytes, largest first */
	size_t count;
	bytes bytes;
	uint64_t blocks;
	bytes by_category[CATEGORIES];
	struct size_counts parameters; /* the sizes of its parameters */
	struct live_passes passes;
	struct duplicates duplicates;
	struct untied untied;
	struct live_inference inference;
};

/* `l` is classified, `t` attributed. The caller releases the result. `passes`,
 * `duplicates`, `untied` and `inference` are left empty. */
struct snapshot snapshot_of(const struct lifetimes *l, const struct tables *t);
void snapshot_release(struct snapshot *s);

#endif

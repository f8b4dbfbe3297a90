/*
 * What a trace has of a job's shape, whatever was live when: the blocks that parameters were made
 * in, in their order; how often the forward pass made blocks of a size; and which code ran. It is
 * what memtrace infers a configuration from.
 */
#ifndef MEMTRACE_CENSUS_H
#define MEMTRACE_CENSUS_H

#include <stddef.h>
#include <stdint.h>

#include "util/util.h"

/* Who makes parameters, as a sequence of its own: they are made, then converted, then sharded. */
enum maker { MAKER_INIT, MAKER_APPLY, MAKER_SHARDED, MAKERS };

struct made {
	bytes *sizes;
	size_t count, room;
};

/* Blocks of one size that were made while a module was called. */
struct size_count {
	bytes size;
	uint64_t count;
};

struct census {
	struct made made[MAKERS];
	struct size_count *small; /* below what has a stack, made before the first forward pass */
	size_t small_count, small_room;
	struct size_count *forward; /* by size */
	size_t forward_count, forward_room;
	bytes bucket;           /* the largest of DeepSpeed's buffers for gradients; 0: none */
	unsigned bucket_places; /* that make them */
	uint32_t bucket_place;
	uint64_t marks; /* rows of infer_marks.def that a frame matched */
};

struct trace;

void census_take(struct census *c, const struct trace *t);
void census_release(struct census *c);
/* Adds one of `size` to a list that is sorted by size. */
void census_count(struct size_count **list, size_t *count, size_t *room, bytes size);
/* How many blocks of exactly this size the forward pass made. */
uint64_t census_forward(const struct census *c, bytes size);

/* ---- infer_marks.def: what the name of a frame says ---- */
struct sign {
	const char *key, *value, *file, *function;
};
extern const struct sign marks[];
extern const size_t mark_count; /* at most 64 */

#endif

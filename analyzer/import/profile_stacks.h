/* The stack of each moment of a thread, from the ranges of time of a profile: of Python functions,
 * or of operators if the profile has no Python. */
#ifndef MEMTRACE_IMPORT_PROFILE_STACKS_H
#define MEMTRACE_IMPORT_PROFILE_STACKS_H

#include "import/image.h"
#include "import/profile.h"

struct profile_thread;
struct profile_name;
struct interned;

struct profile_stacks {
	const struct profile *profile;
	struct image *image;
	uint32_t module;
	struct profile_thread *threads;
	struct profile_name *names;
	struct interned *frames, *stacks;
	uint64_t words; /* of all stacks */
};

/* Sorts the ranges of the profile. */
void stacks_begin(struct profile_stacks *s, struct profile *p, struct image *i, uint32_t module);
/* The stack of a thread at a time, which must not be before the last one that was asked. Sets
 * whether autograd runs then. */
uint32_t stacks_at(struct profile_stacks *s, uint32_t thread, int64_t at_ns, int *in_backward);
/* Are there more stacks than are kept? Those behind them have no frames. */
int stacks_are_too_many(const struct profile_stacks *s);
void stacks_end(struct profile_stacks *s);

#endif

/* The sizes of a model's blocks, call by call. */
#ifndef MEMTRACE_CALL_SIZES_H
#define MEMTRACE_CALL_SIZES_H

#include "attribution/attribution.h"
#include "attribution/frames.h"
#include "inference/history.h"
#include "trace/tables.h"

static inline int stack_is_of_model(const struct tables *t, size_t stack)
{
	uint32_t flags = tables_stack_flags(t, (uint32_t)stack);

	return flags & STACK_MODULE && !(flags & (STACK_INIT | STACK_LOADING));
}

/* Are the latest blocks of most lines of the model at most half of what these lines made before?
 * The prompt had more tokens. */
int is_small_call(const struct history *h, const struct tables *t);

#endif

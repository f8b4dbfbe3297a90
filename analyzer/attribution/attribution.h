/* Attribution of a trace: the meaning of its stacks, modules and threads, found once for each. */
#ifndef MEMTRACE_ATTRIBUTION_H
#define MEMTRACE_ATTRIBUTION_H

#include "attribution/activity.h"
#include "attribution/frames.h"
#include "attribution/owner.h"
#include "trace/trace.h"

/* Fills in the part of the tables that attribution writes (trace/tables.h). A second call does
 * nothing. */
void attribute_trace(struct trace *t);

static inline const struct stack_info *tables_stack_info(const struct tables *t, uint32_t stack)
{
	return &t->stack_info[stack < t->stack_count ? stack : MT_NO_STACK];
}

/* The flags (enum stack_flag) and the hint of a stack, in one word. */
static inline uint32_t tables_stack_flags(const struct tables *t, uint32_t stack)
{
	return tables_stack_info(t, stack)->flags;
}

/* Has the stack a Python frame? */
static inline int tables_stack_has_frames(const struct tables *t, uint32_t stack)
{
	return (tables_stack_flags(t, stack) & STACK_FRAMES) != 0;
}

/* Flags of activities whose blocks do not belong to one training step. */
#define STACK_NOT_OF_A_STEP                                                             \
	(STACK_INIT | STACK_LOADING | STACK_SAVING | STACK_OPTIMIZER | STACK_BACKWARD | \
	 STACK_CLIPPING)

/* Is it the job's own code, outside of models, optimizers and their like? */
static inline int tables_stack_is_own_code(const struct tables *t, uint32_t stack)
{
	uint32_t flags = tables_stack_flags(t, stack);
	enum block_hint hint = stack_hint(flags);

	return flags & STACK_FRAMES &&
	       !(flags & (STACK_MODULE | STACK_LOSS | STACK_NOT_OF_A_STEP)) &&
	       (hint == HINT_NOTHING || hint == HINT_INPUTS);
}

/* Was the block allocated in a module hook (called by the module beside forward())? */
int tables_stack_is_hook(const struct tables *t, uint32_t stack);

/* The owner of what the stack's module allocates. */
static inline enum owner tables_stack_owner(const struct tables *t, uint32_t stack)
{
	return (enum owner)t->stack_owners[stack < t->stack_count ? stack : MT_NO_STACK];
}

#endif

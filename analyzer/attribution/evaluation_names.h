/* Names of functions that suggest evaluation, and whether training calls these functions too. */
#ifndef MEMTRACE_EVALUATION_NAMES_H
#define MEMTRACE_EVALUATION_NAMES_H

#include "attribution/attribution.h"
#include "trace/tables.h"

#define EVALUATION_NAMES 8 /* more different functions on the stacks of one job are passed over */

struct evaluation_names {
	struct mt_frame list[EVALUATION_NAMES];
	size_t count;
};

/* Adds the FRAME_EVALUATE functions of a stack. */
void evaluation_names_add(struct evaluation_names *n, const struct tables *t, uint32_t stack);
void evaluation_names_join(struct evaluation_names *n, const struct evaluation_names *more);
/* Has the stack a function whose name suggests evaluation, and that training does not call too? */
int evaluation_names_tell(const struct evaluation_names *trained, const struct tables *t,
			  uint32_t stack);

/* The same of a stack with these tags. */
static inline int evaluation_names_are_of(const struct evaluation_names *trained,
					  const struct tables *t, uint32_t stack, stack_tags tags)
{
	return tags & TAGGED(EVALUATE) && evaluation_names_tell(trained, t, stack);
}

#endif

/*
 * What the optimizers of a job get, by its source: the names whose .parameters() stand in their
 * calls, as "head" in AdamW(model.head.parameters()).
 */
#ifndef MEMTRACE_OPTIMIZED_H
#define MEMTRACE_OPTIMIZED_H

#include "source/model_parts.h"
#include "trace/tables.h"

struct optimized {
	struct model_parts trained;
	struct model_parts left_out; /* what a condition on the names of parameters leaves out */
	/* Some optimizer gets what this does not understand, or all of an object (`self`). */
	int unknown;
	size_t names; /* that were followed to what they stand for */
};

/* Is it the name of an optimizer's class? */
int optimized_is_class(struct str name);
/* Adds what one file says, but for calls whose conditions were false. */
void optimized_add(struct optimized *o, const struct tables *t, const struct python_file *f);
/* To be called behind the last file. */
void optimized_end(struct optimized *o);

#endif
